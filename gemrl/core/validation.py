"""Checks of user input: numbers in range."""

from __future__ import annotations

import math
import numbers
import sys
from typing import Any

from gemrl.core.exceptions import BadValue
from gemrl.core.text import short_repr

LARGEST = 1_000_000_000
"""The largest whole number that a field or option may have: sums of two still fit the 32-bit integers of compiled programs."""

MAX_ENVS, MAX_THREADS, MAX_SEED = 4096, 1024, 2**32 - 1
"""The largest number of environments of a run, which are stepped in turn, of threads, and the largest seed."""


def check_number(name: str, value: object, low: float, high: float = math.inf, *, whole: bool = False) -> None:
    """Raises unless `value` is a finite number from low to high; with `whole`, it must be an integer of at most LARGEST."""
    kind = numbers.Integral if whole else numbers.Real
    number: Any = value  # not converted: an integer may be larger than any float
    most = high if high < math.inf else LARGEST if whole else sys.float_info.max
    numeric = isinstance(value, kind) and not isinstance(value, bool)
    if numeric and low <= number <= most:
        return
    too_large = f"of at most {most:,}" if numeric and number > most and whole else f"of at least {low:,}"
    span = too_large if high == math.inf else f"from {low:,} to {high:,}"
    raise BadValue(f"{name} must be a {'whole ' if whole else ''}number {span}, not {short_repr(value)}")


def check_seed(name: str, seed: object) -> None:
    """Raises unless `seed` is a seed: a whole number that fits 32 bits."""
    check_number(name, seed, 0, MAX_SEED, whole=True)
