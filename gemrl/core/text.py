"""Formats values for display."""

from __future__ import annotations

from typing import Any


def short(value: Any) -> str:
    """A value as text; integers have thousands separators."""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
