"""Recorded episodes for tests, and a small environment to record them in."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

Episode = dict[str, np.ndarray]


class Walk(gym.Env):
    """Three numbers to observe, two actions with unequal bounds. Episodes terminate after 6 steps or are cut off after 8."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float64)
    action_space = gym.spaces.Box(np.array([-3, 0.5]), np.array([1, 2.5]), dtype=np.float64)
    metadata = {"render_modes": []}  # noqa: RUF012, as gymnasium declares it

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.time, self.length = 0, int(self.np_random.choice([6, 9]))
        return self.np_random.normal(size=3), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.time += 1
        ends = self.time == self.length
        return self.np_random.normal(size=3), float(action[0] - action[1]), ends, not ends and self.time == 8, {}


class Stacks(gym.Wrapper):
    """Images of 6 x 6 pixels with two actions, for a stack of frames; four steps, then a time limit."""

    def __init__(self) -> None:
        super().__init__(Walk())
        self.observation_space = gym.spaces.Box(0, 255, (6, 6), np.uint8)
        self.action_space = gym.spaces.Discrete(2, start=5)

    def _image(self) -> np.ndarray:
        return self.env.unwrapped.np_random.integers(0, 255, (6, 6), np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.env.reset(seed=seed)
        self.time = 0
        return self._image(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        assert action in (5, 6)
        self.time += 1
        return self._image(), 1.0 * self.time, False, self.time == 4, {}


def stacked() -> gym.Env:
    """The images, stacked by three."""
    return gym.wrappers.FrameStackObservation(Stacks(), 3)


def record(env: gym.Env, episodes: int, limit: int = 50, seed: int = 0) -> list[Episode]:
    """Episodes of random actions, cut off after `limit` steps, as gymnasium's own names have it."""
    env.action_space.seed(seed)
    found = []
    for number in range(episodes):
        observation, _ = env.reset(seed=seed + number)
        columns: dict[str, list[Any]] = {"observations": [np.array(observation)]}
        ended = False
        while not ended:
            action = env.action_space.sample()
            observation, reward, terminated, truncated, _ = env.step(action)
            truncated = truncated or len(columns["observations"]) == limit
            columns["observations"].append(np.array(observation))
            step = {"actions": action, "rewards": reward, "terminated": terminated, "truncated": truncated}
            for name, value in step.items():
                columns.setdefault(name, []).append(value)
            ended = terminated or truncated
        found.append({name: np.array(column) for name, column in columns.items()})
    return found


def joined(episodes: list[Episode]) -> Episode:
    """Several episodes as one recording, with the final observation of each."""
    return {name: np.concatenate([episode[name] for episode in episodes]) for name in episodes[0]}


def in_d4rl(episodes: list[Episode]) -> Episode:
    """Several episodes as one recording with the names of D4RL."""
    flat = {name: column for name, column in joined(episodes).items() if name in ("actions", "rewards")}
    flat["observations"] = np.concatenate([episode["observations"][:-1] for episode in episodes])
    flat["next_observations"] = np.concatenate([episode["observations"][1:] for episode in episodes])
    flat["terminals"] = np.concatenate([episode["terminated"] for episode in episodes])
    flat["timeouts"] = np.concatenate([episode["truncated"] for episode in episodes]).astype(np.uint8)
    return flat


def save(file: Any, recording: Episode, *, compressed: bool = False) -> None:
    """Writes a recording as .npz."""
    arrays: dict[str, Any] = dict(recording)
    (np.savez_compressed if compressed else np.savez)(file, **arrays)
