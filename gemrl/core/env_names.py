"""What an environment's id says: whether it is an Atari game, and how it is written in a path."""

from __future__ import annotations

STICKY = "repeat_action_probability"
"""How gymnasium calls the chance that an Atari game repeats the last action."""


def is_atari(env_id: str) -> bool:
    """Whether that is the name of an Atari game: ALE/Pong-v5, or PongNoFrameskip-v4 as it was called before."""
    name = env_id.rpartition(":")[2]
    return name.startswith("ALE/") or name.endswith("NoFrameskip-v4")


def id_of(title: str) -> str:
    """The environment's id in what `env_title` made."""
    return title.partition(" (")[0]


def path_name(name: str) -> str:
    """A name that may be a folder's: ALE/Pong-v5 is ALE-Pong-v5."""
    return name.replace("/", "-").replace(":", "-")
