"""Arguments for the making of an environment: KEY=VALUE words of the command line, kept in run.json and used ever after."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from gemrl.core.env_names import STICKY, is_atari
from gemrl.core.exceptions import BadValue
from gemrl.core.literals import parse_literal

RESERVED = ("render_mode", "id", "vector_entry_point", "disable_env_checker")
"""What gemrl decides itself."""


def parse_env_args(words: Iterable[str], taker: str = "--env-args") -> dict[str, Any]:
    """The arguments that words spell, each KEY=literal; `taker` is what a user knows them by."""
    found: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key.isidentifier():
            hint = f" (the environment comes before {taker})" if taker.startswith("-") else ""
            raise BadValue(f"{taker} takes KEY=VALUE, not {word!r}{hint}")
        if key in RESERVED:
            raise BadValue(f"{taker} cannot set {key}: gemrl does")
        try:
            # As JSON has it, so that a run that is resumed gets what it was begun with: lists for tuples.
            found[key] = json.loads(json.dumps(parse_literal(text), allow_nan=False))
        except BadValue:
            raise BadValue(f"{taker} {key}: {text!r} is not a Python literal; a text has quotes: \"{key}='...'\"") from None
        except (TypeError, ValueError):
            raise BadValue(f"{taker} {key}: {text!r} is more than JSON can hold") from None
    return found


def with_sticky(env_id: str, chance: float | None, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments with the chance that an Atari game repeats the last action: 0 unless one is given."""
    if is_atari(env_id):
        if chance is not None and given.get(STICKY, chance) != chance:
            raise BadValue(f"--sticky {chance:g} and --env-args {STICKY}={given[STICKY]} contradict each other")
        return {STICKY: chance or 0.0} | given
    if chance is not None:
        raise BadValue(f"--sticky is for Atari games (ALE/...), not for {env_id}")
    return given
