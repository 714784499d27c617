"""Reads the newest trajectory of a lane back from the memory."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from gemrl.agents.memory.ring import Memory, Rows
from gemrl.core.arrays import Array
from gemrl.core.steps import Trajectory

FIRST_LOOK = 64
"""Rows read at first; twice as many as long as the trajectory may go on, so that few sizes are compiled."""


@jax.jit
def _rows_at(rows: Rows, lane: Array, position: Array) -> Rows:
    """Rows of one lane by their positions. [n] -> [n, ...]."""
    return jax.tree.map(lambda column: column[lane, position], rows)


def newest_trajectory(memory: Memory, lane: int) -> Trajectory:
    """The rows of a lane since the end of the trajectory before them. Images must be stored whole."""
    assert memory.frames is None
    head, size = int(memory.head[lane]), int(memory.size[lane])
    count = min(FIRST_LOOK, memory.capacity)
    while True:
        age = np.arange(count)
        rows = jax.tree.map(np.asarray, _rows_at(memory.rows, jnp.array(lane), jnp.array((head - 1 - age) % memory.capacity)))
        before = np.flatnonzero(rows.last & (age > 0) & (age < size))
        if before.size or count >= size:
            break
        count = min(2 * count, memory.capacity)
    steps = int(before[0]) if before.size else size
    ordered = [column[:steps][::-1] for column in (rows.observation, rows.action, rows.reward, rows.discount)]
    observation = np.concatenate([ordered[0], rows.next_observation[:1]])
    return Trajectory(observation, ordered[1], ordered[2], bool(ordered[3][-1] == 0))
