"""All randomness of a gradient step of GEM and its relatives: rows, noise on actions, and subsets of critics."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gemrl.agents.memory.reach import Pool
from gemrl.agents.memory.ring import Memory, RowIndex, draw
from gemrl.algorithms.recipes.continuous import Recipe
from gemrl.algorithms.targets import Fresh, Tightening
from gemrl.core.arrays import Array


def smoothing_noise(recipe: Recipe, key: Array, shape: tuple[int, ...]) -> Array:
    """Noise for the actions of a bootstrap: clipped Gaussian noise (target policy smoothing), or what a policy draws with."""
    if recipe.distribution.stochastic:
        return jax.random.normal(key, shape)
    noise = recipe.target_policy_noise * jax.random.normal(key, shape)
    return jnp.clip(noise, -recipe.target_noise_clip, recipe.target_noise_clip)


class Randomness(NamedTuple):
    """All randomness of one gradient step; None where the recipe does not need it."""

    rows: RowIndex  # [G, B], the rows of the minibatch; G is 1, or n_pairs if each group draws its own
    noise: Array | None  # [G, B, A], on the actions of fresh targets
    subset: Array | None  # the critics of fresh targets
    ahead: Array | None  # [G, B, reach, A], on the actions of bounds from later states
    policy: Array | None  # [B, A], for actions drawn from the policy
    shift: Array | None  # [G, B, 2], by how many pixels images are shifted


def draw_round(recipe: Recipe, memory: Memory, key: Array) -> Randomness:
    """All randomness of the gradient steps of a round [gradient_steps, ...]: drawing it step by step is slow."""
    pool = Pool.drawn(memory, jax.random.fold_in(key, 1), recipe.trajectory_rows) if recipe.trajectory_rows else None

    def draw_step(step_key: Array) -> Randomness:
        return draw_randomness(recipe, memory, step_key, pool=pool)

    return jax.vmap(draw_step)(jax.random.split(key, recipe.gradient_steps))


def draw_randomness(
    recipe: Recipe, memory: Memory, key: Array, rows: RowIndex | None = None, pool: Pool | None = None
) -> Randomness:
    """All randomness of one gradient step. The rows are drawn, from the pool if there is one, unless they are given."""
    row_key, noise_key, subset_key, ahead_key = jax.random.split(key, 4)
    if rows is None:
        shape = recipe.n_pairs if recipe.separate_batches else 1, recipe.batch_size
        # Rows without a planned return too: they are planned before the first gradient step.
        rows = draw(memory, row_key, shape, planned=False) if pool is None else pool.draw(memory, row_key, shape)
    shape, actions = rows.lane.shape, memory.rows.action.shape[-1]
    noise = subset = ahead = policy = None
    if not recipe.targets.stored:
        noise = smoothing_noise(recipe, noise_key, (*shape, actions))
        if isinstance(recipe.targets, Fresh) and recipe.targets.subset:
            subset = jax.random.permutation(subset_key, recipe.n_critics)[: recipe.targets.subset]
    if isinstance(recipe.bound, Tightening):
        ahead = smoothing_noise(recipe, ahead_key, (*shape, recipe.bound.reach, actions))
    if recipe.distribution.stochastic:
        policy = jax.random.normal(jax.random.fold_in(noise_key, 1), (shape[-1], actions))
    shift = drawn_shift(recipe.random_shift, memory, jax.random.fold_in(row_key, 1), shape)
    return Randomness(rows, noise, subset, ahead, policy, shift)


def drawn_shift(most: int, memory: Memory, key: Array, shape: tuple[int, ...]) -> Array | None:
    """Offsets [*S, 2] in 0..2 most for images of a minibatch [*S]; None if observations are vectors or are not shifted."""
    return jax.random.randint(key, (*shape, 2), 0, 2 * most + 1) if most and memory.frames is not None else None
