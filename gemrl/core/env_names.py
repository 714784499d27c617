"""Environment ids: which ones are Atari games, and how an id is written in a path."""

from __future__ import annotations

import hashlib

STICKY = "repeat_action_probability"
"""The gymnasium argument for the probability that an Atari game repeats the last action."""


OFFLINE = " (offline)"
"""Ends the title of an environment in which runs were only evaluated."""


def is_atari(env_id: str) -> bool:
    """Whether the id is that of an Atari game: ALE/Pong-v5, or PongNoFrameskip-v4 in the older naming scheme."""
    name = env_id.rpartition(":")[2]
    return name.startswith("ALE/") or name.endswith("NoFrameskip-v4")


def id_of(title: str) -> str:
    """The environment's id, taken from a title made by `env_title`."""
    return title.partition(" (")[0]


def path_name(name: str) -> str:
    """The name without characters that a folder name must not contain: ALE/Pong-v5 becomes ALE-Pong-v5."""
    found = name.replace("/", "-").replace(":", "-").replace("\0", "-")
    return found if found.strip(".") else found.replace(".", "-") or "-"  # `..` is another folder


MAX_NAME_BYTES = 200
"""Longest name of a folder; file systems allow 255 bytes."""


def short_name(name: str) -> str:
    """A name that is short enough for a folder: a long one ends with a digest of all of it."""
    if len(name.encode(errors="replace")) <= MAX_NAME_BYTES:
        return name
    return f"{name[:40]}-{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:8]}"


def folder_name_problem(name: str) -> str:
    """Why a name cannot be that of a folder, to follow it; "" if it can."""
    if not name.strip() or name in (".", ".."):
        return "it names no folder of its own"
    if any(character in "/\\" or ord(character) < 32 or "\ud800" <= character <= "\udfff" for character in name):
        return "it contains a separator or a control character"
    return f"it has more than {MAX_NAME_BYTES} bytes" if len(name.encode()) > MAX_NAME_BYTES else ""
