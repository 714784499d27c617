"""Arguments for the making of an environment: KEY=VALUE words of the command line, kept in run.json and used ever after."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from gemrl.errors import BadValue, RunFolderError
from gemrl.literals import parse_literal

if TYPE_CHECKING:
    from gemrl.environments import Named

STICKY = "repeat_action_probability"
"""How gymnasium calls the chance that an Atari game repeats the last action."""

RESERVED = ("render_mode", "id", "vector_entry_point", "disable_env_checker")
"""What gemrl decides itself."""


def add_env_args(parser: argparse.ArgumentParser) -> None:
    """The option --env-args."""
    parser.add_argument(
        "--env-args",
        action="extend",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="arguments of the environment, such as is_slippery=False max_episode_steps=200 \"map_name='8x8'\"",
    )


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


def is_atari(env_id: str) -> bool:
    """Whether that is the name of an Atari game: ALE/Pong-v5, or PongNoFrameskip-v4 as it was called before."""
    name = env_id.rpartition(":")[2]
    return name.startswith("ALE/") or name.endswith("NoFrameskip-v4")


def steps_of(env_id: str) -> str:
    """What a step is there, for an axis."""
    return "agent steps (4 frames each)" if is_atari(id_of(env_id)) else "environment steps"


def usual_evaluations(env_id: str) -> tuple[int, int]:
    """Steps between two evaluations, and episodes of each, if nothing else is asked for."""
    return (50_000, 5) if is_atari(env_id) else (10_000, 10)


def with_sticky(env_id: str, chance: float | None, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments with the chance that an Atari game repeats the last action: 0 unless one is given."""
    if is_atari(env_id):
        if chance is not None and given.get(STICKY, chance) != chance:
            raise BadValue(f"--sticky {chance:g} and --env-args {STICKY}={given[STICKY]} contradict each other")
        return {STICKY: chance or 0.0} | given
    if chance is not None:
        raise BadValue(f"--sticky is for Atari games (ALE/...), not for {env_id}")
    return given


def env_args(run: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments in the description of a run; runs of old have none."""
    found = run.get("env_args", {})
    if not isinstance(found, dict) or not all(key.isidentifier() and key not in RESERVED for key in found):
        raise RunFolderError("the env_args in run.json are damaged: they must be names with values")
    return found


def environment_of(run: Mapping[str, Any]) -> Named:
    """The environment of a run."""
    from gemrl.environments import Named  # gymnasium takes its time, and help and errors should not

    return Named(run["env"], env_args(run))


def env_title(run: Mapping[str, Any]) -> str:
    """The environment's id, with its arguments if it has any."""
    told = ", ".join(f"{key}={value!r}" for key, value in env_args(run).items())
    return f"{run['env']} ({told})" if told else run["env"]


def id_of(title: str) -> str:
    """The environment's id in what `env_title` made."""
    return title.partition(" (")[0]


def unexpected(run: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that are worth a word; that actions are not sticky is what one expects."""
    return {key: value for key, value in env_args(run).items() if (key, value) != (STICKY, 0.0)}


LONGEST = 200
"""Bytes in a folder's name; file systems allow 255."""


def plain_name(name: str) -> str:
    """A name that may be a folder's: ALE/Pong-v5 is ALE-Pong-v5."""
    return name.replace("/", "-").replace(":", "-")


def env_folder(run: Mapping[str, Any]) -> str:
    """A run's environment, with its arguments, as the name of a folder."""
    words = (re.sub(r"[^\w.=,-]+", "-", f"{key}={value}") for key, value in unexpected(run).items())
    name = ",".join((plain_name(run["env"]), *words))
    if len(name.encode()) <= LONGEST:
        return name
    return f"{name[:40]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
