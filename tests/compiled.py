"""The parts of a round, each as one compiled program: operation by operation, tests would spend their time in the compiler."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax

from gemrl.agents import baseline_targets, continuous, discrete, discrete_learner, discrete_memory, drawing, minibatches
from gemrl.agents.learner import Learner
from gemrl.agents.memory import refreshing, ring
from gemrl.algorithms.recipes.continuous import Recipe

insert = jax.jit(ring.insert)
cut = jax.jit(ring.cut)
plan = jax.jit(refreshing.plan, static_argnums=1)
draw = jax.jit(ring.draw, static_argnums=2, static_argnames="planned")

draw_randomness = jax.jit(drawing.draw_randomness, static_argnums=0)


@partial(jax.jit, static_argnums=0)
def bounds(recipe: Recipe, learner: Learner, memory: ring.Memory, drawn: drawing.Randomness) -> Any:
    """What a critic's values of drawn rows should lie between."""
    return baseline_targets.bounds(recipe, learner, memory, drawn, partial(minibatches.state_values, recipe, learner))


@partial(jax.jit, static_argnums=0)
def fresh_returns(recipe: Recipe, learner: Learner, memory: ring.Memory, drawn: drawing.Randomness) -> Any:
    """n-step returns of drawn rows."""
    return baseline_targets.fresh_returns(recipe, memory, drawn, partial(minibatches.state_values, recipe, learner))


state_values = jax.jit(minibatches.state_values, static_argnums=0)
refresh = jax.jit(continuous.refresh, static_argnums=0)

discrete_state_values = jax.jit(discrete_learner.state_values, static_argnums=0)
discrete_refresh = jax.jit(discrete_memory.refresh, static_argnums=0)
discrete_batch_of = jax.jit(discrete.batch_of, static_argnums=0)
discrete_update = jax.jit(discrete_memory.update_memory, static_argnums=(0, 3))
