"""Reads trajectories from the memory in an older run's newest checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gemrl.core.exceptions import DataError
from gemrl.core.steps import Trajectory
from gemrl.envs.spaces import Spaces


def read_run_memory(folder: Path, spaces: Spaces, warn: Callable[[str], None]) -> list[Trajectory]:
    """The trajectories in the memory of a run. Its newest one may be cut off, its oldest one lacks what was overwritten."""
    from gemrl.agents.memory.ring import Memory  # JAX is imported only if a memory is read
    from gemrl.experiments import checkpoints
    from gemrl.experiments.loading import load

    found = checkpoints.newest(folder, lambda checkpoint: load(checkpoint.model), warn)
    if found is None:
        raise DataError(
            f"{folder} has no checkpoint, and only checkpoints contain the memory: gemrl train keeps the newest two, "
            "gemrl study only with --keep-checkpoints"
        )
    model = found[1]
    try:
        spaces.check_fits(model.spaces)
    except ValueError as error:
        raise DataError(f"{folder} is a run on another environment: {error}") from None
    if not isinstance(model.memory, Memory):
        raise DataError(f"{folder} is a run of {model.algo}, whose memory holds returns and no trajectories")
    memory = model.memory
    trajectories = [one for lane in range(len(memory.size)) for one in _trajectories(memory, lane)]
    if not trajectories:
        raise DataError(f"the memory of {folder} holds no whole trajectory")
    return trajectories


def _trajectories(memory: Any, lane: int) -> Iterator[Trajectory]:
    """The trajectories of a lane, oldest first."""
    rows = memory.lane(lane)
    ends = np.flatnonzero(rows["last"] | (np.arange(len(rows["last"])) == len(rows["last"]) - 1))
    for start, end in zip([0, *(ends[:-1] + 1)], ends, strict=True):
        if memory.frames is not None and rows["observation"][start, 1]:
            continue  # the images before its first row are overwritten, so it does not begin with a whole stack
        kept = np.concatenate([rows["observation"][start : end + 1], rows["next_observation"][end : end + 1]])
        lanes = np.full(len(kept), lane)
        observation = np.asarray(memory.observations(lanes, kept))
        steps = slice(start, end + 1)
        yield Trajectory(observation, rows["action"][steps], rows["reward"][steps], bool(rows["discount"][end] == 0))
