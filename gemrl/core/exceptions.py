"""What can go wrong through no fault of gemrl: each error is one line that says what to do."""

from __future__ import annotations

from gemrl.core.exit_codes import FAILED, WRONG_USE


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
