"""The policies that evaluations and `predict` use: an average of the newest ones, and the best of the last trials.

A policy that is trained with a constant learning rate moves on with every step, and on tasks where a robot can fall its return
jumps: it walks, falls after some more gradient steps, and walks again. The average of the policies of the newest gradient steps
(Polyak and Juditsky, 1992) moves slowly. And policies can be tried out now and then (trials.py): the best one of the last few
trials then acts greedily, much like the checkpoints of TD7 (Fujimoto et al., 2023). Outside of trials, training uses the newest
policy.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from gemrl.agents.learner import Averaged, Learner, Tried
from gemrl.algorithms.recipes.continuous import Recipe
from gemrl.core.arrays import Array


def follow(recipe: Recipe, learner: Learner) -> Learner:
    """The learner after a round, with what acts greedily moved towards the newest networks, if that is anything else."""
    learner = averaged(recipe, learner)
    if learner.tried is None:
        return learner
    judged = jnp.isfinite(learner.tried.scores).any()
    best = jax.tree.map(lambda old, newest: jnp.where(judged, old, newest), learner.tried.best, learner.newest)
    return eqx.tree_at(lambda x: x.tried.best, learner, best)


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
def try_out(learner: Learner) -> Learner:
    """The learner at the start of a trial of its newest policy, which takes the place of the oldest one."""
    assert learner.tried is not None
    best, policies, scores = learner.tried
    policies = jax.tree.map(lambda old, new: jnp.concatenate([new[None], old[:-1]]), policies, learner.newest)
    scores = jnp.concatenate([jnp.array([-jnp.inf]), scores[:-1]])
    return eqx.tree_at(lambda x: x.tried, learner, Tried(best, policies, scores))


@jax.jit
def judge(learner: Learner, score: float) -> Learner:
    """The learner at the end of a trial with this mean return; the best policy of the last trials acts greedily from now on."""
    assert learner.tried is not None
    _, policies, scores = learner.tried
    scores = scores.at[0].set(score)
    best = jax.tree.map(lambda x: x[scores.argmax()], policies)
    return eqx.tree_at(lambda x: x.tried, learner, Tried(best, policies, scores))


def newest_weight(span: int, steps: int, updates: Any) -> Array:
    """The weight of the newest network after a round of `steps` gradient steps, `updates` in all.

    It is that of an exponential average over about `span` steps; before there are as many, that of the mean over all rounds.
    """
    return jnp.maximum(1 - (1 - 1 / span) ** steps, steps / jnp.maximum(updates, steps))
