"""Reads trajectories from a NumPy .npz file. Nothing in it is unpickled."""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from gemrl.core.exceptions import DAMAGED, DataError
from gemrl.core.reading import open_regular
from gemrl.core.resources import memory_left
from gemrl.core.steps import Trajectory
from gemrl.envs.recordings import is_wanted
from gemrl.envs.spaces import Spaces
from gemrl.envs.trajectories import checked_trajectories

OF_ARCHIVES = (EOFError, OSError, RuntimeError, struct.error, zipfile.BadZipFile, zlib.error)
BROKEN = (*DAMAGED, *OF_ARCHIVES, SyntaxError, tokenize.TokenError)
"""What zipfile and numpy raise for files that are damaged, encrypted or of another kind."""


def read_npz(path: Path, spaces: Spaces) -> list[Trajectory]:
    """The episodes in a .npz file."""
    try:
        with open_regular(path, memory_left()) as file, np.load(file, allow_pickle=False) as archive:
            arrays = _arrays(archive)
    except BROKEN as error:
        if isinstance(error, DataError):
            raise
        reason = (
            "it holds Python objects" if "allow_pickle" in str(error) else (str(error) or type(error).__name__).splitlines()[0]
        )
        raise DataError(f"{path} is not a .npz file that can be read: {reason}") from None
    return checked_trajectories(spaces, arrays, str(path))


def _arrays(archive: Any) -> dict[str, Any]:
    """The arrays that a recording may have, and the names of the others, without their content."""
    if not isinstance(archive, np.lib.npyio.NpzFile) or archive.zip is None:
        raise ValueError("it is a single array")
    wanted = [name for name in archive.files if is_wanted(name)]
    size = sum(entry.file_size for entry in archive.zip.infolist() if entry.filename.removesuffix(".npy") in wanted)
    if size > memory_left():
        raise ValueError(f"its arrays would take {size:,} bytes, which is more memory than is left")
    return dict.fromkeys(archive.files) | {name: archive[name] for name in wanted}
