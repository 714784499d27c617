"""What an environment step costs each recipe in matrix products: `python -m benchmarks.cost` prints GFLOP a step.

Products are counted in the program of a round, on HalfCheetah-v5's observations and actions, averaged over a run: the memory
grows with every step, and with it the refresh.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

from gemrl.agents import soft
from gemrl.agents.continuous import REFRESH_CHUNK, extra_columns, gradient_step, refresh, update_period
from gemrl.agents.drawing import draw_randomness
from gemrl.agents.learner import init_learner
from gemrl.agents.memory.ring import Memory
from gemrl.algorithms.recipes.continuous import Recipe
from gemrl.algorithms.recipes.soft import SoftRecipe
from gemrl.algorithms.registry import RECIPES
from gemrl.core.layout import Layout

LAYOUT = Layout((17,), 6)
NAMES = ("gem", "gem2", "td3", "sac", "redq", "crossq-512")


def product_flops(equation: Any) -> float:
    """Floating-point operations of a matrix product in a JAX program: two for each multiplication."""
    (contracted, _), _ = equation.params["dimension_numbers"]
    inner = math.prod(equation.invars[0].aval.shape[axis] for axis in contracted)
    return 2.0 * math.prod(equation.outvars[0].aval.shape) * inner


def flops(program: Any, branch: Callable[..., float]) -> float:
    """Operations of all matrix products of a JAX program, each loop once; `branch` combines those of a condition's branches."""
    total = 0.0
    for equation in program.eqns:
        if equation.primitive.name == "dot_general":
            total += product_flops(equation)
        elif equation.primitive.name == "cond":
            total += branch(*(flops(inner.jaxpr, branch) for inner in equation.params["branches"]))
        else:
            inner = [getattr(value, "jaxpr", None) for value in equation.params.values()]
            total += sum(flops(one, branch) for one in inner if hasattr(one, "eqns"))
    return total


def gradient_flops(recipe: Recipe | SoftRecipe) -> float:
    """Operations of one gradient step, with the actor's update in every policy_delay-th."""
    state: tuple[Any, ...]
    if isinstance(recipe, SoftRecipe):
        memory = Memory.empty(1, 1024, LAYOUT, 1)
        state = memory, soft.init_learner(recipe, LAYOUT, 0), soft.draw_soft_randomness(recipe, memory, jax.random.key(0))
        program = jax.make_jaxpr(partial(soft.gradient_step, recipe))(*state).jaxpr
    else:
        memory = Memory.empty(1, 1024, LAYOUT, recipe.n_pairs, extra_columns(recipe))
        state = memory, init_learner(recipe, LAYOUT, 0), draw_randomness(recipe, memory, jax.random.key(0))
        program = jax.make_jaxpr(partial(gradient_step, recipe))(*state).jaxpr
    without, always = flops(program, min), flops(program, max)
    return without + (always - without) / recipe.policy_delay


def refresh_flops(recipe: Recipe | SoftRecipe) -> float:
    """Operations to compute the stored values of one row; 0 if none are stored."""
    if isinstance(recipe, SoftRecipe) or not (recipe.targets.stored or recipe.targets.every):
        return 0.0
    memory, learner = Memory.empty(1, 1024, LAYOUT, recipe.n_pairs, extra_columns(recipe)), init_learner(recipe, LAYOUT, 0)
    size = np.array([1024])
    program = jax.make_jaxpr(lambda learner, key: refresh(recipe, learner, memory, size, key))(learner, jax.random.key(0))
    return flops(program.jaxpr, max) / REFRESH_CHUNK


def step_gflop(name: str, steps: int) -> float:
    """GFLOP per environment step, on average over a run of this many steps."""
    recipe: Any = RECIPES[name].for_environment("HalfCheetah-v5", LAYOUT)
    trained = max(0, steps - recipe.learning_starts) / steps
    cost = gradient_flops(recipe) * recipe.gradient_steps / recipe.train_freq * trained
    if each := refresh_flops(recipe):
        cost += each * mean_refreshed(recipe, steps) / (update_period(recipe) or 1)
    return cost / 1e9


def mean_refreshed(recipe: Recipe, steps: int) -> float:
    """How many rows a refresh values, on average over a run: all, or those that drawn rows are expected to reach."""
    rows = np.minimum(np.arange(1, steps + 1), recipe.buffer_size)
    if not recipe.moves_every_round:
        return float(rows.mean())
    draws = recipe.gradient_steps * recipe.batch_size * (recipe.n_pairs if recipe.separate_batches else 1)
    missed = (1 - np.minimum(recipe.targets.planner.rollout_cap / rows, 1)) ** draws
    return float((rows * (1 - missed)).mean())


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES, help=f"recipes (default: {' '.join(NAMES)})")
    parser.add_argument("--steps", type=int, default=100_000, help="steps of the run (default: 100,000)")
    options = parser.parse_args()
    print("| recipe | GFLOP a step |\n|---|---|")
    for name in options.names:
        print(f"| `{name}` | {step_gflop(name, options.steps):.2f} |")


if __name__ == "__main__":
    main()
