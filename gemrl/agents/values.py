"""What target networks say of states: a group's conservative value, fresh returns of drawn rows, and bounds on their values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from gemrl.memory import Memory, Place, stretch
from gemrl.normalization import normalized
from gemrl.planning import Array, NStep, Single
from gemrl.recipes import Recipe
from gemrl.targets import Fresh, SelfImitation, Tightening

if TYPE_CHECKING:
    from gemrl.agents.continuous import Learner


def smoothing_noise(recipe: Recipe, key: Array, shape: tuple[int, ...]) -> Array:
    """Clipped normal noise for the actions whose value is bootstrapped."""
    noise = recipe.target_policy_noise * jax.random.normal(key, shape)
    return jnp.clip(noise, -recipe.target_noise_clip, recipe.target_noise_clip)


def group_values(recipe: Recipe, learner: Learner, observation: Array, noise: Array, key: Array | None = None) -> Array:
    """Each group's value of a state: the smallest Q'(s, pi'(s) + noise) of its critics. [B, D], [B, A] -> [K, B]."""
    observation = normalized(learner.normalizer, observation)
    action = jnp.clip(learner.target_actor(observation) + noise, -1, 1)
    q = learner.target_critics(observation, action).reshape(recipe.n_pairs, recipe.n_critics, -1)
    if key is not None and isinstance(recipe.targets, Fresh) and recipe.targets.subset:
        drawn = jax.random.permutation(key, recipe.n_critics)[: recipe.targets.subset]
        q = q[:, drawn]
    return q.min(axis=1)


def _smoothed_values(recipe: Recipe, learner: Learner, observation: Array, key: Array) -> Array:
    """Each group's value of states of any shape. [*S, D] -> [K, *S]."""
    flat = observation.reshape(-1, observation.shape[-1])
    noise_key, subset_key = jax.random.split(key)
    actions = learner.target_actor.body.layers[-1].weight.shape[-1]
    noise = smoothing_noise(recipe, noise_key, (len(flat), actions))
    return group_values(recipe, learner, flat, noise, subset_key).reshape(-1, *observation.shape[:-1])


def fresh_returns(recipe: Recipe, learner: Learner, memory: Memory, place: Place, key: Array) -> Array:
    """n-step returns of drawn rows, bootstrapped by the target networks, never across an ending. [K, *S]."""
    planner = NStep(recipe.planner.rollout_cap)
    ahead = stretch(memory, place, planner.n)
    # The n-step return is linear in its bootstrap: its value at 0, and its slope, which is the product of discounts.
    nothing = jnp.zeros((1, *ahead.reward.shape))
    rewards = planner.rollout(ahead.reward, ahead.discount, ahead.last, nothing)
    slope = planner(jnp.zeros_like(ahead.reward), ahead.discount, ahead.last, nothing + 1)[0, ..., 0]
    end = jnp.take_along_axis(ahead.position, rewards.length[0, ..., :1] - 1, axis=-1)[..., 0]
    states = memory.rows.next_observation[place.lane, end]
    return rewards.own[0, ..., 0] + slope * _smoothed_values(recipe, learner, states, key)


def bounds(recipe: Recipe, learner: Learner, memory: Memory, place: Place, key: Array) -> tuple[Array, Array]:
    """What a critic's value of drawn rows should lie between; infinite where nothing is known. Each [K, *S]."""
    free = jnp.full((recipe.n_pairs, *place.lane.shape), jnp.inf)
    if isinstance(recipe.bound, SelfImitation):
        stored = memory.planned[:, place.lane, place.position]
        return jnp.where(jnp.isnan(stored), -free, stored), free  # NaN: a row that came in since the last update
    if isinstance(recipe.bound, Tightening):
        lower = _best_ahead(recipe, learner, memory, place, recipe.bound.reach, key)
        return lower, _tightest_behind(recipe, learner, memory, place, recipe.bound.reach)
    return -free, free


def _best_ahead(recipe: Recipe, learner: Learner, memory: Memory, place: Place, reach: int, key: Array) -> Array:
    """The best return of 1..reach steps after each row, with a bootstrap. [K, *S]."""
    ahead = stretch(memory, place, reach)
    states = memory.rows.next_observation[place.lane[..., None], ahead.position]
    values = _smoothed_values(recipe, learner, states, key)
    return Single(reach)(ahead.reward, ahead.discount, ahead.last, values)[..., 0]


def _tightest_behind(recipe: Recipe, learner: Learner, memory: Memory, place: Place, reach: int) -> Array:
    """min over k of (Q'(s, a) of k steps before - the rewards since then) / gamma^k, within the trajectory. [K, *S]."""
    rows, lane = memory.rows, place.lane
    tightest = jnp.full((recipe.n_pairs, *lane.shape), jnp.inf)
    same, since = jnp.ones(lane.shape, bool), jnp.zeros(lane.shape)
    for k in range(1, reach + 1):
        before = (place.position - k) % memory.capacity
        same &= (place.offset >= k) & ~rows.last[lane, before]
        since = rows.reward[lane, before] + recipe.gamma * since
        observation = normalized(learner.normalizer, rows.observation[lane, before])
        flat = (x.reshape(-1, x.shape[-1]) for x in (observation, rows.action[lane, before]))
        q = learner.target_critics(*flat).reshape(recipe.n_pairs, recipe.n_critics, *lane.shape).min(axis=1)
        tightest = jnp.where(same, jnp.minimum(tightest, (q - since) / recipe.gamma**k), tightest)
    return tightest
