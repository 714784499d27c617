"""Environment ids: which ones are Atari games, and how an id is written in a path."""

from __future__ import annotations

STICKY = "repeat_action_probability"
"""The gymnasium argument for the probability that an Atari game repeats the last action."""


def is_atari(env_id: str) -> bool:
    """Whether the id is that of an Atari game: ALE/Pong-v5, or PongNoFrameskip-v4 in the older naming scheme."""
    name = env_id.rpartition(":")[2]
    return name.startswith("ALE/") or name.endswith("NoFrameskip-v4")


def id_of(title: str) -> str:
    """The environment's id, taken from a title made by `env_title`."""
    return title.partition(" (")[0]


def path_name(name: str) -> str:
    """The name without characters that a folder name must not contain: ALE/Pong-v5 becomes ALE-Pong-v5."""
    return name.replace("/", "-").replace(":", "-")
