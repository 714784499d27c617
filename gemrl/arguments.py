"""Numbers on the command line."""

from __future__ import annotations

import argparse
from typing import Any, TypeAlias

Subcommands: TypeAlias = "argparse._SubParsersAction[Any]"
"""What commands are added to; argparse has no other name for it."""


def whole(text: str) -> int:
    """A whole number of at least 0; 1e6 and 1,000,000 are one."""
    digits = text.replace(",", "")
    try:
        number = int(digits) if digits.isdecimal() else float(digits)  # a float would round a long one
        if number != int(number) or number < 0:
            raise ValueError
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0") from None
    return int(number)


def share(text: str) -> float:
    """A number from 0 to 1."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return number


def count(text: str) -> int:
    """A whole number of at least 1."""
    try:
        number = whole(text)
    except argparse.ArgumentTypeError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number
