"""gymnasium in, transitions out: environments by name or object, whose every answer is checked."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from gemrl.env_args import is_atari
from gemrl.errors import CannotMake, EnvironmentFault, GemrlError, MissingExtra, unknown
from gemrl.spaces import Spaces
from gemrl.watchdog import answering

EXTRAS = {"mujoco": "mujoco", "imageio": "mujoco", "Box2D": "box2d", "box2d": "box2d", "pygame": "box2d"}
EXTRAS |= {"ale_py": "atari", "cv2": "atari", "opencv": "atari", "minatar": "minatar"}
"""Which extra of gemrl brings a module that an environment lacks."""


class Transition(NamedTuple):
    """One step of E environments."""

    observation: np.ndarray  # [E, *O]
    action: np.ndarray  # [E, A], in [-1, 1] or numbers of choices
    reward: np.ndarray  # [E]
    terminated: np.ndarray  # [E] bool
    truncated: np.ndarray  # [E] bool
    next_observation: np.ndarray  # [E, *O], before any reset
    stored: np.ndarray  # [E] bool; False where the environment was only reset


class Finished(NamedTuple):
    """What a finished episode came to."""

    total: float
    length: int


class Step(NamedTuple):
    """What one step of all environments brought."""

    transition: Transition
    observation: np.ndarray  # [E, *O], to act on next: of a new episode, where one ended
    ended: list[Finished]
    infos: list[dict[str, Any]]  # one of each environment


def make(env_id: str, **kwargs: Any) -> gym.Env:
    """The environment of that name; `package.module:Env-v0` imports the module first."""
    module, _, name = env_id.rpartition(":")
    if module:
        _import(module)
    maker = _maker(name)
    try:
        with _quiet_mujoco(name):
            return maker(env_id, **kwargs)
    except gym.error.DependencyNotInstalled as error:
        raise _missing(env_id, str(error)) from None
    except gym.error.Error as error:
        if name in gym.registry:
            raise CannotMake(f"cannot make {env_id}: {_first_line(error)}") from None
        raise unknown("environment", env_id, gym.registry, "; any registered gymnasium id or package.module:Env-v0") from None
    except GemrlError:
        raise
    except Exception as error:
        raise CannotMake(f"cannot make {env_id}: {_first_line(error)}") from None


def _maker(name: str) -> Callable[..., gym.Env]:
    """What makes an environment of that name; whatever brings it is imported."""
    if is_atari(name):
        _import("ale_py")
        return importlib.import_module("gemrl.arcade").make_atari
    if name.startswith("MinAtar/"):
        _import("minatar")
        if name not in gym.registry:
            importlib.import_module("minatar.gym").register_envs()
        return importlib.import_module("gemrl.arcade").make_minatar
    return partial(gym.make, disable_env_checker=True)


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
        with answering(where):
            observation, _ = env.reset(seed=seed)
    except Exception as error:
        raise _fault(error, where, "reset returns observation and info") from error
    return checked(spaces, observation, where)


def checked_step(env: gym.Env, action: np.ndarray, spaces: Spaces, where: str) -> Outcome:
    """Takes an action [A]; whatever the environment does wrong is told with its place."""
    taken = spaces.taken(action)
    try:
        with answering(where):
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


EnvironmentMaker = Callable[[], gym.Env]


@dataclass(frozen=True)
class Named:
    """An environment by its name, with arguments for whoever makes it."""

    env_id: str
    args: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, **more: Any) -> gym.Env:
        """A new one."""
        return make(self.env_id, **{**self.args, **more})
