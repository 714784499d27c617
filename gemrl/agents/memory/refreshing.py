"""What Algorithm 2 does to the memory: values of its rows are computed again, in chunks, and returns are planned from them."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from gemrl.agents.memory.ring import PLANNER_INPUTS, Memory
from gemrl.algorithms.planning import Planner
from gemrl.core.arrays import Array


class Chunks:
    """Rows of the memory in chunks of about `rows` rows, to be evaluated chunk by chunk.

    Rows beyond the last one have a position outside the ring: reading clamps it, and writing drops it.
    """

    def __init__(self, memory: Memory, places: Callable[[Array], tuple[Array, Array]], count: Array) -> None:
        """`places` gives lanes and positions [B] of the rows in a chunk, by its number; `count` is the number of chunks."""
        self._memory, self._places, self.count = memory, places, count

    @staticmethod
    def newest(memory: Memory, stale: Array, rows: int, but: Array | int = 0) -> Chunks:
        """The newest stale[e] rows of each lane, without the but[e] newest of them."""
        lanes, capacity = memory.rows.reward.shape
        width, wanted = max(1, rows // lanes), stale - but
        lane, start = jnp.arange(lanes)[:, None], (memory.head - stale)[:, None]

        def places(number: Array) -> tuple[Array, Array]:
            offset = number * width + jnp.arange(width)
            position = jnp.where(offset < wanted[:, None], (start + offset) % capacity, capacity)
            return jnp.broadcast_to(lane, position.shape).reshape(-1), position.reshape(-1)

        return Chunks(memory, places, -(-wanted.max() // width))

    @staticmethod
    def wanted(memory: Memory, wanted: Array, rows: int) -> Chunks:
        """The rows that are wanted [E, N], oldest first."""
        lanes, capacity = wanted.shape
        listed = jnp.flatnonzero(wanted, size=lanes * capacity, fill_value=lanes * capacity)
        oldest = memory.head - memory.size

        def places(number: Array) -> tuple[Array, Array]:
            index = number * rows + jnp.arange(rows)
            found = jnp.where(index < lanes * capacity, listed[index], lanes * capacity)
            lane, offset = jnp.minimum(found // capacity, lanes - 1), found % capacity
            return lane, jnp.where(found < lanes * capacity, (oldest[lane] + offset) % capacity, capacity)

        return Chunks(memory, places, -(-wanted.sum() // rows))

    def places(self, number: Array) -> tuple[Array, Array, Array]:
        """The lanes and positions of the rows in a chunk, and whether there is such a row, each [B]."""
        lane, position = self._places(number)
        return lane, position, position < self._memory.capacity

    def next_observations(self, number: Array) -> tuple[Array, Array]:
        """The lanes [B] of the rows in a chunk, and their next observations as stored [B, *O]."""
        lane, position = self._places(number)
        return lane, self._memory.rows.next_observation[lane, position]

    def next_actions(self, number: Array) -> Array:
        """The actions that were taken in these next observations [B, A]; arbitrary where a trajectory ends."""
        lane, position = self._places(number)
        return self._memory.rows.action[lane, (position + 1) % self._memory.capacity]

    def row_numbers(self, number: Array) -> Array:
        """A number for each row in a chunk [B], which is the same however rows are divided into chunks."""
        lane, position = self._places(number)
        return lane * self._memory.capacity + position

    def write(self, number: Array, column: Array, values: Array) -> Array:
        """A column [K, E, N] with the values [K, B] of a chunk's rows written to it."""
        lane, position = self._places(number)
        return column.at[:, lane, position].set(values, mode="drop")


def stale_rows(memory: Memory) -> Array:
    """How many of the newest rows of each lane have values that new rows changed [E]."""
    if memory.q_stored is None:
        return memory.unplanned
    return jnp.minimum(memory.unplanned + 1, memory.size)  # the row before the new ones now has a next action


def planner_inputs(memory: Memory) -> dict[str, Array]:
    """The columns that a planner takes, by name."""
    columns = memory.rows.columns() | memory.values()
    return {name: columns[name] for name in PLANNER_INPUTS if name in columns}


def plan(memory: Memory, planner: Planner) -> Memory:
    """The memory with the return of every row planned from its `q_next`, and its rollout, if minibatches follow it."""
    capacity = memory.capacity
    position = jnp.arange(capacity)
    # In this order the unfilled rows come first, then the filled ones from oldest to newest, so nothing follows the newest.
    to_time = (memory.head[:, None] + position) % capacity
    to_ring = (position - memory.head[:, None]) % capacity

    def in_time(x: Array) -> Array:
        return jnp.take_along_axis(x, jnp.broadcast_to(to_time, x.shape), axis=-1)

    def in_ring(x: Array) -> Array:
        return jnp.take_along_axis(x, jnp.broadcast_to(to_ring, x.shape), axis=-1)

    rollouts = planner.rollouts(**{name: in_time(column) for name, column in planner_inputs(memory).items()})
    age = (memory.head[:, None] - 1 - position) % capacity
    filled = age < memory.size[:, None]
    planned = jnp.where(filled, in_ring(rollouts.other), jnp.nan)
    memory = eqx.tree_at(lambda m: (m.planned, m.unplanned), memory, (planned, jnp.zeros_like(memory.unplanned)))
    if memory.length is None:
        return memory
    length = jnp.where(filled, in_ring(rollouts.length), 0).astype(memory.length.dtype)
    return eqx.tree_at(lambda m: (m.length, m.gain), memory, (length, in_ring(rollouts.reward)))


NEWEST = 256
"""Up to this many new rows per lane, by default, `plan_newest` plans only the end of the memory."""


def plan_newest(memory: Memory, planner: Planner, newest_rows: int = NEWEST) -> Memory:
    """The same as `plan`, if no `q_next` of a planned row has changed: new rows affect only returns that can reach them."""
    capacity, window = memory.capacity, planner.rollout_cap - 1 + newest_rows
    if window >= capacity:
        return plan(memory, planner)
    age = jnp.arange(window)[::-1]
    lane, position = jnp.arange(len(memory.head))[:, None], (memory.head[:, None] - 1 - age) % capacity

    def newest(memory: Memory) -> Memory:
        returns = planner(**{name: x[..., lane, position] for name, x in planner_inputs(memory).items()})
        returns = jnp.where(age < memory.size[:, None], returns, jnp.nan)
        planned = memory.planned.at[:, lane, position].set(returns)
        return eqx.tree_at(lambda m: (m.planned, m.unplanned), memory, (planned, jnp.zeros_like(memory.unplanned)))

    return jax.lax.cond(memory.unplanned.max() <= newest_rows, newest, lambda memory: plan(memory, planner), memory)
