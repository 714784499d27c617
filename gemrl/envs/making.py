"""Creates environments by id, and says what is missing if that fails."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import gymnasium as gym

from gemrl.core.env_names import is_atari
from gemrl.core.exceptions import BadValue, CannotMake, GemrlError, MissingExtra, UnknownName
from gemrl.core.suggestions import unknown
from gemrl.envs.importing import EXTRAS, first_line, import_named
from gemrl.envs.packages import where_to_find
from gemrl.envs.wrapping import RESET_OPTIONS, WRAP, ResetOptions, check_reset_options, check_wrappers, wrapped


def make(env_id: str, **kwargs: Any) -> gym.Env:
    """The environment with this id; `package.module:Env-v0` imports the module first.

    Two arguments are not those of the environment: `wrap` names wrappers, `reset_options` are the options of every reset.
    """
    names, options = check_wrappers(kwargs.pop(WRAP, ())), check_reset_options(kwargs.pop(RESET_OPTIONS, None))
    if options is not None and is_atari(env_id):
        raise BadValue("Atari games have no reset options: leave out reset_options")
    env = _made(env_id, kwargs)
    return wrapped(env if options is None else ResetOptions(env, options), names)


def _made(env_id: str, kwargs: dict[str, Any]) -> gym.Env:
    """The environment with this id and these arguments of its own."""
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
        import_named(module)
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
        import_named("ale_py")
        return importlib.import_module("gemrl.envs.atari").make_atari
    if name.startswith("MinAtar/"):
        import_named("minatar")
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


def _missing(env_id: str, message: str) -> GemrlError:
    name = next((extra for word, extra in EXTRAS.items() if word in message), None)
    if name is None:
        return CannotMake(f"cannot make {env_id}: {first_line(message)}")
    return MissingExtra(f"{env_id} needs a package that is not installed: pip install 'gemrl[{name}]'")


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
