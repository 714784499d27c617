"""What Algorithm 2 does to the memory: values of its rows are computed again, in chunks, and returns are planned from them."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from gemrl.agents.memory.ring import PLANNER_INPUTS, Memory
from gemrl.algorithms.planning import Planner
from gemrl.core.arrays import Array


class Chunks:
    """The newest stale[e] rows of each lane in chunks of about `rows` rows, to be evaluated chunk by chunk."""

    def __init__(self, memory: Memory, stale: Array, rows: int) -> None:
        lanes = memory.rows.reward.shape[0]
        self._memory, self._stale, self._width = memory, stale, max(1, rows // lanes)
        self._lane, self._start = jnp.arange(lanes)[:, None], (memory.head - stale)[:, None]
        self.count = -(-stale.max() // self._width)

    def next_observations(self, number: Array) -> tuple[Array, Array]:
        """The lanes [B] of the rows in a chunk, and their next observations as stored [B, *O]."""
        position = self._position(number)
        kept = self._memory.rows.next_observation[self._lane, position]
        lane = jnp.broadcast_to(self._lane, position.shape)
        return lane.reshape(-1), kept.reshape(position.size, *kept.shape[2:])

    def next_actions(self, number: Array) -> Array:
        """The actions that were taken in these next observations [B, A]; arbitrary where a trajectory ends."""
        action = self._memory.rows.action[self._lane, (self._position(number) + 1) % self._memory.capacity]
        return action.reshape(-1, action.shape[-1])

    def write(self, number: Array, column: Array, values: Array) -> Array:
        """A column [K, E, N] with the values [K, B] of a chunk's rows written to it."""
        offset = number * self._width + jnp.arange(self._width)
        # Rows beyond the stale ones get a position outside the ring, which a scatter drops.
        position = jnp.where(offset < self._stale[:, None], self._position(number), self._memory.capacity)
        values = values.reshape(-1, len(self._lane), self._width)
        return column.at[:, self._lane, position].set(values, mode="drop")

    def _position(self, number: Array) -> Array:
        return (self._start + number * self._width + jnp.arange(self._width)) % self._memory.capacity


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
"""Up to this many new rows per lane, `plan_newest` plans only the end of the memory."""


def plan_newest(memory: Memory, planner: Planner) -> Memory:
    """The same as `plan`, if no `q_next` of a planned row has changed: new rows affect only returns that can reach them."""
    capacity, window = memory.capacity, planner.rollout_cap - 1 + NEWEST
    if window >= capacity:
        return plan(memory, planner)
    age = jnp.arange(window)[::-1]
    lane, position = jnp.arange(len(memory.head))[:, None], (memory.head[:, None] - 1 - age) % capacity

    def newest(memory: Memory) -> Memory:
        returns = planner(**{name: x[..., lane, position] for name, x in planner_inputs(memory).items()})
        returns = jnp.where(age < memory.size[:, None], returns, jnp.nan)
        planned = memory.planned.at[:, lane, position].set(returns)
        return eqx.tree_at(lambda m: (m.planned, m.unplanned), memory, (planned, jnp.zeros_like(memory.unplanned)))

    return jax.lax.cond(memory.unplanned.max() <= NEWEST, newest, lambda memory: plan(memory, planner), memory)
