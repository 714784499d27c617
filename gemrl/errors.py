"""What can go wrong through no fault of gemrl: each error is one line that says what to do."""

from __future__ import annotations

import difflib
import numbers
import os
import sys
from collections.abc import Iterable
from typing import Any

DONE, FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130
"""What the command line ends with."""


class GemrlError(Exception):
    """Base of every error that gemrl raises on purpose."""

    exit_code = WRONG_USE
    """What the command line ends with: WRONG_USE if it was asked for the wrong thing, FAILED if something failed."""


class BadValue(GemrlError, ValueError):
    """A value that is out of range, of the wrong type, or not a literal."""


class UnknownName(BadValue):
    """A name of an environment, algorithm, field or command that does not exist."""


class UnsupportedSpace(GemrlError, TypeError):
    """Observations or actions that no agent here can handle."""


class MissingExtra(GemrlError, ImportError):
    """An optional dependency that is not installed."""


class TrackerRefused(GemrlError):
    """A service that numbers were to be sent to, and that did not take them."""

    exit_code = FAILED


class Diverged(GemrlError):
    """Learning that came to numbers which are none."""

    exit_code = FAILED


class EnvironmentFault(GemrlError, RuntimeError):
    """An environment that raised, or returned something unusable."""

    exit_code = FAILED


class CannotMake(EnvironmentFault):
    """An environment that could not be made."""

    exit_code = WRONG_USE


class RunFolderError(GemrlError):
    """A folder that is not a run, or already holds one."""


class RunBroken(GemrlError):
    """A run that had to end early: its folder cannot be written to, or none of its checkpoints can be read."""

    exit_code = FAILED


class ModelFileError(GemrlError):
    """A saved model that is missing, damaged, or of another kind."""

    exit_code = FAILED


DAMAGED = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, MemoryError)
"""What values of the wrong kind, where JSON was expected to hold others, may raise."""


class DeviceError(GemrlError):
    """A device that this machine or this build of JAX does not have."""


def unknown(kind: str, name: str, known: Iterable[str], hint: str = "") -> UnknownName:
    """The error for an unknown name, with the nearest known one."""
    return UnknownName(f"unknown {kind} {name!r}{nearest(name, known, hint)}")


def nearest(name: str, known: Iterable[str], hint: str = "") -> str:
    """Words on the known name that is nearest to another; if none is near, the hint."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else hint


def check_number(name: str, value: object, low: float, high: float = float("inf"), *, whole: bool = False) -> None:
    """Raises unless `value` is a finite number (a whole one, if so asked) from low to high."""
    kind = numbers.Integral if whole else numbers.Real
    number: Any = value  # compared as it is: a whole number may be more than a float can hold
    if isinstance(value, bool) or not isinstance(value, kind) or not low <= number <= min(high, sys.float_info.max):
        span = f"of at least {low:,}" if high == float("inf") else f"from {low:,} to {high:,}"
        raise BadValue(f"{name} must be a {'whole ' if whole else ''}number {span}, not {value!r}")


def check_room(needed: int, field: str, what: str = "memory") -> None:
    """Raises if something of so many bytes, whose size a field of that name sets, is more than this machine could ever hold."""
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > available:
        raise BadValue(
            f"the {what} would take {needed / 1e9:,.1f} GB and this machine has {available / 1e9:,.1f}: set a smaller {field}"
        )
