"""GEM's memory of Atari frames: the resident bytes of its rows, and the time to refresh their values."""

from __future__ import annotations

import gc
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.contestants import CHOICES, STACK
from benchmarks.timing import alternate, resident, seconds
from gemrl.agents.device import CPU_COMPILER_OPTIONS
from gemrl.agents.discrete_learner import init_learner
from gemrl.agents.discrete_memory import refresh
from gemrl.agents.memory.ring import Memory
from gemrl.algorithms.recipes.discrete import GEM_DISCRETE
from gemrl.core.layout import Layout

LAYOUT = Layout(STACK, 1, CHOICES, "uint8", frames=STACK[0])


def full_memory(rows: int) -> Memory:
    """A full memory of random images, in one episode without end."""
    host = Memory.empty(1, rows, LAYOUT, 2, host=True)
    assert host.frames is not None
    number = np.arange(rows, dtype=np.int32)
    host.rows.observation[0] = np.stack([number, np.minimum(number, STACK[0] - 1)], axis=-1)
    host.rows.next_observation[0] = np.stack([number + 1, np.minimum(number + 1, STACK[0] - 1)], axis=-1)
    host.frames.pixels[0] = np.random.default_rng(0).integers(0, 256, host.frames.pixels.shape[1:], np.uint8)
    host.frames.written[0], host.size[0] = rows + 1, rows
    return jax.tree.map(jnp.array, host)


def measure(rows: int, refreshed: int, repeats: int) -> dict[str, Any]:
    """The resident bytes of a full memory, and the seconds that refreshing `refreshed` of its rows takes."""
    gem = GEM_DISCRETE.for_environment("", LAYOUT).but(buffer_size=rows)
    before = resident()
    memory = jax.block_until_ready(full_memory(rows))  # type: ignore[no-untyped-call]
    gc.collect()  # frees the arrays that JAX copied
    used = resident() - before
    learner, stale = init_learner(gem, LAYOUT, 0), np.array([refreshed], np.int32)
    # The same program refreshes any number of stale rows, so a subset shows the cost per row.
    compiled = jax.jit(
        lambda learner, memory, stale: refresh(gem, learner, memory, stale).q_next, compiler_options=CPU_COMPILER_OPTIONS
    )
    turns = {"refresh": partial(seconds, lambda: compiled(learner, memory, stale).block_until_ready())}
    return {"rows": rows, "refreshed": refreshed, "bytes": used, "seconds": alternate(turns, repeats)}
