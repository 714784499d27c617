"""The memory of model-free episodic control: the best return of every pair that was met, found again by its nearest neighbours.

A `Table` is Q^EM(., a) of one action a: `write` is the paper's equation 1, `read` its equation 2. An observation is met again
if all its bytes are the same, which a digest tells; what is near is told by keys, which may be random projections.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gemrl.core.exceptions import ModelFileError

Array = np.ndarray

BLOCK = 1 << 22
"""Distances held at once."""


def squares(keys: Array) -> Array:
    """Squared lengths. [N, D] -> [N]."""
    return (keys**2).sum(axis=-1)


def nearest(keys: Array, lengths: Array, queries: Array, k: int) -> Array:
    """Rows of the k keys [N, D], of squared lengths [N], nearest to each query [B, D]; nearest first [B, min(k, N)]."""
    count = len(keys)
    if count <= k:  # all of them, so nothing has to be measured
        return np.broadcast_to(np.arange(count), (len(queries), count))
    step = max(1, BLOCK // count)
    blocks = [_nearest(keys, lengths, queries[at : at + step], k) for at in range(0, len(queries), step)]
    return np.concatenate(blocks) if blocks else np.empty((0, k), np.intp)


def _nearest(keys: Array, lengths: Array, queries: Array, k: int) -> Array:
    """The same, by one matrix product; whatever its rounding could have hidden is measured again."""
    own = squares(queries)
    scores = lengths - 2 * (queries @ keys.T)  # |key - query|^2 - |query|^2, to within the slack
    slack = 2 * (keys.shape[1] + 8) * np.finfo(np.float32).eps * (lengths.max() + own)
    some = np.argpartition(scores, k - 1)[:, :k]
    reach = ((keys[some] - queries[:, None]) ** 2).sum(axis=-1).max(axis=-1)  # so far at most are the k nearest
    candidates = scores <= (reach - own + slack)[:, None]
    return np.stack([_first(keys, query, np.flatnonzero(near), k) for query, near in zip(queries, candidates, strict=True)])


def _first(keys: Array, query: Array, rows: Array, k: int) -> Array:
    """The k nearest of some rows; of those equally far the first."""
    return rows[squares(keys[rows] - query).argsort(kind="stable")[:k]]


class Reading(NamedTuple):
    """What a table says of B observations."""

    values: Array  # [B] float32, NaN if the table is empty
    met: Array  # [B] bool, whether this very observation is in the table
    rows: Array  # all rows that the values come from


class Columns(NamedTuple):
    """The rows of one table, or of several behind each other, as arrays."""

    digest: Array  # [n] int64, of the observation
    key: Array  # [n, D] float32
    value: Array  # [n] float32, the best return
    used: Array  # [n] int64, when the row was last written or read, in a time of the table's own

    @staticmethod
    def empty(rows: int, width: int) -> Columns:
        """Rows of zeros. The system gives them room only when they are written."""
        whole = np.zeros(rows, np.int64), np.zeros((rows, width), np.float32)
        return Columns(*whole, np.zeros(rows, np.float32), np.zeros(rows, np.int64))


class Table:
    """Q^EM(., a) of one action: at most `capacity` rows, of which the least recently used one makes way for a new one."""

    def __init__(self, capacity: int, width: int) -> None:
        self._columns, self._lengths = Columns.empty(capacity, width), np.zeros(capacity, np.float32)
        self._places: dict[int, int] = {}
        self._now = 0

    def __len__(self) -> int:
        """Rows filled."""
        return len(self._places)

    @property
    def filled(self) -> Columns:
        """Its rows, as views."""
        return Columns(*(column[: len(self)] for column in self._columns))

    def write(self, digest: int, key: Array, value: float) -> None:
        """Equation 1: a new pair is stored with its return, one that was met keeps the better of both."""
        place = self._places.get(digest)
        if place is None:
            place = self._make_room()
            self._places[digest] = place
            self._columns.digest[place], self._columns.key[place], self._columns.value[place] = digest, key, value
            self._lengths[place] = squares(key[None])[0]
        elif value > self._columns.value[place]:
            self._columns.value[place] = value
        self.touch(place)

    def _make_room(self) -> int:
        if len(self) < len(self._lengths):
            return len(self)
        place = int(self._columns.used.argmin())
        del self._places[int(self._columns.digest[place])]
        return place

    def touch(self, rows: int | Array) -> None:
        """Notes that rows were used."""
        self._columns.used[rows] = self._now
        self._now += 1

    def read(self, digests: list[int], keys: Array, k: int) -> Reading:
        """Equation 2 for B observations, given by digests and keys [B, D]: the stored value, else the mean of the k nearest."""
        places = np.array([self._places.get(digest, -1) for digest in digests], np.intp)
        met = places >= 0
        values, stored = np.full(len(places), np.nan, np.float32), self._columns.value
        values[met] = stored[places[met]]
        if met.all() or not len(self):
            return Reading(values, met, places[met])
        near = nearest(self._columns.key[: len(self)], self._lengths[: len(self)], keys[~met], k)
        values[~met] = stored[near].mean(axis=1)
        return Reading(values, met, np.concatenate([places[met], near.reshape(-1)]))

    def restore(self, rows: Columns) -> None:
        """Takes over saved rows."""
        count = len(rows.digest)
        if count > len(self._lengths):
            raise ModelFileError(f"a table of {len(self._lengths)} rows cannot hold {count}")
        self._places = {int(digest): place for place, digest in enumerate(rows.digest)}
        numbers = np.isfinite(rows.key).all() and np.isfinite(rows.value).all() and (rows.used >= 0).all()
        if len(self._places) < count or not numbers:
            raise ModelFileError("a table of returns is damaged: it has a pair twice, or values that are no numbers")
        for column, saved in zip(self._columns, rows, strict=True):
            column[:count] = saved
        self._lengths[:count] = squares(rows.key)
        self._now = int(rows.used.max(initial=-1)) + 1
