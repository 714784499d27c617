"""Axis labels."""

from __future__ import annotations

from gemrl.core.env_names import id_of, is_atari


def steps_of(env_id: str) -> str:
    """What a step is there, for an axis."""
    return "agent steps (4 frames each)" if is_atari(id_of(env_id)) else "environment steps"
