"""Reads trajectories from a Minari dataset on disk, in its HDF5 format.

    DATASET/data/main_data.hdf5    a group for each episode: observations, actions, rewards, terminations, truncations

The file is read directly and not through Minari, which would make environments and spaces from the dataset's description.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from gemrl.core.exceptions import DAMAGED, DataError, MissingExtra
from gemrl.core.reading import open_regular
from gemrl.core.resources import memory_left
from gemrl.core.steps import Trajectory
from gemrl.envs.spaces import Spaces
from gemrl.envs.trajectories import ALL_NAMES, checked_trajectories

MAIN_FILE = Path("data", "main_data.hdf5")

DEFLATED = 1100
"""The most that compression can shrink an array. HDF5 would fill what a damaged shape claims beyond that with zeros."""

EPISODE = re.compile(r"episode_(0|[1-9]\d{0,8})")


def datasets_root() -> Path:
    """The folder in which Minari keeps its datasets."""
    return Path(os.environ.get("MINARI_DATASETS_PATH") or Path.home() / ".minari" / "datasets")


def read_minari(folder: Path, spaces: Spaces) -> list[Trajectory]:
    """The episodes of a dataset, in the order of their numbers."""
    try:
        import h5py
    except ImportError:
        raise MissingExtra("Minari datasets need h5py: pip install 'gemrl[minari]'") from None
    path, found = folder / MAIN_FILE, list[Trajectory]()
    try:
        with open_regular(path, None) as raw, h5py.File(raw, "r") as file:
            limit = min(memory_left(), DEFLATED * os.fstat(raw.fileno()).st_size)
            names = [name for name in file if EPISODE.fullmatch(str(name))]
            for name in sorted(names, key=lambda name: int(EPISODE.fullmatch(name)[1])):  # type: ignore[index]
                number, where = int(name.removeprefix("episode_")), f"{path}, {name.replace('_', ' ')}"
                arrays = _arrays(h5py, _member(h5py, file, name, str(path)), where, limit)
                found += checked_trajectories(spaces, arrays, str(path), episode=number)
    except (*DAMAGED, OSError, RuntimeError) as error:
        if isinstance(error, DataError):
            raise
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise DataError(f"{path} is not a Minari dataset that can be read: {reason}") from None
    if not found:
        raise DataError(f"{path} has no episodes")
    return found


def _arrays(h5py: Any, group: Any, where: str, limit: int) -> dict[str, Any]:
    """The arrays, of at most `limit` bytes, that an episode of a recording may have; and the names of the others."""
    arrays: dict[str, Any] = dict.fromkeys(map(str, group))
    for name in arrays:
        if name not in ALL_NAMES:
            continue
        dataset = _member(h5py, group, name, where)
        if isinstance(dataset, h5py.Group):
            raise DataError(f"{where}: {name} is a group of arrays (of a Dict or Tuple space), not an array: flatten the space")
        if dataset.dtype.kind not in "biuf":
            raise DataError(f"{where}: {name} must hold numbers, not {dataset.dtype}; record images with jpeg_encoding=False")
        if dataset.external or dataset.is_virtual:
            raise DataError(f"{where}: {name} is stored in another file, which is not read")
        if dataset.size * dataset.dtype.itemsize > limit:
            raise DataError(f"{where}: {name} is damaged or too large: its shape is {dataset.shape}")
        arrays[name] = np.asarray(dataset[()])
    return arrays


def _member(h5py: Any, group: Any, name: str, where: str) -> Any:
    """The member of a group. Raises if it is a link: HDF5 can also point to other files."""
    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise DataError(f"{where}: {name} is a link, which is not followed")
    return group[name]
