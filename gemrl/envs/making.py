"""Creates environments by id, and says what is missing if that fails."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import gymnasium as gym

from gemrl.core.env_names import is_atari
from gemrl.core.exceptions import CannotMake, GemrlError, MissingExtra, UnknownName
from gemrl.core.suggestions import unknown
from gemrl.envs.packages import requirement_of, where_to_find

EXTRAS = {"mujoco": "mujoco", "imageio": "mujoco", "Box2D": "box2d", "box2d": "box2d", "pygame": "box2d"}
EXTRAS |= {"ale_py": "atari", "cv2": "atari", "opencv": "atari", "minatar": "minatar"}
"""The extra of gemrl that installs a module which an environment needs."""


def make(env_id: str, **kwargs: Any) -> gym.Env:
    """The environment with this id; `package.module:Env-v0` imports the module first."""
    name = import_module_of(env_id)
    maker = _maker(name)
    try:
        with _quiet_mujoco(name):
            return maker(env_id, **kwargs)
    except gym.error.DependencyNotInstalled as error:
        raise _missing(env_id, str(error)) from None
    except gym.error.Error as error:
        if name in gym.registry:
            raise CannotMake(f"cannot make {env_id}: {first_line(error)}") from None
        raise _unknown(env_id) from None
    except GemrlError:
        raise
    except Exception as error:
        raise CannotMake(f"cannot make {env_id}: {first_line(error)}") from None


def import_module_of(env_id: str) -> str:
    """Imports the module in front of an environment's name, if there is one; returns the name."""
    module, _, name = env_id.rpartition(":")
    if module:
        _import(module)
    return name


def _unknown(env_id: str) -> GemrlError:
    """The error for an id that gymnasium does not know: where to find it, or the nearest known id."""
    if hint := where_to_find(env_id):
        return UnknownName(f"unknown environment {env_id!r}: {hint}")
    known = [env_id[: env_id.rfind(":") + 1] + name for name in gym.registry]
    return unknown("environment", env_id, known, "; any registered gymnasium id or package.module:Env-v0")


def _maker(name: str) -> Callable[..., gym.Env]:
    """The function that makes an environment with this name; the package that provides it is imported."""
    if is_atari(name):
        _import("ale_py")
        return importlib.import_module("gemrl.envs.atari").make_atari
    if name.startswith("MinAtar/"):
        _import("minatar")
        if name not in gym.registry:
            importlib.import_module("minatar.gym").register_envs()
        return importlib.import_module("gemrl.envs.atari").make_minatar
    return partial(gym.make, disable_env_checker=True)


@contextmanager
def _quiet_mujoco(env_id: str) -> Iterator[None]:
    """Silences MuJoCo 4, which warns once per environment about an old attribute in gymnasium's own model files."""
    spec = gym.registry.get(env_id)
    if spec is None or "mujoco" not in str(spec.entry_point):
        yield
        return
    try:
        import mujoco
    except ImportError:
        raise MissingExtra(f"{env_id} needs a package that is not installed: pip install 'gemrl[mujoco]'") from None
    previous = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda _: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(previous)


def _import(module: str) -> None:
    if "" not in sys.path and os.getcwd() not in sys.path:  # an installed command does not search the current folder
        sys.path.insert(0, os.getcwd())
    try:
        importlib.import_module(module)
    except ImportError as error:
        missing = (error.name or "").split(".")[0]
        if missing in EXTRAS:
            raise MissingExtra(f"{missing} is not installed: pip install 'gemrl[{EXTRAS[missing]}]'") from None
        if requirement := requirement_of(missing):
            raise MissingExtra(f"{missing} is not installed: pip install {requirement}") from None
        raise CannotMake(f"cannot import {module!r}: {first_line(error)}") from None
    except Exception as error:
        raise CannotMake(f"importing {module!r} failed: {first_line(error)}") from None


def _missing(env_id: str, message: str) -> GemrlError:
    name = next((extra for word, extra in EXTRAS.items() if word in message), None)
    if name is None:
        return CannotMake(f"cannot make {env_id}: {first_line(message)}")
    return MissingExtra(f"{env_id} needs a package that is not installed: pip install 'gemrl[{name}]'")


def first_line(error: object) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip(".")


EnvironmentMaker = Callable[[], gym.Env]
"""A function that makes a new environment each time it is called."""


@dataclass(frozen=True)
class NamedEnv:
    """The id of an environment and its keyword arguments; a call makes a new one."""

    env_id: str
    args: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, **more: Any) -> gym.Env:
        """A new environment."""
        return make(self.env_id, **{**self.args, **more})
