"""Reads recorded trajectories from any source, and describes them for run.json."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gemrl.core.exceptions import DataError
from gemrl.core.reading import exists, is_folder
from gemrl.core.steps import Trajectory
from gemrl.envs.spaces import Spaces
from gemrl.experiments.data.minari_folder import MAIN_FILE, datasets_root, read_minari
from gemrl.experiments.data.npz_file import read_npz
from gemrl.experiments.data.older_run import read_run_memory
from gemrl.experiments.run_folder import holds_run

if TYPE_CHECKING:
    from gemrl.training.model import Model

SOURCES = "a .npz file, the folder of a Minari dataset, or a run folder with a checkpoint"


def read_data(path: str | os.PathLike[str], model: Model) -> list[Trajectory]:
    """The trajectories in a .npz file, a Minari dataset or the checkpoint of a run, checked against the spaces of a model."""
    return read_source(Path(path), model.spaces, lambda line: warnings.warn(line, stacklevel=2))


def read_source(path: Path, spaces: Spaces, warn: Callable[[str], None]) -> list[Trajectory]:
    """The trajectories at a path; `warn` gets a line about each damaged checkpoint of an older run."""
    if not exists(path) and exists(datasets_root() / path / MAIN_FILE):
        path = datasets_root() / path  # the id of a dataset, such as D4RL/pen/human-v2
    if is_folder(path):
        if holds_run(path):
            return read_run_memory(path, spaces, warn)
        if exists(path / MAIN_FILE):
            return read_minari(path, spaces)
        raise DataError(f"{path} contains no data: give {SOURCES}")
    if not exists(path):
        raise DataError(f"{path} does not exist: give {SOURCES}")
    if path.suffix != ".npz":
        raise DataError(f"{path} is not data that can be read: give {SOURCES}")
    return read_npz(path, spaces)


def described(path: str, trajectories: Sequence[Trajectory]) -> dict[str, Any]:
    """The entry of a source in run.json."""
    rows = sum(trajectory.steps for trajectory in trajectories)
    return {"path": path, "sha256": digest(trajectories), "trajectories": len(trajectories), "rows": rows}


def digest(trajectories: Sequence[Trajectory]) -> str:
    """The SHA-256 of trajectories as agents see them, whatever file they come from."""
    found = hashlib.sha256()
    for trajectory in trajectories:
        for array in (trajectory.observation, trajectory.action, trajectory.reward):
            found.update(f"{array.dtype} {array.shape} ".encode())
            found.update(np.ascontiguousarray(array).data)
        found.update(b"terminated" if trajectory.terminated else b"truncated")
    return found.hexdigest()


def read_again(entries: Sequence[Mapping[str, Any]], spaces: Spaces, warn: Callable[[str], None]) -> list[Trajectory]:
    """The trajectories of a run whose data was read before. Raises if it has changed."""
    found: list[Trajectory] = []
    for entry in entries:
        trajectories = read_source(Path(entry["path"]), spaces, warn)
        if digest(trajectories) != entry["sha256"]:
            raise DataError(f"{entry['path']} has changed since this run was started: start a new run with it")
        found += trajectories
    return found
