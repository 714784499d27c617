"""Calls environments and checks what they return: shapes, types and finite numbers."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from gemrl.core.exceptions import EnvironmentFault
from gemrl.core.processes import env_call
from gemrl.envs.making import first_line
from gemrl.envs.spaces import Spaces


class Outcome(NamedTuple):
    """The checked result of one step of one environment."""

    observation: np.ndarray  # [*O]
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


def _fault(error: Exception, where: str, returns: str) -> EnvironmentFault:
    """The error for an exception in an environment, with the line of its code; `returns` says what the call should return."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    inside = Path(frame.filename).parent == Path(__file__).parent
    line = "" if inside else f" ({frame.filename}, line {frame.lineno})"
    hint = f"; in gymnasium, {returns}" if "to unpack" in str(error) or inside else ""
    return EnvironmentFault(f"the environment raised {type(error).__name__} at {where}: {first_line(error)}{line}{hint}")


def checked_reset(env: gym.Env, seed: int | None, spaces: Spaces, where: str) -> np.ndarray:
    """Resets the environment; returns the first observation [*O]."""
    try:
        with env_call(where):
            observation, _ = env.reset(seed=seed)
    except Exception as error:
        raise _fault(error, where, "reset returns observation and info") from error
    return checked_observation(spaces, observation, where)


def checked_step(env: gym.Env, action: np.ndarray, spaces: Spaces, where: str) -> Outcome:
    """Takes an action [A]. Raises an error that names `where` if the environment fails or returns something invalid."""
    env_action = spaces.env_action(action)
    try:
        with env_call(where):
            observation, reward, terminated, truncated, info = env.step(env_action)
    except Exception as error:
        raise _fault(error, where, "step returns observation, reward, terminated, truncated, info") from error
    try:
        number = float(reward)
    except (TypeError, ValueError):
        raise EnvironmentFault(f"the environment returned the reward {reward!r}, which is not a number, at {where}") from None
    if not np.isfinite(number):
        raise EnvironmentFault(f"the environment returned the reward {number} at {where}")
    return Outcome(checked_observation(spaces, observation, where), number, bool(terminated), bool(truncated), info)


def checked_observation(spaces: Spaces, observation: Any, where: str) -> np.ndarray:
    """The observation as agents see it [*O]. Raises if it has the wrong size, is not finite or is outside its space."""
    try:
        numbers = np.asarray(observation)
        if numbers.dtype.kind not in "biuf":
            raise TypeError(f"it holds {numbers.dtype}, not numbers")
    except (TypeError, ValueError) as error:
        raise EnvironmentFault(f"the environment returned an observation that is not an array at {where}: {error}") from None
    if numbers.size != spaces.layout.size:
        shapes = f"{numbers.shape}, not {spaces.observation_space.shape}"
        raise EnvironmentFault(f"the environment returned an observation of shape {shapes}, at {where}")
    converted = spaces.agent_observation(numbers)
    if converted.dtype == np.float32 and not np.isfinite(converted).all():
        raise EnvironmentFault(f"the environment returned NaN or infinity in its observation at {where}")
    if spaces.layout.states and not 0 <= converted[0] < spaces.layout.states:
        raise EnvironmentFault(f"the environment returned the observation {observation}, which is outside its space, at {where}")
    return converted


def checked_observations(spaces: Spaces, observations: Any, where: str) -> np.ndarray:
    """Observations of several environments [E, *O]."""
    return np.stack([checked_observation(spaces, observation, where) for observation in observations])
