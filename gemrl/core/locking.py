"""One process for a run's folder, by a lock of the operating system that dies with its process.

The lock is on a file that is opened for writing: that of a folder would not be seen by other machines that share it by NFS.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gemrl.core.exceptions import RunFolderError

LOCK = ".lock"

_held: set[int] = set()
"""Handles of the locks that this process holds."""


def _leave_to_parent() -> None:
    """A forked child, such as an environment's, must not hold its parent's locks when that is gone."""
    for handle in _held:
        os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


class Busy(RunFolderError):
    """A folder in which another process is at work."""


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Holds the folder's lock; makes the folder if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise RunFolderError(f"cannot write to {folder}: {error.strerror or error}") from None
    _held.add(handle)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES):
                raise Busy(f"another process is at work in {folder}") from None
            raise RunFolderError(f"cannot lock {folder}: {error.strerror or error}; its file system must know locks") from None
        yield
    finally:
        if handle in _held:
            _held.remove(handle)
            os.close(handle)


def is_free(folder: Path) -> bool:
    """Whether no process is at work in the folder."""
    if not folder.exists():
        return True
    try:
        with exclusive(folder):
            return True
    except Busy:
        return False
