"""Environments made from small MDPs that can be solved exactly."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from gemrl.analysis.theory.mdps import MDP


class World(gym.Env):
    """The first of the MDPs, truncated after `limit` steps; with limit 0 never."""

    def __init__(self, mdp: MDP, limit: int = 20) -> None:
        self.mdp, self.limit = mdp, limit
        self.observation_space, self.action_space = gym.spaces.Discrete(mdp.size[1]), gym.spaces.Discrete(mdp.size[2])
        self.state = self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps, self.state = 0, int(self.np_random.choice(self.mdp.size[1], p=self.mdp.start[0]))
        return self.state, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        probabilities = self.mdp.transition[0, self.state, action]
        next_state = int(self.np_random.choice(len(probabilities), p=probabilities))
        reward, self.state, self.steps = float(self.mdp.reward[0, self.state, action, next_state]), next_state, self.steps + 1
        terminated = bool(self.mdp.terminal[0, next_state])
        return next_state, reward, terminated, not terminated and self.steps == self.limit, {}


def live(q: np.ndarray, mdp: MDP) -> np.ndarray:
    """Values [K, S, A] or [S, A] without those of terminal states, which are never used."""
    return q[..., ~mdp.terminal[0], :]
