"""The learner of GEM for discrete actions and of DQN: Q-networks, their targets, and the values they give to states."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from gemrl.agents.networks.actor_critic import adam_start, normalized
from gemrl.agents.networks.q_networks import QNetworks
from gemrl.agents.normalization import Normalizer
from gemrl.agents.reward_scale import RewardScale, in_rewards
from gemrl.algorithms.bootstraps import permitted
from gemrl.algorithms.recipes.discrete import DiscreteRecipe
from gemrl.core.arrays import Array
from gemrl.core.layout import Layout
from gemrl.core.seeding import stream


class Learner(eqx.Module):
    """Everything that learning changes, except the memory."""

    networks: QNetworks
    targets: QNetworks
    optimizer: optax.OptState
    normalizer: Normalizer | None
    key: Array
    target_normalizer: Normalizer | None
    """The normalizer when the targets last moved; None unless values of the target networks are stored."""
    reward_scale: RewardScale | None
    target_reward_scale: RewardScale | None
    """The same for the reward scale."""


def init_learner(recipe: DiscreteRecipe, layout: Layout, seed: int) -> Learner:
    """Networks, their targets and the optimizer before the first step."""
    rng = stream(seed, "networks")
    seen = layout.unmasked
    networks = QNetworks.init(rng, recipe.n_networks, seen, recipe.net_arch, dueling=recipe.dueling)
    networks = QNetworks(networks.members, layout)
    normalizer = Normalizer.wanted(recipe, seen)
    scale = RewardScale.start() if recipe.normalize_rewards else None
    frozen = (normalizer, scale) if recipe.stores_returns else (None, None)
    learner = Learner(networks, networks, adam_start(networks), normalizer, jax.random.key(seed), frozen[0], scale, frozen[1])
    return jax.tree.map(jnp.array, learner)  # copies: a round overwrites its arguments, so no two may share an array


def grouped(recipe: DiscreteRecipe, q: Array) -> Array:
    """The Q-values of all networks but the students, by group. [N, ...] -> [K, C, ...]."""
    return q[: recipe.n_pairs * recipe.n_critics].reshape(recipe.n_pairs, recipe.n_critics, *q.shape[1:])


def state_values(recipe: DiscreteRecipe, learner: Learner, observation: Array) -> Array:
    """Each group's value of states. [B, *O] -> [K, B]."""
    values = action_values(recipe, learner, observation)
    return in_rewards(learner, recipe.bootstrap(values.online_allowed, values.target_allowed))


class ActionValues(NamedTuple):
    """Q-values of all actions by the online and the target networks, and the mask of allowed actions."""

    online: Array  # [K, C, B, A]
    target: Array  # [K, C, B, A]
    allowed: Array | None  # [B, A]

    @property
    def online_allowed(self) -> Array:
        """The online values, -inf for actions that are not allowed."""
        return permitted(self.online, self.allowed)

    @property
    def target_allowed(self) -> Array:
        """The same for the target values."""
        return permitted(self.target, self.allowed)


def action_values(recipe: DiscreteRecipe, learner: Learner, observation: Array) -> ActionValues:
    """Q-values of all actions in states [B, *O]."""
    state, allowed = learner.networks.layout.split(observation)
    state = normalized(learner.normalizer, state)
    return ActionValues(grouped(recipe, learner.networks(state)), grouped(recipe, learner.targets(state)), allowed)
