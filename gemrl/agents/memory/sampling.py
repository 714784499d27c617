"""The rows that follow drawn rows, and their n-step returns."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from gemrl.agents.memory.ring import Memory, RowIndex
from gemrl.algorithms.planning import NStep
from gemrl.core.arrays import Array


class Segment(NamedTuple):
    """Consecutive rows from each drawn row on. `last` is also true for the newest row. Each [*S, steps]."""

    reward: Array
    discount: Array
    last: Array
    position: Array


def segment(memory: Memory, index: RowIndex, steps: int) -> Segment:
    """The rows from each index on; those after a last row belong to other trajectories."""
    ahead = jnp.arange(steps)
    lane, position = index.lane[..., None], (index.position[..., None] + ahead) % memory.capacity
    newest = index.offset[..., None] + ahead >= (memory.size - 1)[lane]
    rows = memory.rows
    return Segment(rows.reward[lane, position], rows.discount[lane, position], rows.last[lane, position] | newest, position)


class NStepReturn(NamedTuple):
    """n-step sums of rewards. For the return, add bootstrap_discount * the value of the state after row `end`. Each [*S]."""

    rewards: Array
    bootstrap_discount: Array
    end: Array  # position in the ring


def n_step(memory: Memory, index: RowIndex, n: int) -> NStepReturn:
    """The n-step return of each row, within its trajectory."""
    planner = NStep(n)
    ahead = segment(memory, index, n)
    # The n-step return is linear in its bootstrap: take its value at 0, and its slope, which is the product of discounts.
    zero = jnp.zeros((1, *ahead.reward.shape))
    rewards = planner.rollout(ahead.reward, ahead.discount, ahead.last, zero)
    bootstrap_discount = planner(jnp.zeros_like(ahead.reward), ahead.discount, ahead.last, zero + 1)[0, ..., 0]
    end = jnp.take_along_axis(ahead.position, rewards.length[0, ..., :1] - 1, axis=-1)[..., 0]
    return NStepReturn(rewards.own[0, ..., 0], bootstrap_discount, end)
