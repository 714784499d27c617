"""Calls environments and checks what they return: shapes, types and finite numbers."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from gemrl.core.exceptions import BadValue, EnvironmentFault
from gemrl.core.processes import env_call
from gemrl.envs.flattening import member_of_batch
from gemrl.envs.importing import first_line
from gemrl.envs.spaces import Spaces

TOO_LARGE = f"which is too large for 32-bit floats (at most {np.finfo(np.float32).max:.2g})"


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
    check_rewards(np.array([number]), where)
    return Outcome(checked_observation(spaces, observation, where), number, bool(terminated), bool(truncated), info)


def check_rewards(rewards: np.ndarray, where: str) -> None:
    """Raises unless all rewards [n] are finite, as 32-bit floats too."""
    bad = rewards[~(np.abs(rewards) <= np.finfo(np.float32).max)]
    if bad.size:
        hint = f", {TOO_LARGE}: scale or clip it" if np.isfinite(bad[0]) else ""
        raise EnvironmentFault(f"the environment returned the reward {bad[0]:g} at {where}{hint}")


def checked_observation(spaces: Spaces, observation: Any, where: str) -> np.ndarray:
    """The observation as agents see it [*O]. Raises if it has the wrong size, is not finite or is outside its space."""
    try:
        numbers = spaces.numbers(observation)
        if numbers.dtype.kind not in "biuf":
            raise TypeError(f"it holds {numbers.dtype}, not numbers")
    except BadValue as error:
        raise EnvironmentFault(f"the environment returned an invalid observation at {where}: {error}") from None
    except (TypeError, ValueError) as error:
        raise EnvironmentFault(f"the environment returned an observation that is not an array at {where}: {error}") from None
    if numbers.size != spaces.layout.values:
        shapes = f"{numbers.shape}, not {spaces.seen.shape}"
        raise EnvironmentFault(f"the environment returned an observation of shape {shapes}, at {where}")
    with np.errstate(over="ignore"):  # it becomes infinite, which is reported below
        converted = spaces.converted(numbers)
        floats = numbers.astype(np.float32) if spaces.layout.picture else converted
    if floats.dtype == np.float32 and not np.isfinite(floats).all():
        raise _not_finite(spaces, numbers.reshape(-1), floats.reshape(-1), where)
    if spaces.layout.states and not 0 <= converted[0] < spaces.layout.states:
        raise EnvironmentFault(f"the environment returned the observation {observation}, which is outside its space, at {where}")
    return converted


def _not_finite(spaces: Spaces, numbers: np.ndarray, converted: np.ndarray, where: str) -> EnvironmentFault:
    """The error for an observation [D] that is not finite, or only not as 32-bit floats; it names the first such entry."""
    entry = int(np.flatnonzero(~np.isfinite(converted))[0])
    place = spaces.flattening.place(entry) if spaces.flattening else f"entry {entry} of {numbers.size}"
    value = f"{numbers[entry]:g} in {place}"
    if np.isfinite(numbers[entry]):
        hint = "scale or clip it, for example with gymnasium.wrappers.TransformObservation"
        whole = "" if spaces.flattening else " of its observation"
        return EnvironmentFault(f"the environment returned {value}{whole} at {where}, {TOO_LARGE}: {hint}")
    return EnvironmentFault(f"the environment returned NaN or infinity in its observation at {where}: {value}")


def checked_observations(spaces: Spaces, observations: Any, lanes: int, where: str) -> np.ndarray:
    """Observations of several environments [E, *O], given as a batch of their space."""
    try:
        each = [member_of_batch(spaces.observation_space, observations, lane) for lane in range(lanes)]
    except (LookupError, TypeError, ValueError):
        raise EnvironmentFault(
            f"the environment did not return a batch of {lanes} observations of its space at {where}"
        ) from None
    return np.stack([checked_observation(spaces, observation, where) for observation in each])
