"""Pessimism that sets itself: alpha of the asymmetric loss follows how right the stored values turned out to be.

The idea is that of ACC (Dorka et al., 2022), with GEM's memory as the judge: it holds the values of recent states and the rewards
that followed. Where values are above these returns, alpha falls, and errors upwards count more; where they are below, it rises.
"""

from __future__ import annotations

import jax.numpy as jnp

from gemrl.agents.memory.ring import Memory
from gemrl.algorithms.losses import Calibrated
from gemrl.algorithms.planning import NStep
from gemrl.core.arrays import Array

WINDOW = 2048
"""How many of the newest rows of each lane are looked at: recent enough for what the present policy is worth."""


def overestimation(memory: Memory, window: int = WINDOW) -> Array:
    """How far one-step values of the newest rows are above their returns, in standard deviations of these returns []."""
    window = min(window, memory.capacity)
    age = jnp.arange(window)[::-1]
    lane, position = jnp.arange(len(memory.head))[:, None], (memory.head[:, None] - 1 - age) % memory.capacity
    reward, discount, last = (x[lane, position] for x in (memory.rows.reward, memory.rows.discount, memory.rows.last))
    q_next, filled = memory.q_next[:, lane, position], age < memory.size[:, None]
    returns = NStep(window)(reward, discount, last, q_next)  # with the value of the last state, unless it terminated
    weight = jnp.broadcast_to(filled, returns.shape) / (filled.sum() * len(returns))
    mean = (weight * returns).sum()
    spread = jnp.sqrt((weight * (returns - mean) ** 2).sum())
    return (weight * (reward + discount * q_next - returns)).sum() / jnp.maximum(spread, 1e-6)


def next_alpha(loss: Calibrated, alpha: Array, memory: Memory) -> Array:
    """alpha after a look at the memory, whose values were just computed []."""
    change = loss.alpha_rate * jnp.clip(overestimation(memory), -1, 1)
    return jnp.clip(alpha * jnp.exp(-change), loss.alpha_low, loss.alpha_high)
