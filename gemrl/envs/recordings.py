"""The arrays of a recording by name, with observations of Dict, Tuple and Multi spaces as vectors.

Observations of a Dict or Tuple space are a dict or tuple of arrays, a list of what the environment returned, several arrays with
names such as observations/goal, or one array of vectors that are flattened already.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Dict, Tuple

from gemrl.core.exceptions import DataError
from gemrl.core.suggestions import nearest
from gemrl.envs.spaces import Spaces

NAMES = {
    "observations": ("observations",),
    "next_observations": ("next_observations",),
    "actions": ("actions",),
    "rewards": ("rewards",),
    "terminated": ("terminated", "terminations", "terminals"),
    "truncated": ("truncated", "truncations", "timeouts"),
}
"""The arrays of a recording, with the names that gymnasium, Minari and D4RL use."""

OBSERVED = ("observations", "next_observations")
"""The arrays that may have several entries."""

ALL_NAMES = [name for names in NAMES.values() for name in names]

SAY_HOW = {
    "truncated": "add one that is true where an episode was cut off (a time limit, or where the recording stops), else false",
    "terminated": "add one that is true where an episode ended in a terminal state, else false",
}


def is_wanted(name: str) -> bool:
    """Whether a recording may have an array with this name; entries of observations have names such as observations/goal."""
    return name in ALL_NAMES or name.partition("/")[0] in OBSERVED


def recorded_arrays(spaces: Spaces, arrays: Mapping[str, Any], where: str) -> dict[str, np.ndarray]:
    """All arrays of a recording, by the first of their names. Raises an error that names `where` if one is missing."""
    known = dict(arrays)
    for name in OBSERVED:
        if name not in known and any(str(other).startswith(f"{name}/") for other in arrays):
            if not spaces.entries[0].path:
                raise DataError(f"{where}: {name} is a group of arrays, but the environment's observations are one array")
            known[name] = _nested(spaces.observation_space, arrays, name, where)
        if known.get(name) is not None:
            try:
                known[name] = _flattened(spaces, known[name])
            except ValueError as error:  # a BadValue, or rows of unequal shapes
                raise DataError(f"{where}: {name}: {error}") from None
    return {name: _found(known, name, where) for name in NAMES}


def _flattened(spaces: Spaces, given: Any) -> Any:
    """Observations of several entries as vectors [n, D], those of the only entry of a Dict or Tuple as its array."""
    entry, flattening = spaces.entries[0], spaces.flattening
    if entry.path and isinstance(given, list):
        given = np.stack([spaces.numbers(one) for one in given]) if given else np.zeros(0)
    elif flattening and (isinstance(given, (Mapping, tuple)) or not entry.path):
        given = flattening.batch(given)[0]
    elif entry.path and isinstance(given, (Mapping, tuple)):
        given = entry.value(given)
    return given.astype(np.int64) if flattening and spaces.layout.states and isinstance(given, np.ndarray) else given


def _nested(space: gym.Space, arrays: Mapping[str, Any], name: str, where: str) -> Any:
    """The observations whose entries are arrays with names such as observations/goal, or observations/0 in a Tuple."""
    if isinstance(space, Dict):
        return {key: _nested(inner, arrays, f"{name}/{key}", where) for key, inner in space.spaces.items()}
    if isinstance(space, Tuple):
        return tuple(_nested(inner, arrays, f"{name}/{index}", where) for index, inner in enumerate(space.spaces))
    if name not in arrays:
        raise DataError(f"{where} has no array {name!r}{nearest(name, map(str, arrays))}")
    return arrays[name]


def _found(arrays: Mapping[str, Any], name: str, where: str) -> np.ndarray:
    """The array with this name, or another name of the same; an array without rows for next_observations if there is none."""
    present = [other for other in NAMES[name] if other in arrays]
    if len(present) > 1:
        raise DataError(f"{where} has both {present[0]!r} and {present[1]!r}, which mean the same: remove one")
    if not present:
        if name == "next_observations":
            return np.zeros(())
        others = [other for other in map(str, arrays) if other not in ALL_NAMES]
        near = next((f"; is {other!r} meant?" for other in others if nearest(other, NAMES[name])), "")
        how = SAY_HOW.get(name)
        raise DataError(f"{where} has no array {name!r}{f': {how}' if how else ''}{near}")
    try:
        array = np.asarray(arrays[present[0]])
    except ValueError as error:  # lists of unequal lengths
        raise DataError(f"{where}: {name} is not an array: {error}") from None
    if array.dtype.kind not in "biuf":
        raise DataError(f"{where}: {name} must hold numbers, not {array.dtype}")
    return array
