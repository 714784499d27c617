"""Checks of values that users give: numbers in range, and sizes that fit this machine."""

from __future__ import annotations

import numbers
import os
import sys
from typing import Any

from gemrl.core.exceptions import BadValue


def check_number(name: str, value: object, low: float, high: float = float("inf"), *, whole: bool = False) -> None:
    """Raises unless `value` is a finite number (a whole one, if so asked) from low to high."""
    kind = numbers.Integral if whole else numbers.Real
    number: Any = value  # compared as it is: a whole number may be more than a float can hold
    if isinstance(value, bool) or not isinstance(value, kind) or not low <= number <= min(high, sys.float_info.max):
        span = f"of at least {low:,}" if high == float("inf") else f"from {low:,} to {high:,}"
        raise BadValue(f"{name} must be a {'whole ' if whole else ''}number {span}, not {value!r}")


def check_memory(needed: int, field: str, what: str = "memory") -> None:
    """Raises if something of so many bytes, whose size a field of that name sets, is more than this machine could ever hold."""
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > available:
        raise BadValue(
            f"the {what} would take {needed / 1e9:,.1f} GB and this machine has {available / 1e9:,.1f}: set a smaller {field}"
        )
