"""Errors that a user can fix. Each message is one line and says what to do."""

from __future__ import annotations

from gemrl.core.exit_codes import FAILED, WRONG_USE


class GemrlError(Exception):
    """Base class of every error that gemrl raises on purpose."""

    exit_code = WRONG_USE
    """Exit code of the command line: WRONG_USE if the request itself was wrong, FAILED if something went wrong while it ran."""


class BadValue(GemrlError, ValueError):
    """A value is out of range, of the wrong type, or not a literal."""


class UnknownName(BadValue):
    """No environment, algorithm, field or command has this name."""


class DataError(BadValue):
    """Recorded trajectories are damaged, incomplete, or of another environment."""


class UnsupportedSpace(GemrlError, TypeError):
    """No agent supports this observation or action space."""


class MissingExtra(GemrlError, ImportError):
    """An optional dependency is not installed."""


class TrackerRefused(GemrlError):
    """A tracking service did not accept the run."""

    exit_code = FAILED


class HubError(GemrlError):
    """The Hugging Face Hub did not accept or find a model, or cannot be reached."""

    exit_code = FAILED


class Diverged(GemrlError):
    """Training produced NaN or infinity."""

    exit_code = FAILED


class EnvironmentFault(GemrlError, RuntimeError):
    """The environment raised an exception or returned something unusable."""

    exit_code = FAILED


class CannotMake(EnvironmentFault):
    """The environment could not be created."""

    exit_code = WRONG_USE


class RunFolderError(GemrlError):
    """The folder is not a run folder, already contains a run, or cannot be used now."""


class RunBroken(GemrlError):
    """The run had to stop early: its folder cannot be written to, or none of its checkpoints can be read."""

    exit_code = FAILED


class ModelFileError(GemrlError):
    """A saved model is missing, damaged, or of another kind."""

    exit_code = FAILED


class MissingFile(ModelFileError):
    """A file does not exist."""


DAMAGED = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, MemoryError)
"""Exceptions that are raised when a JSON file holds values of unexpected types or ranges."""


class DeviceError(GemrlError):
    """This machine, or this build of JAX, does not have the requested device."""
