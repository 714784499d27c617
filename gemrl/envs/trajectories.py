"""Checks recorded trajectories and converts them to the arrays that agents see.

A recording is a mapping of arrays with N rows, one per step, of E episodes (`recordings.py` finds them by their names):

    actions [N, *shape], rewards [N], terminated [N], truncated [N]
    observations [N + E, *shape], with the final one of each episode, or observations and next_observations [N, *shape]

An episode ends where `terminated` or `truncated` is true, and nowhere else: nothing about an ending is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete

from gemrl.core.exceptions import DataError
from gemrl.core.packing import pack
from gemrl.core.steps import Trajectory
from gemrl.core.text import counted
from gemrl.envs.checking import TOO_LARGE
from gemrl.envs.recordings import recorded_arrays
from gemrl.envs.spaces import Spaces

ROUNDING = 1e-5
"""How far an action may be outside its bounds, as a fraction of their distance: recordings are rounded."""


class Place(NamedTuple):
    """Where the rows of a recording are, for error messages. Episodes and rows are counted from 0."""

    source: str
    starts: np.ndarray
    """The first row of each episode."""
    episode: int | None
    """The number of the only episode; None if the recording may have several."""

    @property
    def name(self) -> str:
        """The recording as a whole."""
        return self.source if self.episode is None else f"{self.source}, episode {self.episode}"

    def of(self, row: int) -> str:
        """The place of a row."""
        index = int(np.searchsorted(self.starts, row, side="right")) - 1
        return f"{self.source}, episode {(self.episode or 0) + index}, row {row - int(self.starts[index])}"

    def check(self, bad: np.ndarray, array: np.ndarray, name: str, problem: str) -> None:
        """Raises for the first row [n] that is bad, with its value in the array [n, ...]."""
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            value = str(array[row]).replace("\n", " ") if array[row].size <= 32 else f"an array of shape {array[row].shape}"
            raise DataError(f"{self.of(row)}: {name} is {value}, {problem}")


def checked_trajectories(
    spaces: Spaces, arrays: Mapping[str, Any], source: str, *, episode: int | None = None
) -> list[Trajectory]:
    """The episodes of a recording. Raises an error that names `source`, episode and row unless they fit these spaces.

    Given `episode`, the recording is this one episode and must not end before its last row.
    """
    where = Place(source, np.zeros(1, int), episode).name
    given = recorded_arrays(spaces, arrays, where)
    terminated, truncated = (_flags(given[name], name, where) for name in ("terminated", "truncated"))
    for name in ("actions", "rewards", "truncated"):
        if given[name].shape[:1] != terminated.shape:
            rows = f"{len(given[name]):,} rows" if given[name].ndim else "no rows"
            raise DataError(f"{where}: {name} has {rows}, terminated {len(terminated):,}: each has one row per step")
    if not len(terminated):
        raise DataError(f"{where}: there are no steps")
    ends = np.flatnonzero(terminated | truncated)
    starts = np.append(0, ends[:-1] + 1)
    place = Place(source, starts, episode)
    _check_endings(ends, len(terminated), place)
    observation = _observations(spaces, given, starts, ends, place)
    action, reward = _actions(spaces, given["actions"], place), _rewards(given["rewards"], place)
    if spaces.layout.frames > 1:
        _check_stacks(observation, place)
    steps = [slice(start, end + 1) for start, end in zip(starts, ends, strict=True)]
    return [
        Trajectory(states, action[rows], reward[rows], bool(terminated[rows.stop - 1]))
        for states, rows in zip(observation, steps, strict=True)
    ]


def _flags(array: np.ndarray, name: str, where: str) -> np.ndarray:
    """An array of truth values [N] as bool."""
    if array.ndim != 1:
        raise DataError(f"{where}: {name} must have one axis, the steps, but its shape is {array.shape}")
    if array.dtype.kind == "f" or not ((array == 0) | (array == 1)).all():
        raise DataError(f"{where}: {name} must be true or false for each step, but it holds other numbers ({array.dtype})")
    return array.astype(bool)


def _check_endings(ends: np.ndarray, rows: int, place: Place) -> None:
    """Raises unless the last row ends an episode and, if the recording is one episode, no other row does."""
    if place.episode is not None and ends.size and ends[0] < rows - 1:
        raise DataError(f"{place.of(int(ends[0]))}: the episode ends here, but rows follow: give each episode its own arrays")
    if not ends.size or ends[-1] != rows - 1:
        unfinished = place._replace(starts=np.append(0, ends + 1))
        raise DataError(
            f"{unfinished.of(rows - 1)}: the data stops here, but neither terminated nor truncated is true: "
            "set truncated if the episode was cut off, terminated if it ended in a terminal state"
        )


def _observations(
    spaces: Spaces, given: Mapping[str, np.ndarray], starts: np.ndarray, ends: np.ndarray, place: Place
) -> list[np.ndarray]:
    """The observations of each episode, the final one included [T + 1, *O]."""
    now, following, rows = given["observations"], given["next_observations"], int(ends[-1]) + 1
    count = len(now) if now.ndim else 0
    if not following.ndim:
        if count != rows + ends.size:
            raise DataError(
                f"{place.name}: observations has {count:,} rows, but {counted(rows, 'step')} in "
                f"{counted(ends.size, 'episode')} have {rows + ends.size:,}, the final ones included; or add next_observations"
            )
        first = starts + np.arange(ends.size)
        states = _converted(spaces, now, "observations", place._replace(starts=first))
        return [states[begin : begin + end - start + 2] for begin, start, end in zip(first, starts, ends, strict=True)]
    for name, array in (("observations", now), ("next_observations", following)):
        if array.shape[:1] != (rows,):
            raise DataError(f"{place.name}: {name} has {len(array) if array.ndim else 0:,} rows, but there are {rows:,} steps")
    before, after = (_converted(spaces, given[name], name, place) for name in ("observations", "next_observations"))
    breaks = _any(after[:-1] != before[1:])
    breaks[ends[:-1]] = False
    if breaks.any():
        row = int(np.flatnonzero(breaks)[0])
        raise DataError(
            f"{place.of(row)}: next_observations differs from the observations of the next row: "
            "rows must be in the order of time, and every ending must be marked"
        )
    return [np.concatenate([before[start : end + 1], after[end : end + 1]]) for start, end in zip(starts, ends, strict=True)]


def _check_stacks(observation: list[np.ndarray], place: Place) -> None:
    """Raises unless the images of stacks are those of a frame stack that was reset when the episode began [T + 1, S, H, W]."""
    for number, states in enumerate(observation):
        jumps = _any(states[1:, :-1] != states[:-1, 1:])
        if (states[0] != states[0, -1:]).any() or jumps.any():
            row = int(place.starts[number]) + (int(np.flatnonzero(jumps)[0]) if jumps.any() else 0)
            raise DataError(
                f"{place.of(row)}: the images are not a stack of the last {states.shape[1]}: "
                "an episode begins with its first image repeated, and each step adds one image at the end"
            )


def _converted(spaces: Spaces, array: np.ndarray, name: str, place: Place) -> np.ndarray:
    """Observations as agents see them [n, *O]. Raises if they have another shape or dtype, are not finite or out of range."""
    space, layout, count = spaces.seen, spaces.layout, len(array)
    shape = space.shape or ()
    if array.shape[1:] != shape and not (isinstance(space, Discrete) and array.shape[1:] == (1,)):
        raise DataError(f"{place.name}: {name} have shape {array.shape[1:]}, but the environment's have {shape}")
    flat = array.reshape(count, -1)
    if isinstance(space, Discrete):
        _check_whole(array, name, place)
        place.check(~_within(flat, space), array, name, f"which is not one of the environment's {space.n} states")
        return (flat.astype(np.int64) - space.start).astype(layout.dtype)
    if layout.picture:
        floats, pixels = _finite(array, name, place), flat[:, : layout.pixels]
        place.check(_any((pixels < 0) | (pixels > 255)), array, name, "which does not fit an image of bytes")
        return pack(floats, layout.pixels)
    if layout.dtype != "float32":
        _check_whole(array, name, place)
        most = 1 if layout.dtype == "bool" else int(np.iinfo(layout.dtype).max)
        place.check(_any((flat < 0) | (flat > most)), array, name, f"which does not fit {layout.dtype}")
        return array.astype(layout.dtype).reshape(count, *layout.observation)
    return _finite(array, name, place).reshape(count, *layout.observation)


def _actions(spaces: Spaces, array: np.ndarray, place: Place) -> np.ndarray:
    """Actions as agents see them [N, A]. Raises if they have another shape, are not finite or outside their bounds."""
    space, name = spaces.action_space, "actions"
    shape = space.shape or ()
    if array.shape[1:] != shape and not (isinstance(space, Discrete) and array.shape[1:] == (1,)):
        raise DataError(f"{place.name}: actions have shape {array.shape[1:]}, but the environment's have {shape}")
    if isinstance(space, Discrete):
        _check_whole(array, name, place)
        first, last = space.start, space.start + space.n - 1
        place.check(~_within(array.reshape(len(array), -1), space), array, name, f"but the environment has {first} to {last}")
        return spaces.agent_action(array)
    if isinstance(space, (MultiDiscrete, MultiBinary)):
        _check_whole(array, name, place)
        low, high = (0, 1) if isinstance(space, MultiBinary) else (space.start, space.start + space.nvec - 1)
        place.check(_any((array < low) | (array > high)), array, name, "which is not in the environment's action_space")
        return spaces.agent_action(array)
    assert isinstance(space, Box)
    _finite(array, name, place)
    low, high = space.low.astype(float), space.high.astype(float)
    slack = ROUNDING * (high - low)
    outside = _any((array < low - slack) | (array > high + slack))
    place.check(outside, array, name, "which is outside the bounds of the environment's action_space: give actions in its units")
    return spaces.agent_action(array)


def _rewards(array: np.ndarray, place: Place) -> np.ndarray:
    """Rewards [N] as 32-bit floats. Raises if they are not finite."""
    if array.ndim != 1:
        raise DataError(f"{place.name}: rewards must have one axis, the steps, but their shape is {array.shape}")
    return _finite(array, "rewards", place)


def _finite(array: np.ndarray, name: str, place: Place) -> np.ndarray:
    """The array as 32-bit floats. Raises if it holds NaN or infinity, or a number that is too large."""
    with np.errstate(over="ignore"):  # it becomes infinite, which is reported
        converted = array.astype(np.float32)
    bad = _any(~np.isfinite(converted))
    if bad.any():
        finite = np.isfinite(array[bad][0]).all()
        place.check(bad, array, name, TOO_LARGE if finite else "which is not finite")
    return converted


def _check_whole(array: np.ndarray, name: str, place: Place) -> None:
    """Raises unless an array holds integers."""
    if array.dtype.kind == "f":
        raise DataError(f"{place.name}: {name} must hold whole numbers, not {array.dtype}")


def _within(array: np.ndarray, space: Discrete) -> np.ndarray:
    """Whether each row [n, 1] is an element of the space [n]."""
    return np.all((array >= space.start) & (array <= space.start + space.n - 1), axis=1)


def _any(bad: np.ndarray) -> np.ndarray:
    """Whether any number of each row is bad. [n, ...] -> [n]."""
    return np.asarray(bad.any(axis=tuple(range(1, bad.ndim))))
