"""Trajectories in the memory: which rows belong to them, which ones rollouts from drawn rows reach, and draws of trajectories.

Rows of a lane are counted from its oldest one here, so that trajectories are intervals, wherever the ring begins.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gemrl.agents.memory.ring import Memory, RowIndex, draw
from gemrl.core.arrays import Array


class Trajectories(NamedTuple):
    """For each row, the first and the last row of its trajectory. Each [E, N], counted from the oldest row of the lane."""

    first: Array
    last: Array

    @staticmethod
    def of(memory: Memory) -> Trajectories:
        """The trajectories of all filled rows; the newest one of a lane ends with its newest row."""
        row = jnp.arange(memory.capacity)
        position = ((memory.head - memory.size)[:, None] + row) % memory.capacity
        ends = jnp.take_along_axis(memory.rows.last, position, axis=1) | (row == memory.size[:, None] - 1)
        before = jnp.pad(ends[:, :-1], ((0, 0), (1, 0)), constant_values=True)
        first = jax.lax.cummax(jnp.where(before, row, 0), axis=1)
        last = jax.lax.cummin(jnp.where(ends, row, memory.capacity), axis=1, reverse=True)
        return Trajectories(first, last)


def reached(memory: Memory, drawn: RowIndex, depth: int) -> Array:
    """Whether a rollout of up to `depth` steps from a drawn row [*S] uses a row [E, N]."""
    row = jnp.arange(memory.capacity)
    marked = jnp.zeros(memory.rows.last.shape, bool).at[drawn.lane, drawn.offset].set(True)
    nearest = jax.lax.cummax(jnp.where(marked, row, -1), axis=1)  # the newest drawn row up to each row
    return (nearest >= Trajectories.of(memory).first) & (row - nearest < depth) & (row < memory.size[:, None])


def newest(memory: Memory, count: Array) -> Array:
    """Whether a row is one of the newest count[e] of its lane [E, N]."""
    row, size = jnp.arange(memory.capacity), memory.size[:, None]
    return (row >= size - count[:, None]) & (row < size)


class Pool(NamedTuple):
    """Trajectories that minibatches are drawn from, each as often as it was drawn. The first three [M]."""

    lane: Array
    first: Array  # their first rows, counted from the oldest row of the lane
    length: Array
    count: Array  # [], how many of them are used
    whole: Array  # [], whether the memory has so few rows that minibatches are drawn from all of them

    @staticmethod
    def drawn(memory: Memory, key: Array, rows: int) -> Pool:
        """Trajectories of about `rows` rows in all, drawn with replacement, with probabilities in proportion to their lengths."""
        found, row, filled = Trajectories.of(memory), jnp.arange(memory.capacity), memory.size.sum()
        index = draw(memory, key, (rows,), planned=False)  # a row that is drawn from all rows says which trajectory it is
        first, last = (x[index.lane, index.offset] for x in found)
        # Long trajectories are drawn more often, so what is drawn is longer than the mean of all: a mean over rows.
        length = jnp.where(row < memory.size[:, None], found.last - found.first + 1, 0).sum(dtype=jnp.float32)
        count = jnp.ceil(rows * (filled / jnp.maximum(length, 1))).astype(int)
        return Pool(index.lane, first, last - first + 1, jnp.clip(count, 1, rows), filled <= rows)

    def draw(self, memory: Memory, key: Array, shape: tuple[int, ...]) -> RowIndex:
        """Rows drawn with replacement; over all pools, each row of the memory is equally likely."""
        which_key, row_key = jax.random.split(key)
        which = jax.random.randint(which_key, shape, 0, self.count)
        lane, offset = self.lane[which], self.first[which] + jax.random.randint(row_key, shape, 0, self.length[which])
        chosen = RowIndex(lane, ((memory.head - memory.size)[lane] + offset) % memory.capacity, offset)
        everywhere = draw(memory, key, shape, planned=False)
        return jax.tree.map(lambda a, b: jnp.where(self.whole, a, b), everywhere, chosen)
