"""Targets that are computed for each minibatch: returns of n steps or along planned rollouts, and bounds on Q-values.

Bounds are those of self-imitation learning and optimality tightening."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

from gemrl.agents.drawing import Randomness
from gemrl.agents.learner import Learner
from gemrl.agents.memory.ring import Memory, RowIndex
from gemrl.agents.memory.sampling import n_step, segment
from gemrl.agents.networks.actor_critic import normalized
from gemrl.agents.networks.encoder import seen_pairs
from gemrl.agents.reward_scale import in_rewards
from gemrl.algorithms.arguments import is_zero
from gemrl.algorithms.planning import Single
from gemrl.algorithms.recipes.continuous import Recipe
from gemrl.algorithms.targets import SelfImitation, Tightening
from gemrl.core.arrays import Array

Value = Callable[[Array, Array, Array | None], Array]
"""Each group's value of states, given noise on the actions and an optional subset of critics. [B, D], [B, A] -> [K, B]."""


def _values(value: Value, observation: Array, noise: Array | None, subset: Array | None) -> Array:
    """Each group's value of states of any shape. [*S, *O], [*S, A] -> [K, *S]."""
    assert noise is not None
    shape = noise.shape[:-1]
    flat = observation.reshape(-1, *observation.shape[len(shape) :])
    return value(flat, noise.reshape(-1, noise.shape[-1]), subset).reshape(-1, *shape)


def fresh_returns(recipe: Recipe, memory: Memory, drawn: Randomness, value: Value) -> Array:
    """Returns of the drawn rows, bootstrapped from the target networks, within their trajectories. [K, *S]."""
    rewards, bootstrap_discount, states = paths(recipe, memory, drawn.rows)
    if rewards.ndim == drawn.rows.lane.ndim:  # all pairs have the same rollouts
        return rewards + bootstrap_discount * _values(value, states, drawn.noise, drawn.subset)
    values = jnp.stack([_values(value, ends, drawn.noise, drawn.subset) for ends in states])  # [rollout of, value by, *S]
    pair = jnp.arange(recipe.n_pairs)
    return rewards + bootstrap_discount * values[pair, pair[::-1] if recipe.planner.swaps else pair]


class Paths(NamedTuple):
    """What a minibatch follows: for the return, add bootstrap_discount * the value of the state at the end.

    Each [*S], or [K, *S] if each pair of critics has rollouts of its own.
    """

    rewards: Array  # the discounted sum
    bootstrap_discount: Array
    states: Array  # [..., *O], where it ends


def paths(recipe: Recipe, memory: Memory, index: RowIndex) -> Paths:
    """The rollouts of drawn rows: of n steps, or as planned."""
    lane, rows = index.lane, memory.rows
    if memory.length is None or memory.gain is None:
        rewards, bootstrap_discount, end = n_step(memory, index, recipe.targets.planner.rollout_cap)
        return Paths(rewards, bootstrap_discount, memory.next_observation(lane, end))
    planned = memory.length[:, lane, index.position]
    length = jnp.maximum(planned, 1)  # a row that was not planned yet has a rollout of one step
    rewards = jnp.where(planned > 0, memory.gain[:, lane, index.position], rows.reward[lane, index.position])
    end = (index.position + length.astype(int) - 1) % memory.capacity
    discount = recipe.gamma ** (length - 1) * rows.discount[lane, end]  # before its end no rollout terminates
    found = Paths(rewards, discount, memory.next_observation(lane, end))
    return found if recipe.n_pairs > 1 else Paths(*(x[0] for x in found))


def bounds(recipe: Recipe, learner: Learner, memory: Memory, drawn: Randomness, value: Value) -> tuple[Array, Array]:
    """Lower and upper bounds on the Q-values of the drawn rows; infinite where there is no bound. Each [K, *S]."""
    lane, position, _ = drawn.rows
    free = jnp.full((recipe.n_pairs, *lane.shape), jnp.inf)
    if isinstance(recipe.bound, SelfImitation):
        stored = memory.planned[:, lane, position]
        return jnp.where(jnp.isnan(stored), -free, stored), free  # NaN: a row added since the last update
    if isinstance(recipe.bound, Tightening):
        lower = _best_ahead(memory, drawn, value)
        return lower, _tightest_behind(recipe, learner, memory, drawn.rows, recipe.bound.reach)
    return -free, free


def _best_ahead(memory: Memory, drawn: Randomness, value: Value) -> Array:
    """The best bootstrapped return over the next 1..reach steps of each row. [K, *S]."""
    assert drawn.ahead is not None
    reach = drawn.ahead.shape[-2]
    ahead = segment(memory, drawn.rows, reach)
    states = memory.next_observation(drawn.rows.lane[..., None], ahead.position)
    values = _values(value, states, drawn.ahead, drawn.subset)
    return Single(reach)(ahead.reward, ahead.discount, ahead.last, values)[..., 0]


def _tightest_behind(recipe: Recipe, learner: Learner, memory: Memory, index: RowIndex, reach: int) -> Array:
    """min over k of (Q' of the row k steps earlier - the rewards since then) / gamma^k, within the trajectory. [K, *S]."""
    rows, lane = memory.rows, index.lane
    if is_zero(recipe.gamma):
        reach = 0  # a value is then just the next reward, which earlier rows do not bound
    tightest = jnp.full((recipe.n_pairs, *lane.shape), jnp.inf)
    same, since = jnp.ones(lane.shape, bool), jnp.zeros(lane.shape)
    for k in range(1, reach + 1):
        before = (index.position - k) % memory.capacity
        same &= (index.offset >= k) & ~rows.last[lane, before]
        since = rows.reward[lane, before] + recipe.gamma * since
        view = learner.target_critics.see(normalized(learner.normalizer, memory.observation(lane, before)))
        action = rows.action[lane, before]
        view = seen_pairs(learner.target_encoder, view, action)
        flat = (x.reshape(-1, x.shape[-1]) for x in (view, action))
        q = learner.target_critics.values(*flat).reshape(recipe.n_pairs, recipe.n_critics, *lane.shape).min(axis=1)
        q = in_rewards(learner, q)
        tightest = jnp.where(same, jnp.minimum(tightest, (q - since) / recipe.gamma**k), tightest)
    return tightest
