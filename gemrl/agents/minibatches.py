"""Minibatches of GEM and its relatives, and the values of states that their returns bootstrap from."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gemrl.agents.baseline_targets import bounds, fresh_returns, paths
from gemrl.agents.drawing import Randomness
from gemrl.agents.learner import Learner
from gemrl.agents.memory.ring import Memory
from gemrl.agents.networks.actor_critic import Critics, normalized
from gemrl.agents.networks.encoder import Encoder, seen_pairs, seen_states
from gemrl.agents.networks.vision import shifted
from gemrl.agents.reward_scale import for_networks, in_rewards
from gemrl.algorithms.arguments import is_zero
from gemrl.algorithms.recipes.continuous import Recipe
from gemrl.core.arrays import Array


class Ends(NamedTuple):
    """Where the rollouts of a minibatch end, for critics that value it in the same pass as the minibatch."""

    rewards: Array  # [B], along the rollouts, in the units of the networks
    discount: Array  # [B]
    observation: Array  # [B, D], what critics see
    action: Array  # [B, A]


class Batch(NamedTuple):
    """A minibatch for C critics: one that they share, or one for each."""

    observation: Array  # [B, D] or [C, B, D], what critics see of normalized observations, or images
    action: Array  # [B, A] or [C, B, A]
    returns: Array | Ends  # [C, B], the targets of each critic; [K, 1 or C, B] if each regresses on the returns of all groups
    lower: Array | None  # [C, B], bounds that the Q-values are pushed into
    upper: Array | None  # [C, B]
    anchor: Array | None  # [C, B], returns that the Q-values are pulled towards; NaN where there is none yet
    states: Array  # [B, *O], the states that the actor is updated on, normalized
    actions: Array  # [B, A], the stored actions in these states
    following: Array | None  # [B, D], the states after them, if features are learned
    encoder: Encoder | None  # what actor and critics see states with
    noise: Array | None  # [B, A], for actions drawn from the policy in these states


def batch_of(recipe: Recipe, learner: Learner, memory: Memory, drawn: Randomness) -> Batch:
    """The minibatch of drawn rows [G, B], with returns from the memory or computed from the target networks.

    The critics of a group share its minibatch, its returns and its bounds.
    """
    (lane, position, _), vision = drawn.rows, learner.critics.vision
    observation = normalized(learner.normalizer, memory.observation(lane, position))
    if drawn.shift is not None and vision is not None:
        observation = jax.vmap(partial(shifted, vision.layout, most=recipe.random_shift))(observation, drawn.shift)
    action, states = memory.rows.action[lane, position], observation[0]
    actions, encoder, following = action[0], learner.encoder, None
    if encoder is not None:
        following = normalized(learner.normalizer, memory.next_observation(lane[0], position[0]))
    group = jnp.arange(recipe.n_pairs * recipe.n_critics) // recipe.n_critics  # of each critic
    batch = group if recipe.separate_batches else jnp.zeros_like(group)  # and the minibatch that it is trained on
    lower = upper = None
    if not is_zero(recipe.bound.weight):
        limits = bounds(recipe, learner, memory, drawn, partial(state_values, recipe, learner))
        lower, upper = (for_networks(learner, limit[group, batch]) for limit in limits)
    anchor = None
    if recipe.anchor.stored and not is_zero(recipe.anchor.weight):
        anchor = for_networks(learner, memory.planned[:, lane, position][group, batch])
    returns: Array | Ends
    if recipe.joint_critics:
        returns = ends_of(recipe, learner, memory, drawn)
    else:
        returns = returns_of(recipe, learner, memory, drawn, group, batch)
    if recipe.separate_batches:
        observation, action = observation[batch], action[batch]
    else:
        observation, action = states, action[0]
    observation = seen_pairs(encoder, observation, action)
    return Batch(observation, action, returns, lower, upper, anchor, states, actions, following, encoder, drawn.policy)


def returns_of(recipe: Recipe, learner: Learner, memory: Memory, drawn: Randomness, group: Array, batch: Array) -> Array:
    """The returns that each critic regresses on, from the memory or from the target networks, in the units of the networks."""
    if recipe.targets.stored:
        returns = memory.planned[:, drawn.rows.lane, drawn.rows.position]
    else:
        returns = fresh_returns(recipe, memory, drawn, partial(state_values, recipe, learner))
    if not recipe.regress_on_both:
        returns = returns[group, batch]
    elif recipe.separate_batches:
        returns = returns[:, batch]
    return for_networks(learner, returns)


def ends_of(recipe: Recipe, learner: Learner, memory: Memory, drawn: Randomness) -> Ends:
    """Where the rollouts of the drawn rows [1, B] end, with the policy's actions there."""
    assert drawn.noise is not None
    rewards, discount, states = (x[0] for x in paths(recipe, memory, drawn.rows))
    states = normalized(learner.normalizer, states)
    action = learner.target_actor.bootstrap(seen_states(learner.encoder, learner.target_critics.see(states)), drawn.noise[0])
    return Ends(for_networks(learner, rewards), discount, seen_pairs(learner.encoder, states, action), action)


def joint_values(critics: Critics, batch: Batch, ends: Ends) -> tuple[Array, Array, Any]:
    """Q(s, a) [C, B] and the returns [B], from one pass over a minibatch and the ends of its rollouts; and the statistics."""
    pairs = (batch.observation, ends.observation), (batch.action, ends.action)
    both, statistics = critics.training(*(jnp.concatenate(x) for x in pairs))
    q, value = jnp.split(both, 2, axis=-1)
    return q, ends.rewards + ends.discount * jax.lax.stop_gradient(value).min(axis=0), statistics


def state_values(recipe: Recipe, learner: Learner, observation: Array, noise: Array, subset: Array | None = None) -> Array:
    """Each pair's value of a state: the smallest Q'(s, pi'(s) + noise) of its critics. [B, *O], [B, A] -> [K, B]."""
    return bootstrapped(recipe, learner, target_view(learner, observation), noise, subset)


def target_view(learner: Learner, observation: Array) -> Array:
    """What target networks see of observations: normalized vectors, or the features of images. [B, *O] -> [B, D]."""
    return learner.target_critics.see(normalized(learner.normalizer, observation))


def bootstrapped(recipe: Recipe, learner: Learner, view: Array, noise: Array, subset: Array | None = None) -> Array:
    """The same values as `state_values`, from what target networks see. [B, D], [B, A] -> [K, B]."""
    action = learner.target_actor.bootstrap(seen_states(learner.target_encoder, view), noise)
    return pair_values(recipe, learner, view, action, subset)


def pair_values(recipe: Recipe, learner: Learner, view: Array, action: Array, subset: Array | None = None) -> Array:
    """Each pair's value of what target networks see, and actions: the smallest Q'(s, a). [B, D], [B, A] -> [K, B]."""
    q = learner.target_critics.values(seen_pairs(learner.target_encoder, view, action), action)
    q = q.reshape(recipe.n_pairs, recipe.n_critics, -1)
    return in_rewards(learner, (q if subset is None else q[:, subset]).min(axis=1))
