"""The policies that evaluations and `predict` use: an average of the newest ones, and the one that is held.

A policy that is trained with a constant learning rate moves on with every step, and on tasks where a robot can fall its return
jumps: it walks, falls after some more gradient steps, and walks again. The average of the policies of the newest gradient steps
(Polyak and Juditsky, 1992) moves slowly. And the policy whose training episodes had the best returns can be held until a later
one does as well, or until it is old, much like the checkpoints of TD7 (Fujimoto et al., 2023). Neither takes part in training:
exploration and targets use the newest policy.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from gemrl.agents.learner import Averaged, Held, Learner
from gemrl.algorithms.recipes.continuous import Recipe
from gemrl.core.arrays import Array


def follow(recipe: Recipe, learner: Learner) -> Learner:
    """The learner after a round, with what it acts greedily with moved towards the newest networks, if that is anything else."""
    learner = averaged(recipe, learner)
    if learner.held is None:
        return learner
    policy, holding = learner.held
    policy = jax.tree.map(lambda held, newest: jnp.where(holding, held, newest), policy, learner.newest)
    return eqx.tree_at(lambda x: x.held, learner, Held(policy, holding))


def averaged(recipe: Recipe, learner: Learner) -> Learner:
    """The learner after a round, with its average moved towards the newest networks, if it has one."""
    if learner.average is None:
        return learner
    weight = newest_weight(recipe.policy_average, recipe.gradient_steps, learner.updates)

    def moved(average: Array, newest: Array) -> Array:
        return average + weight * (newest - average)

    newest = Averaged(learner.actor, learner.encoder, learner.critics.vision)
    return eqx.tree_at(lambda x: x.average, learner, jax.tree.map(moved, learner.average, newest))


@jax.jit
def hold(learner: Learner) -> Learner:
    """The learner with its newest policy, or the average of the newest ones, held; not before its first gradient step."""
    copies = jax.tree.map(jnp.copy, learner.newest)  # a round overwrites its arguments, so no two may share an array
    return eqx.tree_at(lambda x: x.held, learner, Held(copies, learner.updates > 0))


def newest_weight(span: int, steps: int, updates: Any) -> Array:
    """The weight of the newest network after a round of `steps` gradient steps, `updates` in all.

    It is that of an exponential average over about `span` steps; before there are as many, that of the mean over all rounds.
    """
    return jnp.maximum(1 - (1 - 1 / span) ** steps, steps / jnp.maximum(updates, steps))
