"""How agents with a policy network act, on the host: GEM, TD3, SAC and their relatives."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

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


def act(recipe: Any, policy: Policy, observation: np.ndarray) -> np.ndarray:
    """The policy's greedy actions in [-1, 1]. [B, D] -> [B, A]."""
    return policy.actor(_seen(policy, observation))


def sample(recipe: Any, policy: Policy, observation: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Actions drawn from the policy; the greedy ones if it is deterministic. [B, D] -> [B, A]."""
    return policy.actor.sample(_seen(policy, observation), rng)


def explore(recipe: Recipe, policy: Policy, observation: np.ndarray, step: int, rng: np.random.Generator) -> np.ndarray:
    """Actions drawn from the policy, or its greedy ones plus exploration noise. [B, D] -> [B, A]."""
    if recipe.distribution.stochastic:
        return sample(recipe, policy, observation, rng)
    action = act(recipe, policy, observation)
    deviation = recipe.exploration_noise
    if not recipe.exploration_schedule.constant:
        deviation *= float(recipe.exploration_schedule(np.asarray(step, np.float32)))
    return np.clip(action + deviation * rng.standard_normal(action.shape), -1, 1).astype(np.float32)


def _seen(policy: Policy, observation: np.ndarray) -> np.ndarray:
    """What the actor sees of observations. [B, D] -> [B, F]."""
    return seen_states(policy.encoder, normalized(policy.normalizer, observation))
