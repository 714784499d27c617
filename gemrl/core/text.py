"""Formats values for display."""

from __future__ import annotations

from typing import Any


def short(value: Any) -> str:
    """A value as text; integers have thousands separators."""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def short_repr(value: Any) -> str:
    """The repr of a value for an error message, cut if it is long. Python refuses to print thousands of digits."""
    try:
        text = repr(value)
    except ValueError:
        return "a number with thousands of digits"
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text):,} characters)"


def score_text(score: float) -> str:
    """A score as text: with one decimal, small ones with three digits."""
    return f"{score:,.1f}" if abs(score) >= 10 else f"{score:.3g}"


def printable(text: str) -> str:
    """The text with everything that a terminal would obey, such as escape sequences, written as \\x1b. Line breaks stay.

    Names of folders and texts in files may come from a stranger, so whatever is printed goes through here.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\u00a0" else c.encode("unicode_escape").decode() for c in text)


def counted(number: int, noun: str) -> str:
    """A number with its noun, such as "1 run", "12 runs" or "2 trajectories"."""
    several = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else several}"
