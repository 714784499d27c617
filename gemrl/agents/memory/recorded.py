"""Where recorded trajectories go in a memory: each as a whole into one lane, so that it can be followed to its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gemrl.core.exceptions import DataError
from gemrl.core.steps import Trajectory
from gemrl.core.text import counted


class Room(NamedTuple):
    """The lanes that recorded trajectories may use."""

    lanes: int
    rows: int
    """Rows of each lane."""
    images: int | None
    """Images of each lane; None if observations are stored whole."""
    of: int
    """All lanes of the memory, which have the same number of rows."""


def lanes_for(trajectories: Sequence[Trajectory], room: Room, used: tuple[int, int] = (0, 0)) -> list[int]:
    """The lane of each trajectory: the one with the fewest rows so far. Raises if a lane would hold more than it has room for.

    `used` says how many rows and images the lanes hold already.
    """
    rows, images = ([count] * room.lanes for count in used)
    chosen: list[int] = []
    for trajectory in trajectories:
        lane = rows.index(min(rows))
        rows[lane] += trajectory.steps
        images[lane] += trajectory.steps + 1  # with that of the final observation
        chosen.append(lane)
    if max(rows) > room.rows or (room.images is not None and max(images) > room.images):
        least = max(max(rows), max(images) if room.images is not None else 0) * room.of
        total = sum(trajectory.steps for trajectory in trajectories)
        raise DataError(
            f"the memory has room for {counted(room.rows * room.lanes, 'row')} of data, but there are {total:,}: "
            f"set buffer_size to {least:,} or more"
        )
    return chosen


def check_keeps_nothing(keep: bool, algo: str) -> None:
    """Raises if data should be kept by an agent that has no lanes to keep it in."""
    if keep:
        raise DataError(f"{algo} cannot keep data apart from other rows: leave out --keep-data (in Python, keep=True)")
