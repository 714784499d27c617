"""A goal environment: a point in a square that should reach a place, with a reward of -1 until it is there."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict

NEAR = 0.06


class Reach(gym.Env):
    """Moves by up to 0.25 in each direction, for 20 steps."""

    metadata = {"render_modes": []}  # noqa: RUF012, as gymnasium declares it

    def __init__(self, limit: int = 20) -> None:
        place = Box(-1, 1, (2,))
        self.observation_space = Dict({"observation": Box(-1, 1, (3,)), "desired_goal": place, "achieved_goal": place})
        self.action_space = Box(-1, 1, (2,))
        self.limit = limit

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.time, self.place = 0, np.zeros(2, np.float32)
        self.goal = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.seen(), {}

    def seen(self) -> dict[str, np.ndarray]:
        """The observation; its first part also has a number that means nothing."""
        extra = self.np_random.uniform(-1, 1, 1)
        parts = np.concatenate([self.place, extra]).astype(np.float32)
        return {"observation": parts, "desired_goal": self.goal.copy(), "achieved_goal": self.place.copy()}

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> np.ndarray:
        """-1 where the goal is further away than 0.06, else 0."""
        return -(np.linalg.norm(achieved - desired, axis=-1) > NEAR).astype(np.float32)

    def step(self, action: np.ndarray) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        self.time += 1
        self.place = np.clip(self.place + 0.25 * action, -1, 1).astype(np.float32)
        reward = float(self.compute_reward(self.place, self.goal, {}))
        return self.seen(), reward, self.ends(), self.time == self.limit, {"is_success": reward == 0}

    def ends(self) -> bool:
        """Whether reaching the goal ends the episode."""
        return False


class Ending(Reach):
    """The same, and the episode ends when the goal is reached."""

    def compute_terminations(self, achieved: Any, desired: Any, info: Any) -> np.ndarray:
        """Whether the goal is reached."""
        return np.linalg.norm(achieved - desired, axis=-1) <= NEAR

    def ends(self) -> bool:
        return bool(self.compute_terminations(self.place, self.goal, {}))


if "Reach-v0" not in gym.registry:
    gym.register("Reach-v0", entry_point="tests.goal_worlds:Reach")
