"""Rows of the memory with the same state and the same action, and the best return among them.

Two states are the same if all their numbers are. Rows are compared by digests of 64 bits, as in model-free episodic control, but
on the device: each number is mixed with a random number of its place, and the results are added.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gemrl.agents.memory.frames import Frames
from gemrl.agents.memory.ring import Memory
from gemrl.core.arrays import Array


def digests(x: Array) -> Array:
    """A digest of each row, equal for equal rows. [*S, D] of any type of numbers -> [*S, 2] unsigned."""
    bits = jax.lax.bitcast_convert_type(jnp.where(x == 0, 0.0, x), jnp.uint32) if x.dtype == jnp.float32 else x.astype(jnp.uint32)
    places = np.random.default_rng(0).integers(0, 1 << 32, (2, x.shape[-1]), np.uint32)  # the same in every run
    return jnp.stack([_mixed(bits ^ place).sum(axis=-1, dtype=jnp.uint32) for place in places], axis=-1)


def _mixed(x: Array) -> Array:
    """A permutation of 32-bit numbers in which every bit depends on all others: the last steps of MurmurHash3."""
    x = (x ^ (x >> 16)) * np.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * np.uint32(0xC2B2AE35)
    return x ^ (x >> 16)


def row_digests(memory: Memory) -> Array:
    """A digest of the state and the action of every row; a state may be a stack of images. [E, N, 2] unsigned."""
    kept, lanes = memory.rows.observation, jnp.arange(len(memory.size))[:, None]
    if memory.frames is None:
        state = kept.reshape(*kept.shape[:2], -1)
    else:  # each image is digested once, and a stack is the digests of its images
        pixels = memory.frames.pixels
        images = Frames(digests(pixels.reshape(*pixels.shape[:2], -1)), memory.frames.written, memory.frames.stack)
        state = images.observations(jnp.broadcast_to(lanes, kept.shape[:2]), kept).reshape(*kept.shape[:2], -1)
    return digests(jnp.concatenate([digests(state), memory.rows.action.astype(jnp.uint32)], axis=-1))


def best_of_equals(values: Array, digest: Array) -> Array:
    """The greatest value among all rows with the same digest; NaN counts for nothing and stays NaN. [K, M], [M, 2] -> [K, M]."""
    order = jnp.lexsort((digest[:, 1], digest[:, 0]))
    ordered = digest[order]
    begins = jnp.any(ordered[1:] != ordered[:-1], axis=-1)
    group = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(begins, dtype=jnp.int32)])
    known = jnp.where(jnp.isnan(values), -jnp.inf, values)[:, order]
    best = jax.vmap(lambda row: jax.ops.segment_max(row, group, len(group), indices_are_sorted=True)[group])(known)
    return jnp.where(jnp.isnan(values), jnp.nan, jnp.zeros_like(values).at[:, order].set(best))


def with_best_returns(memory: Memory) -> Memory:
    """The memory, in which every row has the best planned return of all rows with its state and action."""
    digest, planned = row_digests(memory), memory.planned
    best = best_of_equals(planned.reshape(len(planned), -1), digest.reshape(-1, 2))
    return eqx.tree_at(lambda m: m.planned, memory, best.reshape(planned.shape))
