"""Converts between actions of an environment and those that agents take: in [-1, 1], or the number of a choice."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete

from gemrl.core.exceptions import UnsupportedSpace

ActionSpace: TypeAlias = Box | Discrete | MultiDiscrete | MultiBinary
"""The action spaces that agents can act in."""

MAX_COMBINATIONS = 4096
"""The most combinations of a MultiDiscrete or MultiBinary space: a network has an output for each of them."""


class Actions(ABC):
    """The actions of an environment, as agents see them."""

    size: int
    """How many numbers an agent's action has, A."""
    choices: int
    """How many discrete actions there are; 0 if actions are continuous."""

    @abstractmethod
    def to_env(self, action: np.ndarray) -> Any:
        """An agent's actions [*B, A] as those of the environment [*B, *shape]."""

    @abstractmethod
    def to_agent(self, action: np.ndarray) -> np.ndarray:
        """Actions of the environment [B, *shape] as those of an agent [B, A]."""


class Scaled(Actions):
    """A Box with finite bounds. Agents act in [-1, 1]."""

    choices = 0

    def __init__(self, space: Box) -> None:
        self._space, self.size = space, int(np.prod(space.shape))
        self._low, self._high = space.low.astype(float), space.high.astype(float)

    def to_env(self, action: np.ndarray) -> np.ndarray:
        space = self._space
        unit = (np.clip(action, -1, 1).astype(np.float64).reshape((*action.shape[:-1], *space.shape)) + 1) / 2
        scaled = self._low + unit * (self._high - self._low)
        if space.dtype.kind in "iu":
            scaled = np.rint(scaled)
        return np.asarray(np.clip(scaled.astype(space.dtype), space.low, space.high))  # rounding may exceed the bounds

    def to_agent(self, action: np.ndarray) -> np.ndarray:
        low, high = self._low, self._high
        unit = (np.clip(action.astype(np.float64), low, high) - low) / np.where(high > low, high - low, 1.0)
        return (2 * unit - 1).astype(np.float32).reshape(len(action), -1)


class Numbered(Actions):
    """A Discrete space. Agents number its actions from 0."""

    size = 1

    def __init__(self, space: Discrete) -> None:
        self._start, self.choices = space.start, int(space.n)

    def to_env(self, action: np.ndarray) -> Any:
        return action[..., 0].astype(np.int64) + self._start

    def to_agent(self, action: np.ndarray) -> np.ndarray:
        return (action.astype(np.int64).reshape(-1, 1) - self._start).astype(np.int32)


class Combined(Actions):
    """A MultiDiscrete or MultiBinary space. Agents number all combinations; the last component changes fastest."""

    size = 1

    def __init__(self, space: MultiDiscrete | MultiBinary) -> None:
        counts = counts_of(space)
        self.choices, self._shape = math.prod(counts), tuple(counts)
        start = space.start if isinstance(space, MultiDiscrete) else 0
        found = np.stack(np.unravel_index(np.arange(self.choices), self._shape), axis=-1).reshape(-1, *space.shape)
        self.table = (found + start).astype(space.dtype)
        """The action of each number [choices, *shape]."""
        self._start = np.reshape(start, -1).astype(np.int64)

    def to_env(self, action: np.ndarray) -> np.ndarray:
        return self.table[action[..., 0]]

    def to_agent(self, action: np.ndarray) -> np.ndarray:
        components = action.reshape(len(action), -1).astype(np.int64) - self._start
        return np.ravel_multi_index(tuple(components.T), self._shape).astype(np.int32)[:, None]


def counts_of(space: MultiDiscrete | MultiBinary) -> list[int]:
    """The number of values of each component of an action."""
    return space.nvec.reshape(-1).tolist() if isinstance(space, MultiDiscrete) else [2] * math.prod(space.shape)


def combinations(space: MultiDiscrete | MultiBinary) -> int:
    """The number of actions; only a lower bound if there are extremely many."""
    if isinstance(space, MultiBinary):
        return 1 << min(math.prod(space.shape), 1000)
    return math.prod(counts_of(space))


def actions_of(space: ActionSpace) -> Actions:
    """The conversion for an action space."""
    if isinstance(space, Box):
        return Scaled(space)
    return Numbered(space) if isinstance(space, Discrete) else Combined(space)


def check_actions(space: gym.Space) -> ActionSpace:
    """The space. Raises unless agents can act in it."""
    if not isinstance(space, (Box, Discrete, MultiDiscrete, MultiBinary)):
        known = "Box, Discrete, MultiDiscrete or MultiBinary"
        raise UnsupportedSpace(f"actions must be a {known}, not {type(space).__name__}")
    if not isinstance(space, Discrete) and 0 in space.shape:
        raise UnsupportedSpace(
            f"actions must contain at least one number, but this {type(space).__name__} has shape {space.shape}"
        )
    if isinstance(space, (MultiDiscrete, MultiBinary)):
        count = combinations(space)
        if count > MAX_COMBINATIONS:
            shown = f"{count:,}" if count < 10**12 else "more than a trillion"
            raise UnsupportedSpace(
                f"this {type(space).__name__} has {shown} combinations of actions, but at most {MAX_COMBINATIONS:,} are "
                "supported: wrap the environment so that it has fewer components or values, or a Box of continuous actions"
            )
    if isinstance(space, Box) and not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise UnsupportedSpace(f"action bounds must be finite, not {space}: give the action_space finite low and high")
    return space
