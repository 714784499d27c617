"""Minibatches of GEM and its relatives, and the values of states that their returns bootstrap from."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax.numpy as jnp

from gemrl.agents.baseline_targets import bounds, fresh_returns
from gemrl.agents.drawing import Randomness
from gemrl.agents.learner import Learner
from gemrl.agents.memory.ring import Memory
from gemrl.agents.networks.actor_critic import normalized
from gemrl.agents.networks.encoder import Encoder, seen_pairs, seen_states
from gemrl.agents.reward_scale import for_networks, in_rewards
from gemrl.algorithms.recipes.continuous import Recipe
from gemrl.core.arrays import Array


class Batch(NamedTuple):
    """A minibatch for C critics: one that they share, or one for each."""

    observation: Array  # [B, D] or [C, B, D], what critics see of normalized observations
    action: Array  # [B, A] or [C, B, A]
    returns: Array  # [C, B], the targets of each critic; [K, 1 or C, B] if each regresses on the returns of all groups
    lower: Array | None  # [C, B], bounds that the Q-values are pushed into
    upper: Array | None  # [C, B]
    states: Array  # [B, D], the states that the actor is updated on, normalized
    actions: Array  # [B, A], the stored actions in these states
    following: Array | None  # [B, D], the states after them, if features are learned
    encoder: Encoder | None  # what actor and critics see states with
    noise: Array | None  # [B, A], for actions drawn from the policy in these states


def batch_of(recipe: Recipe, learner: Learner, memory: Memory, drawn: Randomness) -> Batch:
    """The minibatch of drawn rows [G, B], with returns from the memory or computed from the target networks.

    The critics of a group share its minibatch, its returns and its bounds.
    """
    lane, position, _ = drawn.rows
    value = partial(state_values, recipe, learner)
    stored = recipe.targets.stored
    returns = memory.planned[:, lane, position] if stored else fresh_returns(recipe, memory, drawn, value)
    lower, upper = bounds(recipe, learner, memory, drawn, value) if recipe.bound.weight else (None, None)
    observation = normalized(learner.normalizer, memory.rows.observation[lane, position])
    action, states = memory.rows.action[lane, position], observation[0]
    actions, encoder, following = action[0], learner.encoder, None
    if encoder is not None:
        following = normalized(learner.normalizer, memory.rows.next_observation[lane[0], position[0]])
    group = jnp.arange(recipe.n_pairs * recipe.n_critics) // recipe.n_critics  # of each critic
    batch = group if recipe.separate_batches else jnp.zeros_like(group)  # and the minibatch that it is trained on
    if recipe.separate_batches:
        observation, action = observation[batch], action[batch]
    else:
        observation, action = states, action[0]
    if not recipe.regress_on_both:
        returns = returns[group, batch]
    elif recipe.separate_batches:
        returns = returns[:, batch]
    lower, upper = (x if x is None else for_networks(learner, x[group, batch]) for x in (lower, upper))
    observation = seen_pairs(encoder, observation, action)
    return Batch(
        observation, action, for_networks(learner, returns), lower, upper, states, actions, following, encoder, drawn.policy
    )


def state_values(recipe: Recipe, learner: Learner, observation: Array, noise: Array, subset: Array | None = None) -> Array:
    """Each pair's value of a state: the smallest Q'(s, pi'(s) + noise) of its critics. [B, D], [B, A] -> [K, B]."""
    observation = normalized(learner.normalizer, observation)
    action = learner.target_actor.bootstrap(seen_states(learner.target_encoder, observation), noise)
    return pair_values(recipe, learner, observation, action, subset)


def pair_values(recipe: Recipe, learner: Learner, observation: Array, action: Array, subset: Array | None = None) -> Array:
    """Each pair's value of normalized states and actions: the smallest Q'(s, a) of its critics. [B, D], [B, A] -> [K, B]."""
    q = learner.target_critics(seen_pairs(learner.target_encoder, observation, action), action)
    q = q.reshape(recipe.n_pairs, recipe.n_critics, -1)
    return in_rewards(learner, (q if subset is None else q[:, subset]).min(axis=1))
