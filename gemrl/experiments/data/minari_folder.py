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
from gemrl.envs.recordings import ALL_NAMES, OBSERVED
from gemrl.envs.spaces import Spaces
from gemrl.envs.trajectories import checked_trajectories

MAIN_FILE = Path("data", "main_data.hdf5")

MAX_DEPTH = 20
"""How deeply groups of observations may be nested."""

TUPLE_INDEX = re.compile(r"_index_(\d+)")
"""Minari's name for an entry of a Tuple space."""

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
    for name in list(arrays):
        if name in ALL_NAMES:
            found = _read(h5py, _member(h5py, group, name, where), name, where, limit)
            arrays |= found
            if name not in found:  # it is a group of entries
                del arrays[name]
    return arrays


def _read(h5py: Any, member: Any, name: str, where: str, limit: int, depth: int = 0) -> dict[str, np.ndarray]:
    """An array by its name; or those of a group by names such as observations/goal, and observations/0 for a Tuple space."""
    if isinstance(member, h5py.Group):
        if name.partition("/")[0] not in OBSERVED or depth >= MAX_DEPTH:
            raise DataError(f"{where}: {name} is a group of arrays (of a Dict or Tuple space), not an array: flatten the space")
        found: dict[str, np.ndarray] = {}
        for key in map(str, member):
            index = TUPLE_INDEX.fullmatch(key)
            below = f"{name}/{index[1] if index else key}"
            found |= _read(h5py, _member(h5py, member, key, where), below, where, limit, depth + 1)
        return found
    _check_dataset(member, name, where, limit)
    return {name: np.asarray(member[()])}


def _check_dataset(dataset: Any, name: str, where: str, limit: int) -> None:
    """Raises unless a dataset holds numbers of its own, of at most `limit` bytes."""
    if dataset.dtype.kind not in "biuf":
        raise DataError(f"{where}: {name} must hold numbers, not {dataset.dtype}; record images with jpeg_encoding=False")
    if dataset.external or dataset.is_virtual:
        raise DataError(f"{where}: {name} is stored in another file, which is not read")
    if dataset.size * dataset.dtype.itemsize > limit:
        raise DataError(f"{where}: {name} is damaged or too large: its shape is {dataset.shape}")


def _member(h5py: Any, group: Any, name: str, where: str) -> Any:
    """The member of a group. Raises if it is a link: HDF5 can also point to other files."""
    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise DataError(f"{where}: {name} is a link, which is not followed")
    return group[name]
