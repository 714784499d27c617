"""Keyword arguments of an environment: given as KEY=VALUE, stored in run.json, and used whenever the run makes one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from gemrl.core.env_names import STICKY, is_atari
from gemrl.core.exceptions import BadValue
from gemrl.core.literals import parse_literal
from gemrl.envs.wrapping import RESET_OPTIONS, WRAP, check_reset_options, check_wrappers

RESERVED = ("render_mode", "id", "vector_entry_point", "disable_env_checker")
"""Arguments that gemrl sets itself."""


def parse_env_args(assignments: Iterable[str], option: str = "--env-args") -> dict[str, Any]:
    """The arguments given as KEY=literal; `option` names their origin in error messages."""
    arguments: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key.isidentifier():
            hint = f" (the environment comes before {option})" if option.startswith("-") else ""
            raise BadValue(f"{option} takes KEY=VALUE, not {assignment!r}{hint}")
        if key in RESERVED:
            raise BadValue(f"{option} cannot set {key}: gemrl sets it itself")
        try:
            # Through JSON, which turns tuples into lists, so that a resumed run gets the same arguments.
            arguments[key] = json.loads(json.dumps(parse_literal(text), allow_nan=False))
        except BadValue:
            raise BadValue(f"{option} {key}: {text!r} is not a Python literal; strings need quotes: \"{key}='...'\"") from None
        except (TypeError, ValueError):
            raise BadValue(f"{option} {key}: {text!r} cannot be stored as JSON") from None
    check_wrappers(arguments.get(WRAP, ()))
    check_reset_options(arguments.get(RESET_OPTIONS))
    return arguments


def wrap_argument(names: Sequence[str]) -> list[str]:
    """The wrappers as an argument KEY=literal, or nothing if there are none."""
    return [f"{WRAP}={list(check_wrappers(names))!r}"] if names else []


def with_wrappers(given: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The arguments with these wrappers around those that they name already."""
    check_wrappers(names)
    return given | {WRAP: [*given.get(WRAP, ()), *names]} if names else given


def with_sticky(env_id: str, probability: float | None, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments; for an Atari game with the probability that it repeats the last action, by default 0."""
    if is_atari(env_id):
        if probability is not None and given.get(STICKY, probability) != probability:
            raise BadValue(f"--sticky {probability:g} and --env-args {STICKY}={given[STICKY]} contradict each other")
        return {STICKY: probability or 0.0} | given
    if probability is not None:
        raise BadValue(f"--sticky is for Atari games (ALE/...), not for {env_id}")
    return given
