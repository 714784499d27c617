"""Algorithm 2: the values of next states all over the memory, evaluated anew, and every return planned from them."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from gemrl.agents.memory.ring import Memory
from gemrl.algorithms.planning import Planner
from gemrl.core.arrays import Array


def refreshed(memory: Memory, stale: Array, chunk_rows: int, value_of: Callable[[Array, Array, Array], Array]) -> Memory:
    """The memory with `q_next` of the newest stale[e] rows of each lane evaluated; the work follows their number.

    `value_of(lane, kept, number)` tells the value [K, B] of the next states that B rows kept, in the chunk of that number.
    """
    lanes, capacity = memory.rows.reward.shape
    width = max(1, chunk_rows // lanes)
    lane = jnp.arange(lanes)[:, None]
    start = (memory.head - stale)[:, None]

    def chunk(number: Array, q_next: Array) -> Array:
        offset = number * width + jnp.arange(width)
        position = (start + offset) % capacity
        kept = memory.rows.next_observation[lane, position]
        flat = jnp.broadcast_to(lane, position.shape).reshape(-1), kept.reshape(lanes * width, *kept.shape[2:])
        values = value_of(*flat, number).reshape(-1, lanes, width)
        place = jnp.where(offset < stale[:, None], position, capacity)  # the others fall outside the ring and are dropped
        return q_next.at[:, lane, place].set(values, mode="drop")

    q_next = jax.lax.fori_loop(0, -(-stale.max() // width), chunk, memory.q_next)
    return eqx.tree_at(lambda x: x.q_next, memory, q_next)


def plan(memory: Memory, planner: Planner) -> Memory:
    """The memory with every row's return planned anew from its `q_next`."""
    capacity = memory.capacity
    place = jnp.arange(capacity)
    # In this order the unfilled rows come first, then the filled ones from oldest to newest, so nothing follows the newest.
    to_time = (memory.head[:, None] + place) % capacity
    to_ring = (place - memory.head[:, None]) % capacity

    def in_time(x: Array) -> Array:
        return jnp.take_along_axis(x, jnp.broadcast_to(to_time, x.shape), axis=-1)

    rows = memory.rows
    returns = planner(in_time(rows.reward), in_time(rows.discount), in_time(rows.last), in_time(memory.q_next))
    returns = jnp.take_along_axis(returns, jnp.broadcast_to(to_ring, returns.shape), axis=-1)
    age = (memory.head[:, None] - 1 - place) % capacity
    planned = jnp.where(age < memory.size[:, None], returns, jnp.nan)
    return eqx.tree_at(lambda m: (m.planned, m.unplanned), memory, (planned, jnp.zeros_like(memory.unplanned)))


NEWEST = 256
"""New rows of a lane up to which `plan_newest` need not look at the whole memory."""


def plan_newest(memory: Memory, planner: Planner) -> Memory:
    """The same as `plan`, if no value of a planned row has changed: new rows change only plans that can reach them."""
    capacity, window = memory.capacity, planner.rollout_cap - 1 + NEWEST
    if window >= capacity:
        return plan(memory, planner)
    age = jnp.arange(window)[::-1]
    lane, position = jnp.arange(len(memory.head))[:, None], (memory.head[:, None] - 1 - age) % capacity

    def newest(memory: Memory) -> Memory:
        rows = memory.rows
        reward, discount, last = (x[lane, position] for x in (rows.reward, rows.discount, rows.last))
        returns = planner(reward, discount, last, memory.q_next[:, lane, position])
        returns = jnp.where(age < memory.size[:, None], returns, jnp.nan)
        planned = memory.planned.at[:, lane, position].set(returns)
        return eqx.tree_at(lambda m: (m.planned, m.unplanned), memory, (planned, jnp.zeros_like(memory.unplanned)))

    return jax.lax.cond(memory.unplanned.max() <= NEWEST, newest, lambda memory: plan(memory, planner), memory)
