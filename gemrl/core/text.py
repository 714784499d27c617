"""Values as text for people."""

from __future__ import annotations

from typing import Any


def short(value: Any) -> str:
    """A value for people."""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
