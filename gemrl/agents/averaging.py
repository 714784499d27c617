"""The average of the policies of the newest gradient steps (Polyak and Juditsky, 1992), which evaluations and `predict` use.

A policy that is trained with a constant learning rate moves on with every step, and on tasks where a robot can fall its return
jumps. The average moves slowly. It takes no part in training: exploration and targets use the newest policy.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from gemrl.agents.learner import Averaged, Learner
from gemrl.algorithms.recipes.continuous import Recipe
from gemrl.core.arrays import Array


def follow(recipe: Recipe, learner: Learner) -> Learner:
    """The learner after a round, with its averages moved towards the newest networks, if it has any."""
    if learner.average is None:
        return learner
    weight = newest_weight(recipe.policy_average, recipe.gradient_steps, learner.updates)

    def moved(average: Array, newest: Array) -> Array:
        return average + weight * (newest - average)

    newest = Averaged(learner.actor, learner.encoder, learner.critics.vision)
    return eqx.tree_at(lambda x: x.average, learner, jax.tree.map(moved, learner.average, newest))


def newest_weight(span: int, steps: int, updates: Any) -> Array:
    """The weight of the newest network after a round of `steps` gradient steps, `updates` in all.

    It is that of an exponential average over about `span` steps; before there are as many, that of the mean over all rounds.
    """
    return jnp.maximum(1 - (1 - 1 / span) ** steps, steps / jnp.maximum(updates, steps))
