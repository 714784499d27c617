"""The environment in a run's description (run.json): its arguments, its title and its folder name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from gemrl.core.env_names import STICKY, is_atari, path_name
from gemrl.core.exceptions import RunFolderError
from gemrl.envs.arguments import RESERVED
from gemrl.envs.making import NamedEnv


def default_evaluations(env_id: str) -> tuple[int, int]:
    """Steps between two evaluations, and episodes of each, if nothing else is asked for."""
    return (50_000, 5) if is_atari(env_id) else (10_000, 10)


def env_args(run: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments in the description of a run; runs of old have none."""
    found = run.get("env_args", {})
    if not isinstance(found, dict) or not all(key.isidentifier() and key not in RESERVED for key in found):
        raise RunFolderError("the env_args in run.json are damaged: they must be names with values")
    return found


def environment_of(run: Mapping[str, Any]) -> NamedEnv:
    """The environment of a run."""
    return NamedEnv(run["env"], env_args(run))


def env_title(run: Mapping[str, Any]) -> str:
    """The environment's id, with its arguments if it has any."""
    told = ", ".join(f"{key}={value!r}" for key, value in env_args(run).items())
    return f"{run['env']} ({told})" if told else run["env"]


def unusual_args(run: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that are worth a word; that actions are not sticky is what one expects."""
    return {key: value for key, value in env_args(run).items() if (key, value) != (STICKY, 0.0)}


LONGEST = 200
"""Bytes in a folder's name; file systems allow 255."""


def env_folder(run: Mapping[str, Any]) -> str:
    """A run's environment, with its arguments, as the name of a folder."""
    words = (re.sub(r"[^\w.=,-]+", "-", f"{key}={value}") for key, value in unusual_args(run).items())
    name = ",".join((path_name(run["env"]), *words))
    if len(name.encode()) <= LONGEST:
        return name
    return f"{name[:40]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
