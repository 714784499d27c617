"""Formats values for display."""

from __future__ import annotations

from typing import Any


def short(value: Any) -> str:
    """A value as text; integers have thousands separators."""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def counted(number: int, noun: str) -> str:
    """A number with its noun, such as "1 run", "12 runs" or "2 trajectories"."""
    several = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else several}"
