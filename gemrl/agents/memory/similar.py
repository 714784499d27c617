"""The rows of the memory that are most similar to each row, and the mean of their returns.

Rows are compared by keys: random projections of their states and actions. The nearest rows are exact. They are stored, so that
only new rows, and rows whose neighbours were overwritten, are compared with all others.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from gemrl.agents.memory.ring import Memory
from gemrl.core.arrays import Array

ROWS_AT_ONCE = 4096
"""Rows whose neighbours are searched at a time: few enough that everything stays in cache."""

UNROLLED = 8
"""Candidates in one step of the loop over them."""


class Nearest(NamedTuple):
    """The nearest rows of Q rows, nearest first. Each [J, Q]; the distance is infinite where there is no such row."""

    distance: Array  # squared
    row: Array


class Listed(NamedTuple):
    """Rows by number, counted over all lanes."""

    row: Array  # [M], followed by M, the number of no row
    count: Array  # []

    @staticmethod
    def of(wanted: Array) -> Listed:
        """The rows that are wanted [M], and room for one more chunk."""
        room = len(wanted) + max(ROWS_AT_ONCE, UNROLLED)
        return Listed(jnp.flatnonzero(wanted, size=room, fill_value=len(wanted)), wanted.sum())

    def chunk(self, number: Array, rows: int) -> Array:
        """Chunk `number`, of this many rows."""
        return jax.lax.dynamic_slice(self.row, (number * rows,), (rows,))


def keys_of(memory: Memory, projection: Array) -> Array:
    """The key of every row, infinite where there is none. [D + A, F] -> [F, M]."""
    state, action = jnp.split(projection, [memory.rows.observation.shape[-1]])
    keys = (memory.rows.observation @ state + memory.rows.action @ action).reshape(-1, projection.shape[-1])
    return jnp.where(newest(memory, memory.size), keys.T, jnp.inf)


def newest(memory: Memory, count: Array) -> Array:
    """Whether a row is one of the newest count[e] of its lane. [E] -> [M]."""
    age = (memory.head[:, None] - 1 - jnp.arange(memory.capacity)) % memory.capacity
    return (age < count[:, None]).reshape(-1)


def at(keys: Array, row: Array) -> Array:
    """The keys of rows; infinite for no row. [F, M], [*S] -> [F, *S]."""
    return keys.at[:, row].get(mode="fill", fill_value=jnp.inf)


def squared_distance(keys: Array, row: Array, other: Array) -> Array:
    """Between the keys of rows and of other rows; infinite if there is no other row. [Q], [J, Q] -> [J, Q]."""
    squares = ((at(keys, row)[:, None] - at(keys, other)) ** 2).sum(axis=0)
    return jnp.where(other < keys.shape[1], squares, jnp.inf)


def inserted(best: Nearest, distance: Array, row: Array) -> Nearest:
    """The nearest rows with one more candidate for each of them, where it is nearer. [Q], [] -> [J, Q]."""
    found = []
    for known, number in zip(*best, strict=True):
        nearer = distance < known
        found.append((jnp.where(nearer, distance, known), jnp.where(nearer, row, number)))
        distance, row = jnp.where(nearer, known, distance), jnp.where(nearer, number, row)
    return Nearest(*map(jnp.stack, zip(*found, strict=True)))


def nearer(keys: Array, rows: Array, best: Nearest, candidates: Listed) -> Nearest:
    """The nearest of what was known to be and of the candidates, for some rows [Q]. A row is not its own neighbour."""
    own = at(keys, rows)

    def step(number: Array, best: Nearest) -> Nearest:
        block = candidates.chunk(number, UNROLLED)
        places = at(keys, block)
        for row, place in zip(block, places.T, strict=True):
            squares = sum((x - y) ** 2 for x, y in zip(own, place, strict=True))
            best = inserted(best, jnp.where(rows == row, jnp.inf, squares), row)
        return best

    return jax.lax.fori_loop(0, -(-candidates.count // UNROLLED), step, best)


def search(keys: Array, nearest: Array, rows: Listed, candidates: Listed, *, anew: bool) -> Array:
    """The nearest rows [J, M], with those of the listed rows improved by the candidates, or searched among these only."""

    def chunk(number: Array, nearest: Array) -> Array:
        queries = rows.chunk(number, ROWS_AT_ONCE)
        known = nearest[:, queries]
        known = jnp.full_like(known, keys.shape[1]) if anew else known
        best = nearer(keys, queries, Nearest(squared_distance(keys, queries, known), known), candidates)
        return nearest.at[:, queries].set(best.row, mode="drop")

    return jax.lax.fori_loop(0, -(-rows.count // ROWS_AT_ONCE), chunk, nearest)


def with_nearest(memory: Memory, projection: Array | None) -> tuple[Array, Memory]:
    """The keys [F, M] of all rows, and the memory with the neighbours of every row, if its rows have neighbours.

    Rows that are not planned yet count as new.
    """
    assert projection is not None
    keys = keys_of(memory, projection)
    if memory.nearest is None:
        return keys, memory
    nearest, filled, new = (
        memory.nearest.reshape(len(memory.nearest), -1),
        newest(memory, memory.size),
        newest(memory, memory.unplanned),
    )
    gone = (new | ~filled)[nearest].any(axis=0)  # a neighbour was overwritten; "no row" counts as the last one
    anew = filled & (new | gone | (nearest == len(filled)).any(axis=0))
    nearest = search(keys, nearest, Listed.of(filled & ~anew), Listed.of(new), anew=False)
    nearest = search(keys, nearest, Listed.of(anew), Listed.of(filled), anew=True)
    return keys, eqx.tree_at(lambda m: m.nearest, memory, nearest.reshape(memory.nearest.shape))


def with_mean_returns(memory: Memory, keys: Array) -> Memory:
    """The memory in which every row has the mean planned return of itself and its neighbours.

    Weights are the softmax of negative distances, as in the authors' code.
    """
    if memory.nearest is None:
        return memory
    count = keys.shape[1]
    nearest, row = memory.nearest.reshape(-1, count), jnp.arange(count)
    rows = jnp.concatenate([row[None], nearest])  # each row is the nearest to itself
    distance = jnp.concatenate([jnp.zeros((1, count)), jnp.sqrt(squared_distance(keys, row, nearest))])
    weight = jax.nn.softmax(-distance, axis=0)
    planned = memory.planned.reshape(len(memory.planned), count)
    mean = jnp.where(weight > 0, weight * planned[:, rows], 0).sum(axis=1)
    return eqx.tree_at(lambda m: m.planned, memory, jnp.where(jnp.isnan(planned), jnp.nan, mean).reshape(memory.planned.shape))
