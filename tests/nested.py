"""Environments whose observations and actions are not a single Box or Discrete; importing it registers them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Nested(gym.Env):
    """Random observations of any space; the reward counts the steps, and an episode ends after five of them."""

    metadata = {"render_modes": []}  # noqa: RUF012, as gymnasium declares it

    def __init__(self, observation: gym.Space, action: gym.Space) -> None:
        self.observation_space, self.action_space = observation, action
        self.seen: list[Any] = []
        self.taken: list[Any] = []

    def _observe(self) -> Any:
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        self.seen.append(self.observation_space.sample())
        return self.seen[-1]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.taken.append(action)
        self.time += 1
        return self._observe(), float(self.time), self.time == 5, False, {}


ARM = {"angle": spaces.Box(-3, 3, (2, 2)), "grip": spaces.Discrete(3, start=1)}
ROOM = spaces.Dict(
    {
        "goal": spaces.Box(-1, 1, (2,), np.float64),
        "arm": spaces.Dict(ARM),
        "lamps": spaces.MultiBinary(3),
        "dials": spaces.MultiDiscrete([2, 4], start=[0, -1]),
        "pair": spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 9, (1,), np.int32))),
    }
)
BUTTONS = spaces.MultiDiscrete([3, 2], start=[0, 5])
STICK = spaces.Box(-2, 2, (2,))


class Match(gym.Env):
    """Reward 1 for pressing the buttons that the observation asks for, else 0; an episode has one step."""

    observation_space = spaces.Dict({"first": spaces.Discrete(3), "second": spaces.MultiBinary(1)})
    action_space = spaces.MultiDiscrete([3, 2])
    metadata = {"render_modes": []}  # noqa: RUF012, as gymnasium declares it

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.asked: dict[str, Any] = {
            "first": self.np_random.integers(3),
            "second": self.np_random.integers(2, size=1).astype(np.int8),
        }
        return self.asked, {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        right = action[0] == self.asked["first"] and action[1] == self.asked["second"][0]
        return self.asked, float(right), True, False, {}


def room(**kwargs: Any) -> gym.Env:
    return Nested(ROOM, STICK)


gym.register("Room-v0", entry_point=room)
gym.register("Match-v0", entry_point="tests.nested:Match")
