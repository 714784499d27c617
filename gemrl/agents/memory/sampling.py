"""Rows drawn from the memory, and what follows them."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gemrl.agents.memory.ring import Memory
from gemrl.algorithms.planning import NStep
from gemrl.core.arrays import Array


class Place(NamedTuple):
    """Where drawn rows are: lane, position in its ring, and how many older rows the lane has. Each [*S]."""

    lane: Array
    position: Array
    offset: Array


def draw(memory: Memory, key: Array, shape: tuple[int, ...], *, planned: bool) -> Place:
    """Places drawn uniformly, with replacement, from all rows or from all planned ones; `shape` is S."""
    ready = memory.size - memory.unplanned if planned else memory.size
    ends = jnp.cumsum(ready)
    flat = jax.random.randint(key, shape, 0, ends[-1])
    lane = jnp.searchsorted(ends, flat, side="right")
    offset = flat - (ends - ready)[lane]
    return Place(lane, ((memory.head - memory.size)[lane] + offset) % memory.capacity, offset)


class Segment(NamedTuple):
    """What follows drawn rows, row by row, themselves first. `last` also marks the newest row. Each [*S, steps]."""

    reward: Array
    discount: Array
    last: Array
    position: Array


def segment(memory: Memory, place: Place, steps: int) -> Segment:
    """The rows from each place on; those behind a last one are of other trajectories."""
    ahead = jnp.arange(steps)
    lane, position = place.lane[..., None], (place.position[..., None] + ahead) % memory.capacity
    newest = place.offset[..., None] + ahead >= (memory.size - 1)[lane]
    rows = memory.rows
    return Segment(rows.reward[lane, position], rows.discount[lane, position], rows.last[lane, position] | newest, position)


class NStepReturn(NamedTuple):
    """n-step returns of drawn rows, open at their end: rewards + slope * value of the state behind row `end`. Each [*S]."""

    rewards: Array
    slope: Array
    end: Array  # position in the ring


def n_step(memory: Memory, place: Place, n: int) -> NStepReturn:
    """The n-step return of each place, never across an ending."""
    planner = NStep(n)
    ahead = segment(memory, place, n)
    # The n-step return is linear in its bootstrap: its value at 0, and its slope, which is the product of discounts.
    nothing = jnp.zeros((1, *ahead.reward.shape))
    rewards = planner.rollout(ahead.reward, ahead.discount, ahead.last, nothing)
    slope = planner(jnp.zeros_like(ahead.reward), ahead.discount, ahead.last, nothing + 1)[0, ..., 0]
    end = jnp.take_along_axis(ahead.position, rewards.length[0, ..., :1] - 1, axis=-1)[..., 0]
    return NStepReturn(rewards.own[0, ..., 0], slope, end)
