"""Checks of user input: numbers in range, and sizes that fit this machine."""

from __future__ import annotations

import numbers
import os
import sys
from typing import Any

from gemrl.core.exceptions import BadValue
from gemrl.core.text import short_repr


def check_number(name: str, value: object, low: float, high: float = float("inf"), *, whole: bool = False) -> None:
    """Raises unless `value` is a finite number from low to high; with `whole`, it must be an integer."""
    kind = numbers.Integral if whole else numbers.Real
    number: Any = value  # not converted: an integer may be larger than any float
    if isinstance(value, bool) or not isinstance(value, kind) or not low <= number <= min(high, sys.float_info.max):
        span = f"of at least {low:,}" if high == float("inf") else f"from {low:,} to {high:,}"
        raise BadValue(f"{name} must be a {'whole ' if whole else ''}number {span}, not {short_repr(value)}")


def physical_memory() -> int:
    """The memory of this machine, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_memory(needed: int, field: str, what: str = "memory") -> None:
    """Raises if `needed` bytes would not fit this machine; `field` sets the size."""
    available = physical_memory()
    if needed > available:
        raise BadValue(
            f"the {what} would take {needed / 1e9:,.1f} GB, but this machine has {available / 1e9:,.1f} GB: set a smaller {field}"
        )
