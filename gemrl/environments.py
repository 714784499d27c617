"""gymnasium in, transitions out: environments by name or object, with flat observations and actions in [-1, 1]."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from gemrl.errors import BadValue, CannotMake, EnvironmentFault, GemrlError, MissingExtra, UnsupportedSpace, unknown
from gemrl.watchdog import answering

EXTRAS = {"mujoco": "mujoco", "Box2D": "box2d", "box2d": "box2d", "pygame": "box2d", "ale_py": "atari", "imageio": "mujoco"}
"""Which extra of gemrl brings a module that an environment lacks."""


class Transition(NamedTuple):
    """One step of E environments."""

    observation: np.ndarray  # [E, D]
    action: np.ndarray  # [E, A], in [-1, 1]
    reward: np.ndarray  # [E]
    terminated: np.ndarray  # [E] bool
    truncated: np.ndarray  # [E] bool
    next_observation: np.ndarray  # [E, D], before any reset
    stored: np.ndarray  # [E] bool; False where the environment was only reset


class Episode(NamedTuple):
    """What a finished episode came to."""

    total: float
    length: int


class Step(NamedTuple):
    """What one step of all environments brought."""

    transition: Transition
    observation: np.ndarray  # [E, D], to act on next: of a new episode, where one ended
    ended: list[Episode]
    infos: list[dict[str, Any]]  # one of each environment


def make(env_id: str, **kwargs: Any) -> gym.Env:
    """The environment of that name; `package.module:Env-v0` imports the module first."""
    if env_id.startswith("ALE/"):
        _import("ale_py")
    module, _, _name = env_id.rpartition(":")
    if module:
        _import(module)
    try:
        with _quiet_mujoco(env_id):
            return gym.make(env_id, disable_env_checker=True, **kwargs)
    except gym.error.DependencyNotInstalled as error:
        raise _missing(env_id, str(error)) from None
    except (gym.error.UnregisteredEnv, gym.error.Error) as error:
        if env_id.rpartition(":")[2] in gym.registry:
            raise CannotMake(f"cannot make {env_id}: {_first_line(error)}") from None
        raise unknown("environment", env_id, gym.registry, "; any registered gymnasium id or package.module:Env-v0") from None
    except GemrlError:
        raise
    except Exception as error:
        raise CannotMake(f"cannot make {env_id}: {_first_line(error)}") from None


@contextmanager
def _quiet_mujoco(env_id: str) -> Iterator[None]:
    """Keeps MuJoCo 4 from warning, once per environment, about an old attribute in gymnasium's own model files."""
    spec = gym.registry.get(env_id)
    if spec is None or "mujoco" not in str(spec.entry_point):
        yield
        return
    try:
        import mujoco
    except ImportError:
        raise MissingExtra(f"{env_id} needs what is not installed: pip install 'gemrl[mujoco]'") from None
    told = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda _: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(told)


def _import(module: str) -> None:
    if "" not in sys.path and os.getcwd() not in sys.path:  # an installed command does not see the folder it is called in
        sys.path.insert(0, os.getcwd())
    try:
        importlib.import_module(module)
    except ImportError as error:
        missing = (error.name or "").split(".")[0]
        if missing in EXTRAS:
            raise MissingExtra(f"{missing} is not installed: pip install 'gemrl[{EXTRAS[missing]}]'") from None
        raise CannotMake(f"cannot import {module!r}: {_first_line(error)}") from None
    except Exception as error:
        raise CannotMake(f"importing {module!r} failed: {_first_line(error)}") from None


def _missing(env_id: str, message: str) -> GemrlError:
    name = next((extra for word, extra in EXTRAS.items() if word in message), None)
    if name is None:
        return CannotMake(f"cannot make {env_id}: {_first_line(message)}")
    return MissingExtra(f"{env_id} needs what is not installed: pip install 'gemrl[{name}]'")


def _first_line(error: object) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip(".")


def check_spaces(observation: gym.Space, action: gym.Space) -> None:
    """Raises unless both are Boxes and the actions are bounded."""
    if not isinstance(observation, gym.spaces.Box):
        raise UnsupportedSpace(f"observations must be a Box, not {_kind(observation)}{_flatten_hint(observation)}")
    if isinstance(action, gym.spaces.Discrete):
        raise UnsupportedSpace("discrete actions are not supported yet: actions must be a Box")
    if not isinstance(action, gym.spaces.Box):
        raise UnsupportedSpace(f"actions must be a Box, not {_kind(action)}")
    if not (np.isfinite(action.low).all() and np.isfinite(action.high).all()):
        raise UnsupportedSpace(f"action bounds must be finite, not {action}: give the environment's action_space low and high")


def _kind(space: gym.Space) -> str:
    return type(space).__name__


def _flatten_hint(space: gym.Space) -> str:
    nested = isinstance(space, (gym.spaces.Dict, gym.spaces.Tuple))
    return ": wrap the environment in gymnasium.wrappers.FlattenObservation" if nested else ""


class Scaling:
    """Between an environment's own spaces and what agents see: observations flat and float32, actions in [-1, 1]."""

    def __init__(self, observation: gym.Space, action: gym.Space) -> None:
        check_spaces(observation, action)
        assert isinstance(observation, gym.spaces.Box)
        assert isinstance(action, gym.spaces.Box)
        self.observation_space, self.action_space = observation, action
        self.observation_size = int(np.prod(observation.shape))
        self.action_size = int(np.prod(action.shape))
        self._low, self._high = action.low.astype(np.float64), action.high.astype(np.float64)

    def check_fits(self, model: Scaling) -> None:
        """Raises unless an environment of these spaces fits a model: bounds of actions matter, those of observations do not."""
        if self.observation_space.shape != model.observation_space.shape:
            shapes = self.observation_space.shape, model.observation_space.shape
            raise BadValue(f"the environment's observation_space has shape {shapes[0]}, the model's {shapes[1]}")
        if self.action_space != model.action_space:
            raise BadValue(f"the environment's action_space is {self.action_space}, the model's {model.action_space}")

    def flat(self, observation: Any) -> np.ndarray:
        """An observation as [D]."""
        return np.asarray(observation, dtype=np.float32).reshape(-1)

    def unscaled(self, action: np.ndarray) -> np.ndarray:
        """Actions in [-1, 1] [*B, A] as the environment's own [*B, *shape]."""
        unit = (np.clip(action, -1, 1).astype(np.float64).reshape(*action.shape[:-1], *self._low.shape) + 1) / 2
        scaled = (self._low + unit * (self._high - self._low)).astype(self.action_space.dtype)
        return np.clip(scaled, self.action_space.low, self.action_space.high)  # rounding may step out of the bounds


class Outcome(NamedTuple):
    """What one environment answers to one action, checked."""

    observation: np.ndarray  # [D]
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


def checked_reset(env: gym.Env, seed: int, scaling: Scaling, where: str) -> np.ndarray:
    """The first observation of a new episode [D]."""
    try:
        with answering(where):
            observation, _ = env.reset(seed=seed)
    except Exception as error:
        raise EnvironmentFault(f"the environment raised {type(error).__name__} at {where}: {_first_line(error)}") from error
    return checked(scaling, observation, where)


def checked_step(env: gym.Env, action: np.ndarray, scaling: Scaling, where: str) -> Outcome:
    """Takes an action in [-1, 1]; whatever the environment does wrong is told with its place."""
    try:
        with answering(where):
            observation, reward, terminated, truncated, info = env.step(scaling.unscaled(action))
    except Exception as error:
        raise EnvironmentFault(f"the environment raised {type(error).__name__} at {where}: {_first_line(error)}") from error
    try:
        total = float(reward)
    except (TypeError, ValueError):
        raise EnvironmentFault(f"the environment returned the reward {reward!r}, which is no number, at {where}") from None
    if not np.isfinite(total):
        raise EnvironmentFault(f"the environment returned the reward {total} at {where}")
    return Outcome(checked(scaling, observation, where), total, bool(terminated), bool(truncated), info)


def checked(scaling: Scaling, observation: Any, where: str) -> np.ndarray:
    """The flat observation [D]; raises if it has the wrong size or is not finite."""
    try:
        flat = scaling.flat(observation)
    except (TypeError, ValueError) as error:
        raise EnvironmentFault(f"the environment returned an observation that is no array at {where}: {error}") from None
    if flat.size != scaling.observation_size:
        shapes = f"{np.shape(observation)}, not {scaling.observation_space.shape}"
        raise EnvironmentFault(f"the environment returned an observation of shape {shapes}, at {where}")
    if not np.isfinite(flat).all():
        raise EnvironmentFault(f"the environment returned NaN or infinity in its observation at {where}")
    return flat


def checked_batch(scaling: Scaling, observations: Any, where: str) -> np.ndarray:
    """Flat observations [E, D] of several environments."""
    return np.stack([checked(scaling, observation, where) for observation in observations])


EnvironmentMaker = Callable[[], gym.Env]
