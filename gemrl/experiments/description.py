"""The environment in a run's description (run.json): its arguments, its title and its folder name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gemrl.core.env_names import OFFLINE, STICKY, is_atari, path_name, short_name
from gemrl.envs.making import NamedEnv


def default_evaluations(env_id: str) -> tuple[int, int]:
    """The default number of steps between evaluations, and of episodes per evaluation."""
    return (50_000, 5) if is_atari(env_id) else (10_000, 10)


def env_args(run: Mapping[str, Any]) -> dict[str, Any]:
    """The environment arguments in the description of a run. Older runs have none."""
    found: dict[str, Any] = run.get("env_args", {})
    return found


def environment_of(run: Mapping[str, Any]) -> NamedEnv:
    """The environment of a run, which is created when called."""
    return NamedEnv(run["env"], env_args(run))


def env_title(run: Mapping[str, Any]) -> str:
    """The environment's id, followed by its arguments if it has any."""
    arguments = ", ".join(f"{key}={value!r}" for key, value in env_args(run).items())
    return f"{run['env']} ({arguments})" if arguments else run["env"]


def task_title(run: Mapping[str, Any]) -> str:
    """What a run is compared on: the environment with its unusual arguments, and whether it trained on recorded data alone."""
    return env_title({**run, "env_args": unusual_args(run)}) + (OFFLINE if run.get("offline") else "")


def unusual_args(run: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments worth mentioning: all except that actions are not sticky, which is the default."""
    return {key: value for key, value in env_args(run).items() if (key, value) != (STICKY, 0.0)}


def env_folder(run: Mapping[str, Any]) -> str:
    """A folder name for the environment of a run and its arguments."""
    arguments = (re.sub(r"[^\w.=,-]+", "-", f"{key}={value}") for key, value in unusual_args(run).items())
    return short_name(",".join((path_name(run["env"]), *arguments)))
