"""Algorithm 2's first half: the values of next states all over the memory, evaluated anew."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from gemrl.memory import Memory
from gemrl.planning import Array


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
