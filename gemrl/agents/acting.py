"""How agents with a policy network act, on the host: GEM, TD3, SAC and their relatives."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gemrl.agents.learner import Averaged
from gemrl.agents.networks.actor_critic import Actor, normalized
from gemrl.agents.networks.encoder import Encoder, seen_states
from gemrl.agents.networks.gaussian import GaussianActor
from gemrl.agents.normalization import Normalizer
from gemrl.algorithms.recipes.continuous import Recipe


class Policy(NamedTuple):
    """The part of a learner that acting needs, on the host."""

    actor: Actor | GaussianActor
    normalizer: Normalizer | None
    encoder: Encoder | None = None
    average: Averaged | None = None
    """What acts greedily in place of the newest networks; None if they do."""


def act(recipe: Any, policy: Policy, observation: np.ndarray) -> np.ndarray:
    """The policy's greedy actions in [-1, 1]; those of the average if there is one. [B, D] -> [B, A]."""
    actor, encoder = (policy.actor, policy.encoder) if policy.average is None else policy.average
    return actor(seen_states(encoder, normalized(policy.normalizer, observation)))


def sample(recipe: Any, policy: Policy, observation: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Actions drawn from the newest policy, which are all alike if it is deterministic. [B, D] -> [B, A]."""
    return policy.actor.sample(seen_states(policy.encoder, normalized(policy.normalizer, observation)), rng)


def explore(recipe: Recipe, policy: Policy, observation: np.ndarray, step: int, rng: np.random.Generator) -> np.ndarray:
    """Actions drawn from the newest policy, with exploration noise if it is deterministic. [B, D] -> [B, A]."""
    action = sample(recipe, policy, observation, rng)
    if recipe.distribution.stochastic:
        return action
    deviation = recipe.exploration_noise
    if not recipe.exploration_schedule.constant:
        deviation *= float(recipe.exploration_schedule(np.asarray(step, np.float32)))
    return np.clip(action + deviation * rng.standard_normal(action.shape), -1, 1).astype(np.float32)
