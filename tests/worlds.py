"""Small MDPs that are solved exactly, as environments."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from gemrl.analysis.theory.mdps import MDP


class World(gym.Env):
    """The first of the MDPs, cut after so many steps; with limit 0 it never is."""

    def __init__(self, mdp: MDP, limit: int = 20) -> None:
        self.mdp, self.limit = mdp, limit
        self.observation_space, self.action_space = gym.spaces.Discrete(mdp.size[1]), gym.spaces.Discrete(mdp.size[2])
        self.state = self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps, self.state = 0, int(self.np_random.choice(self.mdp.size[1], p=self.mdp.start[0]))
        return self.state, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        chances = self.mdp.transition[0, self.state, action]
        following = int(self.np_random.choice(len(chances), p=chances))
        reward, self.state, self.steps = float(self.mdp.reward[0, self.state, action, following]), following, self.steps + 1
        terminated = bool(self.mdp.terminal[0, following])
        return following, reward, terminated, not terminated and self.steps == self.limit, {}


def live(q: np.ndarray, mdp: MDP) -> np.ndarray:
    """Values [K, S, A] or [S, A] with those of terminal states, which are nobody's concern, left out."""
    return q[..., ~mdp.terminal[0], :]
