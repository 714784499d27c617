"""Goal environments: where their observations hold the achieved and the desired goal, and what reaching a goal is worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, MultiBinary

from gemrl.core.exceptions import BadValue, EnvironmentFault
from gemrl.envs.flattening import Entry
from gemrl.envs.spaces import Spaces

ENTRIES = ("achieved_goal", "desired_goal")


@dataclass(frozen=True)
class Goals:
    """The goals within an environment's observations, and its own functions of them."""

    achieved: slice
    """Where the vector of an observation holds the goal that was achieved."""
    desired: slice
    shape: tuple[int, ...]
    """The shape of a goal in the environment."""
    compute_reward: Callable[[Any, Any, Any], Any]
    compute_terminations: Callable[[Any, Any, Any], Any] | None
    """None if the environment does not say which goals end an episode."""

    def reward(self, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        """The reward of each step that achieved a goal while another was desired. [T, G], [T, G] -> [T]."""
        return self._called(self.compute_reward, achieved, desired).astype(np.float32)

    def terminated(self, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        """Whether each of these steps ends the episode [T]; never, if the environment does not say."""
        if self.compute_terminations is None:
            return np.zeros(len(achieved), bool)
        return self._called(self.compute_terminations, achieved, desired).astype(bool)

    def _called(self, function: Callable[[Any, Any, Any], Any], achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        name = getattr(function, "__name__", "compute_reward")
        try:
            shape = len(achieved), *self.shape
            found = np.asarray(function(achieved.reshape(shape), desired.reshape(shape), [{}] * len(achieved)))
        except Exception as error:
            raise EnvironmentFault(f"the environment's {name} raised {type(error).__name__}: {error}") from error
        if found.shape != (len(achieved),):
            raise EnvironmentFault(f"the environment's {name} must answer {len(achieved)} goals at once, not with {found.shape}")
        if not np.isfinite(found.astype(np.float64)).all():
            raise EnvironmentFault(f"the environment's {name} gave a value that is not finite")
        return found


def goals_of(env: Any, spaces: Spaces) -> Goals:
    """The goals of an environment, of a list, or of a vector environment in this process. Raises if it has none."""
    single = env[0] if isinstance(env, list) else getattr(env, "envs", [env])[0]
    if not isinstance(single, gym.Env):
        raise BadValue("hindsight needs environments in this process: make them with n_envs, or with gymnasium's SyncVectorEnv")
    places = _places(spaces.entries)
    missing = [name for name in ENTRIES if name not in places]
    if missing or spaces.flattening is None:
        raise BadValue(f"hindsight needs Dict observations with {' and '.join(ENTRIES)}, and this one has no {missing[0]}")
    if spaces.layout.picture:
        raise BadValue("hindsight needs observations without images")
    spaces_of_goals = [entry.space for entry in spaces.entries if entry.path in [(name,) for name in ENTRIES]]
    if not all(isinstance(space, (Box, MultiBinary)) for space in spaces_of_goals):
        raise BadValue("hindsight needs goals that are a Box or MultiBinary")
    first, second = (places[name] for name in ENTRIES)
    if spaces_of_goals[0].shape != spaces_of_goals[1].shape:
        raise BadValue("hindsight needs achieved_goal and desired_goal of the same shape")
    reward = _method(single, "compute_reward")
    if reward is None:
        raise BadValue("hindsight needs an environment with compute_reward(achieved_goal, desired_goal, info)")
    return Goals(first, second, tuple(spaces_of_goals[0].shape or ()), reward, _method(single, "compute_terminations"))


def _places(entries: tuple[Entry, ...]) -> dict[str, slice]:
    """Where each top-level entry is in the vector of an observation."""
    places, start = {}, 0
    for entry in entries:
        if len(entry.path) == 1:
            places[str(entry.path[0])] = slice(start, start + entry.size)
        start += entry.size
    return places


def _method(env: gym.Env, name: str) -> Callable[[Any, Any, Any], Any] | None:
    """A method of an environment or of one that it wraps; None if there is none."""
    return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None
