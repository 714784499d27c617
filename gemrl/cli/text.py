"""Small phrases for messages."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """A number with its noun, such as "1 run" or "12 runs"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
