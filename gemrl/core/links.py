"""Keeps writes inside a folder: below a run's or a study's folder, nothing is written through a link.

A folder from a stranger may hold evaluations.csv as a link to any file of the user.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import IO

from gemrl.core.exceptions import RunFolderError

OWN_LINKS = "wandb"
"""Weights & Biases keeps links in this folder of a run, such as latest-run. They must stay inside the run's folder."""


def refuse_links(root: Path) -> None:
    """Raises RunFolderError if anything below a folder is a link. The folder itself may be one."""
    if not os.path.isdir(root):
        return
    real = os.path.realpath(root)
    for folder, folders, files in os.walk(root):
        for path in (Path(folder, name) for name in (*folders, *files)):
            if path.is_symlink() and not (OWN_LINKS in path.relative_to(root).parts[:-1] and _inside(path, real)):
                raise _refusal(path)


def refuse_links_between(root: Path, path: Path) -> None:
    """Raises RunFolderError if `path`, or a folder between `root` and it, is a link."""
    inner = path.relative_to(root)
    for part in (path, *path.parents[: len(inner.parts) - 1]):
        if part.is_symlink():
            raise _refusal(part)


def _refusal(path: Path) -> RunFolderError:
    return RunFolderError(f"{path} is a link; gemrl does not write through links: remove it, or replace it by what it refers to")


def _inside(path: Path, real: str) -> bool:
    return os.path.realpath(path).startswith(real + os.sep)


def open_to_append(path: Path) -> IO[str]:
    """A text file to append to, created if needed. Raises OSError for a link and for anything but a regular file."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    handle = os.open(path, flags, 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(None, "it is not a regular file", str(path))
    return os.fdopen(handle, "a", newline="")
