"""An environment with images and continuous actions: the best action is the place of a bright column."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np


class Dots(gym.Env):
    """Ten steps; the reward is minus the distance between the action and the column, whose place changes at every step."""

    action_space = gym.spaces.Box(-1, 1, (1,))

    def __init__(self, shape: tuple[int, ...] = (9, 9, 2)) -> None:
        self.observation_space = gym.spaces.Box(0, 255, shape, np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        return self._image(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.time += 1
        reward = -abs(float(action[0]) - self.place)
        return self._image(), reward, self.time == 10, False, {}

    def _image(self) -> np.ndarray:
        self.place = self.np_random.uniform(-1, 1)
        image = np.zeros(self.observation_space.shape or (), np.uint8)
        column = round((self.place + 1) / 2 * (image.shape[1] - 1))
        image[:, column] = 255
        return image


gym.register("Dots-v0", entry_point="tests.dots:Dots")
