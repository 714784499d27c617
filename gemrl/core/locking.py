"""Lets only one process at a time use a run folder, by a lock that the operating system releases when the process ends.

The lock is on a file opened for writing: over NFS, a lock on the folder itself would not be visible to other machines.
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
"""File descriptors of the locks that this process holds."""


def _release_in_child() -> None:
    """Closes inherited locks in a forked child, such as an environment's process, which may outlive its parent."""
    for handle in _held:
        os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_release_in_child)


class Busy(RunFolderError):
    """Another process is using the folder."""


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Holds the folder's lock; creates the folder if it does not exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        handle = os.open(folder / LOCK, flags, 0o666)
    except OSError as error:
        reason = f"{LOCK} is a link, so remove it" if error.errno == errno.ELOOP else error.strerror or error
        raise RunFolderError(f"cannot write to {folder}: {reason}") from None
    _held.add(handle)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES):
                raise Busy(f"another process is using {folder}") from None
            raise RunFolderError(f"cannot lock {folder}: {error.strerror or error}; its file system must support locks") from None
        yield
    finally:
        if handle in _held:
            _held.remove(handle)
            os.close(handle)


def is_replaced(folder: Path) -> bool:
    """Whether the folder's lock is not the one that this process took: another folder has taken the place of its own."""
    try:
        found = os.stat(folder / LOCK)
    except OSError:
        return False
    return not any(os.path.samestat(found, os.fstat(handle)) for handle in _held)


def is_free(folder: Path) -> bool:
    """Whether no process is using the folder."""
    if not folder.exists():
        return True
    try:
        with exclusive(folder):
            return True
    except Busy:
        return False
