"""Axis labels."""

from __future__ import annotations

from gemrl.core.env_names import OFFLINE, id_of, is_atari


def step_label(title: str) -> str:
    """The label of a step axis, given the title of an environment: on Atari, one agent step is four frames."""
    if title.endswith(OFFLINE):
        return "gradient steps"
    return "agent steps (4 frames each)" if is_atari(id_of(title)) else "environment steps"
