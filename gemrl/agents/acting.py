"""How agents with a policy network act, on the host: GEM, TD3, SAC and their relatives."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gemrl.agents.learner import Averaged
from gemrl.agents.networks.actor_critic import Actor, normalized
from gemrl.agents.networks.encoder import Encoder, seen_states
from gemrl.agents.networks.gaussian import GaussianActor
from gemrl.agents.networks.vision import Vision
from gemrl.agents.normalization import Normalizer
from gemrl.agents.off_policy import on_host
from gemrl.algorithms.recipes.continuous import Recipe


class Policy(NamedTuple):
    """The part of a learner that acting needs, on the host."""

    actor: Actor | GaussianActor
    normalizer: Normalizer | None
    encoder: Encoder | None = None
    steady: Averaged | None = None
    """What acts greedily in place of the newest networks, an average or a policy that is held; None if they do."""
    vision: Vision | None = None
    """The encoder of images; None if observations are vectors."""


def for_acting(policy: Policy) -> Policy:
    """A copy of the policy on the host, with its networks in their form for acting."""
    actor, normalizer, encoder, steady, vision = on_host(policy)
    return Policy(actor.acting(), normalizer, encoder, steady and acting_form(steady), vision)


def acting_form(averaged: Averaged) -> Averaged:
    """The same networks in their form for acting."""
    return averaged._replace(actor=averaged.actor.acting())


def act(recipe: Any, policy: Policy, observation: np.ndarray) -> np.ndarray:
    """The greedy actions of the steady policy, if there is one, or of the newest, in [-1, 1]. [B, *O] -> [B, A]."""
    newest = Averaged(policy.actor, policy.encoder, policy.vision)
    actor, encoder, vision = newest if policy.steady is None else policy.steady
    return actor(seen_states(encoder, seen(vision, normalized(policy.normalizer, observation))))


def sample(recipe: Any, policy: Policy, observation: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Actions drawn from the newest policy, which are all alike if it is deterministic. [B, *O] -> [B, A]."""
    states = seen(policy.vision, normalized(policy.normalizer, observation))
    return policy.actor.sample(seen_states(policy.encoder, states), rng)


def seen(vision: Vision | None, observation: np.ndarray) -> np.ndarray:
    """The features of images, or vectors as they are. [B, *O] -> [B, D]."""
    return observation if vision is None else vision(observation)


def explore(recipe: Recipe, policy: Policy, observation: np.ndarray, step: int, rng: np.random.Generator) -> np.ndarray:
    """Actions drawn from the newest policy, with exploration noise if it is deterministic. [B, *O] -> [B, A]."""
    action = sample(recipe, policy, observation, rng)
    if recipe.distribution.stochastic:
        return action
    deviation = recipe.exploration_noise
    if not recipe.exploration_schedule.constant:
        deviation *= float(recipe.exploration_schedule(np.asarray(step, np.float32)))
    return np.clip(action + deviation * rng.standard_normal(action.shape), -1, 1).astype(np.float32)
