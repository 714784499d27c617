"""Flattens observations of Dict, Tuple, MultiDiscrete and MultiBinary spaces to vectors, as gymnasium's `flatten` does.

Entries come in the order of their space, which is saved with a model. A category is one-hot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from gemrl.core.exceptions import BadValue, UnsupportedSpace
from gemrl.core.suggestions import nearest
from gemrl.core.text import short_repr

Leaf: TypeAlias = Box | Discrete | MultiBinary | MultiDiscrete
"""A space of arrays of numbers."""

LEAVES = (Box, Discrete, MultiBinary, MultiDiscrete)


class Entry(NamedTuple):
    """A space of arrays within an observation space, and the keys and indices that lead to it."""

    path: tuple[str | int, ...]
    space: Leaf
    numbered: bool = False
    """Whether a Discrete value stays a number, counted from 0, instead of becoming one-hot: for tables."""

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"entry {'/'.join(map(str, self.path))!r} of the observation" if self.path else "the observation"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its values in one observation."""
        return tuple(self.space.shape or ())

    @property
    def categories(self) -> np.ndarray | None:
        """The number of values of each of its categories [k]; None if its numbers are used as they are."""
        if isinstance(self.space, Discrete):
            return np.array([self.space.n])
        return self.space.nvec.reshape(-1).astype(np.int64) if isinstance(self.space, MultiDiscrete) else None

    @property
    def size(self) -> int:
        """How many numbers it has in the vector."""
        counts = self.categories
        return int(np.prod(self.shape)) if counts is None or self.numbered else int(counts.sum())

    def flat(self, values: np.ndarray) -> np.ndarray:
        """Its part of n vectors. [n, *shape] -> [n, size]."""
        counts, rows = self.categories, values.reshape(len(values), -1)
        if counts is None:
            return rows
        assert isinstance(self.space, (Discrete, MultiDiscrete))
        index = rows - np.reshape(self.space.start, -1)
        bad = ~((index >= 0) & (index < counts) & (index == np.floor(index))).all(axis=1)
        if bad.any():
            value = short_repr(values[np.flatnonzero(bad)[0]].tolist())
            raise BadValue(f"{self.name} is {value}, which is not in its space")
        if self.numbered:
            return index
        hot = np.zeros((len(values), counts.sum()))
        hot[np.arange(len(values))[:, None], np.cumsum(counts) - counts + index.astype(np.int64)] = 1
        return hot

    def value(self, observation: Any) -> np.ndarray:
        """Its values in an observation or in a batch of them."""
        for depth, key in enumerate(self.path):
            observation = _member(observation, key, self.path[:depth])
        try:
            values = np.asarray(observation)
        except ValueError as error:  # lists of unequal lengths
            raise BadValue(f"{self.name} is not an array: {error}") from None
        if values.dtype.kind not in "biuf":
            raise BadValue(f"{self.name} holds {values.dtype}, not numbers")
        return values


def _member(observation: Any, key: str | int, above: tuple[str | int, ...]) -> Any:
    """The member of an observation with this key or index. Raises if there is none."""
    whole = f"entry {'/'.join(map(str, above))!r} of the observation" if above else "the observation"
    if isinstance(observation, Mapping):
        if key in observation:
            return observation[key]
        raise BadValue(f"{whole} has no entry {key!r}{nearest(str(key), map(str, observation))}")
    if isinstance(key, int) and isinstance(observation, (tuple, list)):
        if key < len(observation):
            return observation[key]
        raise BadValue(f"{whole} has {len(observation)} entries, but entry {key} is needed (they are counted from 0)")
    kind = "a tuple" if isinstance(key, int) else "a dict"
    raise BadValue(f"{whole} must be {kind}, as its space is, not {type(observation).__name__}")


def entries_of(space: gym.Space, path: tuple[str | int, ...] = ()) -> tuple[Entry, ...]:
    """All entries of an observation space, in its own order."""
    if isinstance(space, LEAVES):
        if 0 in (space.shape or ()):
            where = f" in {'/'.join(map(str, path))!r}" if path else ""
            kind = type(space).__name__
            raise UnsupportedSpace(
                f"observations must contain at least one number, but this {kind} has shape {space.shape}{where}"
            )
        return (Entry(path, space),)
    if isinstance(space, Dict):
        members: list[tuple[Any, gym.Space]] = list(space.spaces.items())
    elif isinstance(space, Tuple):
        members = list(enumerate(space.spaces))
    else:
        where = f" (entry {'/'.join(map(str, path))!r})" if path else ""
        known = "Box, Discrete, MultiDiscrete or MultiBinary, or a Dict or Tuple of these"
        hint = ": leave it out with gymnasium.wrappers.FilterObservation" if path else ""
        raise UnsupportedSpace(f"observations must be a {known}, not {type(space).__name__}{where}{hint}")
    if not members:
        raise UnsupportedSpace(f"observations must contain at least one number, but this {type(space).__name__} is empty")
    for key, _ in members:
        if not isinstance(key, (str, int)):
            raise UnsupportedSpace(f"keys of a Dict must be strings, not {key!r}")
    return tuple(entry for key, inner in members for entry in entries_of(inner, (*path, key)))


@dataclass(frozen=True)
class Flattening:
    """The vector of an observation: its entries one after the other."""

    entries: tuple[Entry, ...]

    @property
    def size(self) -> int:
        """How many numbers a vector has, D."""
        return sum(entry.size for entry in self.entries)

    def one(self, observation: Any) -> np.ndarray:
        """The vector of one observation [D]."""
        parts = []
        for entry in self.entries:
            values = entry.value(observation)
            if values.size != np.prod(entry.shape):  # an array of another shape, but with the same numbers, is clear enough
                raise BadValue(f"{entry.name} has shape {values.shape}, not {entry.shape}")
            parts.append(entry.flat(values.reshape(1, *entry.shape)))
        return np.concatenate(parts, axis=1, dtype=np.float64)[0]

    def batch(self, observation: Any) -> tuple[np.ndarray, bool]:
        """The vectors of one observation or of a batch, whose entries are batches, [n, D]; and whether it was a batch."""
        values = [entry.value(observation) for entry in self.entries]
        several = values[0].ndim > len(self.entries[0].shape)
        count = len(values[0]) if several else 1
        for entry, given in zip(self.entries, values, strict=True):
            shape = (count, *entry.shape) if several else entry.shape
            if given.shape != shape:
                expected = shape if several else f"{shape} or {_with_rows(shape)}"
                raise BadValue(f"{entry.name} must have shape {expected}, not {given.shape}")
        parts = [entry.flat(given if several else given[None]) for entry, given in zip(self.entries, values, strict=True)]
        return np.concatenate(parts, axis=1, dtype=np.float64), several

    def place(self, number: int) -> str:
        """Where a number of the vector comes from, for messages."""
        for entry in self.entries:
            if number < entry.size:
                return f"number {number} of {entry.name}"
            number -= entry.size
        raise IndexError(number)


def _with_rows(shape: tuple[int, ...]) -> str:
    """The shape of a batch, in words."""
    return f"(n, {', '.join(map(str, shape))})" if shape else "(n,)"


def member_of_batch(space: gym.Space, observations: Any, index: int) -> Any:
    """One observation of a batch: the row of an array, and of a dict or tuple of batches the same in each."""
    if isinstance(space, Dict) and isinstance(observations, Mapping):
        return {key: member_of_batch(inner, observations[key], index) for key, inner in space.spaces.items()}
    if isinstance(space, Tuple) and isinstance(observations, tuple):
        pairs = zip(space.spaces, observations, strict=True)
        return tuple(member_of_batch(inner, values, index) for inner, values in pairs)
    return observations[index]
