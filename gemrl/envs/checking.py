"""Calls of an environment whose results are checked: shapes, types and finite numbers."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from gemrl.core.exceptions import EnvironmentFault
from gemrl.core.processes import env_call
from gemrl.envs.making import _first_line
from gemrl.envs.spaces import Spaces


class Outcome(NamedTuple):
    """What one environment answers to one action, checked."""

    observation: np.ndarray  # [*O]
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


def _fault(error: Exception, where: str, returns: str) -> EnvironmentFault:
    """What an environment raised, with the line of its code; `returns` is what gymnasium asks of the call."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    inside = Path(frame.filename).parent == Path(__file__).parent
    line = "" if inside else f" ({frame.filename}, line {frame.lineno})"
    hint = f"; in gymnasium, {returns}" if "to unpack" in str(error) or inside else ""
    return EnvironmentFault(f"the environment raised {type(error).__name__} at {where}: {_first_line(error)}{line}{hint}")


def checked_reset(env: gym.Env, seed: int | None, spaces: Spaces, where: str) -> np.ndarray:
    """The first observation of a new episode [*O]."""
    try:
        with env_call(where):
            observation, _ = env.reset(seed=seed)
    except Exception as error:
        raise _fault(error, where, "reset returns observation and info") from error
    return checked(spaces, observation, where)


def checked_step(env: gym.Env, action: np.ndarray, spaces: Spaces, where: str) -> Outcome:
    """Takes an action [A]; whatever the environment does wrong is told with its place."""
    taken = spaces.taken(action)
    try:
        with env_call(where):
            observation, reward, terminated, truncated, info = env.step(taken)
    except Exception as error:
        raise _fault(error, where, "step returns observation, reward, terminated, truncated, info") from error
    try:
        total = float(reward)
    except (TypeError, ValueError):
        raise EnvironmentFault(f"the environment returned the reward {reward!r}, which is no number, at {where}") from None
    if not np.isfinite(total):
        raise EnvironmentFault(f"the environment returned the reward {total} at {where}")
    return Outcome(checked(spaces, observation, where), total, bool(terminated), bool(truncated), info)


def checked(spaces: Spaces, observation: Any, where: str) -> np.ndarray:
    """The observation as agents see it [*O]; raises if it has the wrong size or is not finite."""
    try:
        numbers = np.asarray(observation)
        if numbers.dtype.kind not in "biuf":
            raise TypeError(f"it holds {numbers.dtype}, not numbers")
    except (TypeError, ValueError) as error:
        raise EnvironmentFault(f"the environment returned an observation that is no array at {where}: {error}") from None
    if numbers.size != spaces.layout.size:
        shapes = f"{numbers.shape}, not {spaces.observation_space.shape}"
        raise EnvironmentFault(f"the environment returned an observation of shape {shapes}, at {where}")
    seen = spaces.seen(numbers)
    if seen.dtype == np.float32 and not np.isfinite(seen).all():
        raise EnvironmentFault(f"the environment returned NaN or infinity in its observation at {where}")
    if spaces.layout.states and not 0 <= seen[0] < spaces.layout.states:
        raise EnvironmentFault(f"the environment returned the observation {observation}, not one of its space, at {where}")
    return seen


def checked_batch(spaces: Spaces, observations: Any, where: str) -> np.ndarray:
    """Observations of several environments [E, *O]."""
    return np.stack([checked(spaces, observation, where) for observation in observations])
