"""Wrappers that are named, as in --wrap gymnasium.wrappers:FlattenObservation, and options for every reset.

A name comes from the command line or from a run.json, possibly a stranger's. It is imported as the module of an environment is,
and only a wrapper or a function is called, with the environment and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import FunctionType, ModuleType
from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from gemrl.core.exceptions import BadValue, CannotMake, GemrlError
from gemrl.core.suggestions import unknown
from gemrl.core.text import short_repr
from gemrl.envs.importing import first_line, import_named

WRAP, RESET_OPTIONS = "wrap", "reset_options"
"""The arguments of an environment that gemrl itself takes."""

NAME = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*)")


def check_wrappers(names: Any) -> Sequence[str]:
    """The names. Raises unless each is module:name."""
    if not isinstance(names, (list, tuple)):
        raise BadValue(f"{WRAP} must be a list of wrappers, not {short_repr(names)}")
    for name in names:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            example = "module:name, such as gymnasium.wrappers:FlattenObservation"
            raise BadValue(f"a wrapper is named as {example}, not {short_repr(name)}")
    return names


def check_reset_options(options: Any) -> dict[str, Any] | None:
    """The options. Raises unless they are a dict with names as keys, or None."""
    if options is not None and not (isinstance(options, dict) and all(isinstance(key, str) for key in options)):
        raise BadValue(f"{RESET_OPTIONS} must be a dict such as {{'low': -0.1}}, not {short_repr(options)}")
    return options


def wrapped(env: gym.Env, names: Sequence[str]) -> gym.Env:
    """The environment in its wrappers; the last one is the outermost."""
    for name in names:
        wrap = _named(name)
        try:
            env = wrap(env)
        except GemrlError:
            raise
        except Exception as error:
            raise CannotMake(f"cannot wrap the environment in {name}: {first_line(error)}") from None
        if not isinstance(env, gym.Env):
            raise CannotMake(f"{name} must return a gymnasium.Env, not {type(env).__name__}")
    return env


def _named(name: str) -> Any:
    """The wrapper or function with this name."""
    module_name, _, attribute = name.rpartition(":")
    module = import_named(module_name)
    found = getattr(module, attribute, None)
    if found is None:
        raise unknown("wrapper", name, (f"{module_name}:{other}" for other in _wrappers_in(module)))
    if not _is_wrapper(found):
        raise BadValue(f"{name} is neither a class of gymnasium.Wrapper nor a function that takes an environment")
    return found


def _is_wrapper(found: Any) -> bool:
    return isinstance(found, FunctionType) or (isinstance(found, type) and issubclass(found, gym.Wrapper))


def _wrappers_in(module: ModuleType) -> list[str]:
    return [name for name in dir(module) if _is_wrapper(getattr(module, name, None))]


class ResetOptions(gym.Wrapper, RecordConstructorArgs):
    """Passes the same options to every reset; those of a call take precedence."""

    def __init__(self, env: gym.Env, options: dict[str, Any]) -> None:
        RecordConstructorArgs.__init__(self, options=options)  # so that gymnasium can make such an environment from its spec
        super().__init__(env)
        self._options = options

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return self.env.reset(seed=seed, options=self._options | (options or {}))
