"""What target networks say of states: a group's conservative value, fresh returns of drawn rows, and bounds on their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp

from gemrl.agents.memory.ring import Memory
from gemrl.agents.memory.sampling import Place, draw, n_step, segment
from gemrl.agents.normalization import normalized
from gemrl.algorithms.planning import Single
from gemrl.algorithms.registry import Recipe
from gemrl.algorithms.targets import Fresh, SelfImitation, Tightening
from gemrl.core.arrays import Array

if TYPE_CHECKING:
    from gemrl.agents.continuous import Learner


def smoothing_noise(recipe: Recipe, key: Array, shape: tuple[int, ...]) -> Array:
    """Clipped normal noise for the actions whose value is bootstrapped."""
    noise = recipe.target_policy_noise * jax.random.normal(key, shape)
    return jnp.clip(noise, -recipe.target_noise_clip, recipe.target_noise_clip)


class Randomness(NamedTuple):
    """All that is random in one gradient step; None where a recipe has no use for it."""

    place: Place  # [*S], the rows of the minibatch
    noise: Array | None  # [*S, A], on the actions that fresh targets look at
    subset: Array | None  # the critics that fresh targets look at
    ahead: Array | None  # [*S, reach, A], on the actions that a bound from ahead looks at


def chance(recipe: Recipe, memory: Memory, key: Array, place: Place | None = None) -> Randomness:
    """What happens to be in one gradient step; S is (G, B) unless the rows are given."""
    place_key, noise_key, subset_key, ahead_key = jax.random.split(key, 4)
    fresh = isinstance(recipe.targets, Fresh)
    if place is None:
        shape = recipe.n_pairs if recipe.separate_batches else 1, recipe.batch_size
        place = draw(memory, place_key, shape, planned=not fresh)
    shape, actions = place.lane.shape, memory.rows.action.shape[-1]
    noise = subset = ahead = None
    if isinstance(recipe.targets, Fresh):
        noise = smoothing_noise(recipe, noise_key, (*shape, actions))
        if recipe.targets.subset:
            subset = jax.random.permutation(subset_key, recipe.n_critics)[: recipe.targets.subset]
    if isinstance(recipe.bound, Tightening):
        ahead = smoothing_noise(recipe, ahead_key, (*shape, recipe.bound.reach, actions))
    return Randomness(place, noise, subset, ahead)


def group_values(recipe: Recipe, learner: Learner, observation: Array, noise: Array, subset: Array | None = None) -> Array:
    """Each group's value of a state: the smallest Q'(s, pi'(s) + noise) of its critics. [B, D], [B, A] -> [K, B]."""
    observation = normalized(learner.normalizer, observation)
    action = jnp.clip(learner.target_actor(observation) + noise, -1, 1)
    q = learner.target_critics(observation, action).reshape(recipe.n_pairs, recipe.n_critics, -1)
    return (q if subset is None else q[:, subset]).min(axis=1)


def _smoothed_values(recipe: Recipe, learner: Learner, observation: Array, noise: Array, subset: Array | None) -> Array:
    """Each group's value of states of any shape. [*S, D], [*S, A] -> [K, *S]."""
    flat, noise = (x.reshape(-1, x.shape[-1]) for x in (observation, noise))
    return group_values(recipe, learner, flat, noise, subset).reshape(-1, *observation.shape[:-1])


def fresh_returns(recipe: Recipe, learner: Learner, memory: Memory, chance: Randomness) -> Array:
    """n-step returns of drawn rows, bootstrapped by the target networks, never across an ending. [K, *S]."""
    place, noise = chance.place, chance.noise
    rewards, slope, end = n_step(memory, place, recipe.planner.rollout_cap)
    states = memory.rows.next_observation[place.lane, end]
    return rewards + slope * _smoothed_values(recipe, learner, states, noise, chance.subset)


def bounds(recipe: Recipe, learner: Learner, memory: Memory, chance: Randomness) -> tuple[Array, Array]:
    """What a critic's value of drawn rows should lie between; infinite where nothing is known. Each [K, *S]."""
    place = chance.place
    free = jnp.full((recipe.n_pairs, *place.lane.shape), jnp.inf)
    if isinstance(recipe.bound, SelfImitation):
        stored = memory.planned[:, place.lane, place.position]
        return jnp.where(jnp.isnan(stored), -free, stored), free  # NaN: a row that came in since the last update
    if isinstance(recipe.bound, Tightening):
        lower = _best_ahead(recipe, learner, memory, chance)
        return lower, _tightest_behind(recipe, learner, memory, place, recipe.bound.reach)
    return -free, free


def _best_ahead(recipe: Recipe, learner: Learner, memory: Memory, chance: Randomness) -> Array:
    """The best return of 1..reach steps after each row, with a bootstrap. [K, *S]."""
    place, noise = chance.place, chance.ahead
    assert noise is not None
    reach = noise.shape[-2]
    ahead = segment(memory, place, reach)
    states = memory.rows.next_observation[place.lane[..., None], ahead.position]
    values = _smoothed_values(recipe, learner, states, noise, chance.subset)
    return Single(reach)(ahead.reward, ahead.discount, ahead.last, values)[..., 0]


def _tightest_behind(recipe: Recipe, learner: Learner, memory: Memory, place: Place, reach: int) -> Array:
    """min over k of (Q'(s, a) of k steps before - the rewards since then) / gamma^k, within the trajectory. [K, *S]."""
    rows, lane = memory.rows, place.lane
    if recipe.gamma == 0:
        reach = 0  # the past says nothing about a value that is the next reward
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
