"""The learner of GEM and its relatives: networks, their targets and optimizers."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from gemrl.agents.networks.actor_critic import Actor, Critics, adam_start
from gemrl.agents.networks.bodies import build
from gemrl.agents.networks.encoder import Encoder, Encoders
from gemrl.agents.networks.gaussian import GaussianActor, Temperature
from gemrl.agents.networks.vision import Vision, seen_size, vision_of
from gemrl.agents.normalization import Normalizer
from gemrl.agents.reward_scale import RewardScale
from gemrl.algorithms.losses import Calibrated
from gemrl.algorithms.recipes.continuous import Recipe
from gemrl.algorithms.targets import Anchor
from gemrl.core.arrays import Array
from gemrl.core.exceptions import BadValue
from gemrl.core.layout import Layout
from gemrl.core.seeding import stream


class Averaged(NamedTuple):
    """What a policy acts with, averaged over gradient steps."""

    actor: Actor | GaussianActor
    encoder: Encoder | None
    vision: Vision | None = None


class Tried(NamedTuple):
    """The policies of the newest trials, and the best of them (averaging.py)."""

    best: Averaged
    """What acts greedily; before the first trial has ended, this is the newest policy."""
    policies: Averaged  # [T, ...], the newest first
    scores: Array  # [T], their mean returns; -inf where a trial is not over, or there was none


class Learner(eqx.Module):
    """Everything that learning changes, except the memory."""

    actor: Actor | GaussianActor
    critics: Critics
    target_actor: Actor | GaussianActor
    target_critics: Critics
    actor_optimizer: optax.OptState
    critic_optimizer: optax.OptState
    normalizer: Normalizer | None
    updates: Array
    key: Array
    target_normalizer: Normalizer | None
    """The normalizer when the targets last moved; None unless values of the target networks are stored."""
    reward_scale: RewardScale | None
    target_reward_scale: RewardScale | None
    """The same for the reward scale."""
    encoders: Encoders | None
    temperature: Temperature | None
    """The weight of the policy's entropy; None if the policy is deterministic."""
    alpha: Array | None
    """The weight of values below their returns in the loss; None if it is a constant."""
    average: Averaged | None
    """The average of the newest policies; None if there is none."""
    tried: Tried | None
    """The policies of the newest trials; None if there are no trials."""
    projection: Array | None
    """What states and actions are multiplied with before they are compared [D + A, F]; None if they are not compared."""

    @property
    def newest(self) -> Averaged:
        """The average of the newest policies if there is one, or the newest policy."""
        return Averaged(self.actor, self.encoder, self.critics.vision) if self.average is None else self.average

    @property
    def steady(self) -> Averaged | None:
        """What acts greedily in place of the newest networks, an average or the best policy of trials; None if they do."""
        return self.average if self.tried is None else self.tried.best

    @property
    def greedy(self) -> Averaged:
        """What acts greedily."""
        return self.newest if self.steady is None else self.steady

    @property
    def encoder(self) -> Encoder | None:
        """The encoder that actor and critics see states with; None if no features are learned."""
        return None if self.encoders is None else self.encoders.fixed

    @property
    def target_encoder(self) -> Encoder | None:
        """The encoder that target networks see states with."""
        return None if self.encoders is None else self.encoders.target


TRIALS = 4
"""Trials whose policies are kept."""


def no_trials(newest: Averaged) -> Tried:
    """What a learner with this policy starts with."""
    return Tried(newest, jax.tree.map(lambda x: np.stack([x] * TRIALS), newest), np.full(TRIALS, -np.inf, np.float32))


def init_learner(recipe: Recipe, layout: Layout, seed: int) -> Learner:
    """Networks, their targets and optimizers before the first step."""
    rng, projection = stream(seed, "networks"), projection_of(recipe.anchor, layout, seed)
    if layout.is_image and recipe.embedding.features:
        raise BadValue("embedding is for vectors, but these observations are images: set embedding=NoEmbedding()")
    observation, action, count = seen_size(layout), layout.action, recipe.n_pairs * recipe.n_critics
    features = recipe.embedding.features
    body = build(recipe.body, rng, observation + features, recipe.distribution.outputs * action)
    actor = GaussianActor(body) if recipe.distribution.stochastic else Actor(body)
    taken = 0 if recipe.state_values else action
    members = tuple(build(recipe.body, rng, observation + 2 * features + taken, 1, again=taken) for _ in range(count))
    critics = Critics(members, vision_of(rng, layout), recipe.state_values)
    encoders = Encoders.start(Encoder.init(rng, observation, action, features)) if features else None
    normalizer = Normalizer.wanted(recipe, layout)
    scale = RewardScale.start() if recipe.normalize_rewards else None
    newest = Averaged(actor, None if encoders is None else encoders.fixed, critics.vision)
    learner = Learner(
        actor,
        critics,
        actor,
        critics,
        adam_start(actor),
        adam_start(critics),
        normalizer,
        np.zeros((), np.int32),
        jax.random.key(seed),
        normalizer if recipe.targets.stored else None,
        scale,
        scale if recipe.targets.stored else None,
        encoders,
        Temperature.start(recipe.distribution.temperature) if recipe.distribution.stochastic else None,
        np.asarray(recipe.loss.alpha, np.float32) if isinstance(recipe.loss, Calibrated) else None,
        newest if recipe.policy_average else None,
        no_trials(newest) if recipe.trial_every else None,
        projection,
    )
    return jax.tree.map(jnp.array, learner)  # copies: a round overwrites its arguments, so no two may share an array


def projection_of(anchor: Anchor, layout: Layout, seed: int) -> np.ndarray | None:
    """A random matrix [D + A, F] for an anchor that compares states and actions; it never changes."""
    if not anchor.projection:
        return None
    if layout.is_image:
        raise BadValue(f"{type(anchor).__name__} compares vectors, but these observations are images: set anchor=NoAnchor()")
    shape = layout.size + layout.action, anchor.projection
    return stream(seed, "projection").standard_normal(shape).astype(np.float32)
