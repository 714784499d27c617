"""Scaling of rewards by the standard deviation of discounted returns, so that Q-values are of the same size in every task.

Rewards, stored values and planned returns stay in the environment's units. Only networks work in scaled units: their outputs are
multiplied by the scale, and the returns that they are trained on are divided by it. So old rows follow when the scale changes.
"""

from __future__ import annotations

from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gemrl.agents.memory.ring import Memory, Rows, insert
from gemrl.agents.normalization import Normalizer
from gemrl.core.arrays import Array

LOOKBACK = 1024
"""Earlier rows of an episode that count in its discounted return so far; with gamma 0.99, older ones have weight 3e-5."""

SMALLEST = 1e-4
"""The smallest scale: returns that hardly vary would otherwise be blown up without limit."""


class RewardScale(eqx.Module):
    """Statistics of the discounted return so far, over all steps."""

    returns: Normalizer

    @staticmethod
    def start() -> RewardScale:
        """The scale 1, before the first step."""
        return RewardScale(Normalizer.start(1))

    @property
    def scale(self) -> Array:
        """The standard deviation of the returns []."""
        xp = self.returns.variance.__array_namespace__()
        return xp.maximum(self.returns.variance[0], SMALLEST**2) ** 0.5

    def updated(self, memory: Memory, new: Rows, count: Array) -> RewardScale:
        """The scale after the newest count[e] rows of the memory, which are the first of `new`."""
        returns = newest_returns(memory, new.reward.shape[1])
        counts = np.arange(returns.shape[1])[::-1] < count[:, None]
        return RewardScale(self.returns.updated(returns[..., None], counts))


def newest_returns(memory: Memory, rows: int) -> Array:
    """The discounted return so far, G_t = r_t + gamma G_{t-1} within an episode, of the newest rows, oldest first [E, rows]."""
    window = min(memory.capacity, rows + LOOKBACK)
    age = jnp.arange(window)[::-1]
    lane, position = jnp.arange(len(memory.head))[:, None], (memory.head[:, None] - 1 - age) % memory.capacity
    filled = age < memory.size[:, None]
    reward, discount, last = (x[lane, position] for x in (memory.rows.reward, memory.rows.discount, memory.rows.last))
    decay = jnp.where(filled & ~last, discount, 0.0)  # from a row to the next one
    earlier = jnp.pad(decay, ((0, 0), (1, 0)))[:, :-1]

    def joined(before: tuple[Array, Array], after: tuple[Array, Array]) -> tuple[Array, Array]:
        return before[0] * after[0], before[1] * after[0] + after[1]

    _, returns = jax.lax.associative_scan(joined, (earlier, jnp.where(filled, reward, 0.0)), axis=1)
    return returns[:, -rows:]


Learner = TypeVar("Learner", bound=Any)
"""A learner with a `normalizer` and a `reward_scale`, each of which may be None."""


def remember(learner: Learner, memory: Memory, new: Rows, count: Array) -> tuple[Learner, Memory]:
    """Adds the first count[e] of the new rows to the memory, and to the learner's statistics, if it keeps any."""
    memory = insert(memory, new, count)
    if learner.normalizer is not None:
        counts = np.arange(new.observation.shape[1]) < count[:, None]
        seen = new.observation[..., : len(learner.normalizer.mean)]  # without the mask of allowed actions, if there is one
        learner = eqx.tree_at(lambda x: x.normalizer, learner, learner.normalizer.updated(seen, counts))
    if learner.reward_scale is not None:
        learner = eqx.tree_at(lambda x: x.reward_scale, learner, learner.reward_scale.updated(memory, new, count))
    return learner, memory


def in_rewards(learner: Learner, values: Array) -> Array:
    """Outputs of networks in the units of the environment's rewards."""
    return values if learner.reward_scale is None else values * learner.reward_scale.scale


def for_networks(learner: Learner, returns: Array) -> Array:
    """Returns in the units of the networks' outputs."""
    return returns if learner.reward_scale is None else returns / learner.reward_scale.scale
