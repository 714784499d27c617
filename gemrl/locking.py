"""One process for a run's folder, by a lock of the operating system that dies with its process."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gemrl.errors import RunFolderError


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Holds the folder's lock; makes the folder if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise RunFolderError(f"cannot write to {folder}: {error.strerror or error}") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunFolderError(f"another process is at work in {folder}") from None
        yield
    finally:
        os.close(handle)


def is_free(folder: Path) -> bool:
    """Whether no process is at work in the folder."""
    if not folder.exists():
        return True
    try:
        with alone(folder):
            return True
    except RunFolderError:
        return False
