"""Axis labels."""

from __future__ import annotations

from gemrl.core.env_names import id_of, is_atari


def step_label(env_id: str) -> str:
    """The label of a step axis: on Atari, one agent step is four frames."""
    return "agent steps (4 frames each)" if is_atari(id_of(env_id)) else "environment steps"
