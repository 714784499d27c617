"""The memory of model-free episodic control: the best return of every state-action pair, looked up by nearest neighbours.

A `Table` is Q^EM(., a) for one action a: `write` is equation 1 of the paper, `read` is equation 2. Two observations are the same
if all their bytes are, which is checked by a digest. Distances are measured between keys, which may be random projections.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gemrl.core.exceptions import ModelFileError

Array = np.ndarray

BLOCK = 1 << 22
"""Distances computed at a time."""


def squares(keys: Array) -> Array:
    """Squared norms. [N, D] -> [N]."""
    return (keys**2).sum(axis=-1)


def nearest(keys: Array, norms: Array, queries: Array, k: int) -> Array:
    """Indices of the k keys nearest to each query, nearest first unless N <= k.

    keys [N, D], their squared norms [N], queries [B, D] -> [B, min(k, N)].
    """
    count = len(keys)
    if count <= k:  # every key is among them, so no distance is needed
        return np.broadcast_to(np.arange(count), (len(queries), count))
    step = max(1, BLOCK // count)
    blocks = [_nearest(keys, norms, queries[start : start + step], k) for start in range(0, len(queries), step)]
    return np.concatenate(blocks) if blocks else np.empty((0, k), np.intp)


def _nearest(keys: Array, norms: Array, queries: Array, k: int) -> Array:
    """The same by one matrix product; candidates within its rounding error are measured exactly."""
    own = squares(queries)
    scores = norms - 2 * (queries @ keys.T)  # |key - query|^2 - |query|^2, up to the slack
    slack = 2 * (keys.shape[1] + 8) * np.finfo(np.float32).eps * (norms.max() + own)
    guess = np.argpartition(scores, k - 1)[:, :k]
    radius = ((keys[guess] - queries[:, None]) ** 2).sum(axis=-1).max(axis=-1)  # the k nearest are at most this far away
    candidates = scores <= (radius - own + slack)[:, None]
    return np.stack([_first(keys, query, np.flatnonzero(near), k) for query, near in zip(queries, candidates, strict=True)])


def _first(keys: Array, query: Array, rows: Array, k: int) -> Array:
    """The k nearest of some rows; ties go to the first."""
    return rows[squares(keys[rows] - query).argsort(kind="stable")[:k]]


class Reading(NamedTuple):
    """The estimates of a table for B observations."""

    values: Array  # [B] float32, NaN if the table is empty
    known: Array  # [B] bool, whether the observation itself is in the table
    rows: Array  # indices of all rows that the values come from


class Columns(NamedTuple):
    """The rows of one table, or of several tables concatenated, as arrays."""

    digest: Array  # [n] int64, of the observation
    key: Array  # [n, D] float32
    value: Array  # [n] float32, the best return
    used: Array  # [n] int64, when the row was last written or read, on the table's own clock

    @staticmethod
    def empty(rows: int, width: int) -> Columns:
        """Rows of zeros. The operating system allocates their pages only when they are written."""
        whole = np.zeros(rows, np.int64), np.zeros((rows, width), np.float32)
        return Columns(*whole, np.zeros(rows, np.float32), np.zeros(rows, np.int64))


class Table:
    """Q^EM(., a) for one action: at most `capacity` rows. In a full table, a new row replaces the least recently used one."""

    def __init__(self, capacity: int, width: int) -> None:
        self._columns, self._norms = Columns.empty(capacity, width), np.zeros(capacity, np.float32)
        self._index: dict[int, int] = {}  # the row of each digest
        self._now = 0

    def __len__(self) -> int:
        """Rows filled."""
        return len(self._index)

    @property
    def filled(self) -> Columns:
        """The filled rows, as views."""
        return Columns(*(column[: len(self)] for column in self._columns))

    def write(self, digest: int, key: Array, value: float) -> None:
        """Equation 1: stores a new pair with its return; a known pair keeps the better of both returns."""
        row = self._index.get(digest)
        if row is None:
            row = self._free_row()
            self._index[digest] = row
            self._columns.digest[row], self._columns.key[row], self._columns.value[row] = digest, key, value
            self._norms[row] = squares(key[None])[0]
        elif value > self._columns.value[row]:
            self._columns.value[row] = value
        self.touch(row)

    def _free_row(self) -> int:
        """A row for a new pair; in a full table, the least recently used one."""
        if len(self) < len(self._norms):
            return len(self)
        row = int(self._columns.used.argmin())
        del self._index[int(self._columns.digest[row])]
        return row

    def touch(self, rows: int | Array) -> None:
        """Marks rows as just used."""
        self._columns.used[rows] = self._now
        self._now += 1

    def read(self, digests: list[int], keys: Array, k: int) -> Reading:
        """Equation 2 for B observations, given by digests and keys [B, D]: the stored value, else the mean of the k nearest."""
        rows = np.array([self._index.get(digest, -1) for digest in digests], np.intp)
        known = rows >= 0
        values, stored = np.full(len(rows), np.nan, np.float32), self._columns.value
        values[known] = stored[rows[known]]
        if known.all() or not len(self):
            return Reading(values, known, rows[known])
        near = nearest(self._columns.key[: len(self)], self._norms[: len(self)], keys[~known], k)
        values[~known] = stored[near].mean(axis=1)
        return Reading(values, known, np.concatenate([rows[known], near.reshape(-1)]))

    def restore(self, rows: Columns) -> None:
        """Restores saved rows."""
        count = len(rows.digest)
        if count > len(self._norms):
            raise ModelFileError(f"a table of {len(self._norms)} rows cannot hold {count}")
        self._index = {int(digest): row for row, digest in enumerate(rows.digest)}
        valid = np.isfinite(rows.key).all() and np.isfinite(rows.value).all() and (rows.used >= 0).all()
        if len(self._index) < count or not valid:
            raise ModelFileError("a table of returns is damaged: it has duplicate pairs, or values that are not finite")
        for column, saved in zip(self._columns, rows, strict=True):
            column[:count] = saved
        self._norms[:count] = squares(rows.key)
        self._now = int(rows.used.max(initial=-1)) + 1
