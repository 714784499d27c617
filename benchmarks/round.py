"""Times the parts of GEM's round with a full memory, relative to matrix-multiply speed. Run with `make bench`."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import dense
from benchmarks.timing import Samples, alternate, medians, processors, seconds
from gemrl.agents.continuous import gradient_steps, refresh, train_round
from gemrl.agents.device import CPU_COMPILER_OPTIONS
from gemrl.agents.drawing import draw_round
from gemrl.agents.learner import init_learner
from gemrl.agents.memory.refreshing import plan
from gemrl.agents.memory.ring import Memory, Rows, empty_rows
from gemrl.algorithms.planning import Twin
from gemrl.algorithms.registry import GEM as GEM_RECIPE
from gemrl.algorithms.registry import Recipe
from gemrl.core.layout import Layout
from gemrl.experiments import checkpoints
from gemrl.experiments.run_logs import Recorder
from gemrl.experiments.versions import versions
from gemrl.training.models import GEM

OBSERVATION, ACTION, EPISODE = 17, 6, 1000
LAYOUT = Layout((OBSERVATION,), ACTION)
MULTIPLY = 2048
"""The number of rows and columns of a large matrix."""


@dataclass(frozen=True)
class Case:
    """The sizes that determine the cost of a round."""

    rows: int = 100_000
    depth: int = 1000
    batch: int = GEM_RECIPE.batch_size
    width: tuple[int, ...] = GEM_RECIPE.settable()["net_arch"]
    gradient_steps: int = GEM_RECIPE.gradient_steps
    trajectory_rows: int = 0
    whole: bool = False
    """Whether the round refreshes all rows, as all rounds did before it was known which rows they need."""

    @property
    def recipe(self) -> Recipe:
        """GEM at this size."""
        fields = {"depth": self.depth, "batch_size": self.batch, "net_arch": self.width, "gradient_steps": self.gradient_steps}
        fields |= {"buffer_size": self.rows, "trajectory_rows": self.trajectory_rows}
        # Targets that outlive a round make it refresh all rows.
        return GEM_RECIPE.but(**fields, target_update_interval=GEM_RECIPE.train_freq + self.whole)


def full_memory(rows: int) -> Memory:
    """A memory of random rows in episodes of 1000 steps, each cut off by a time limit."""
    rng = np.random.default_rng(0)
    columns = Rows(*(rng.standard_normal(x.shape, np.float32) for x in empty_rows(1, rows, LAYOUT).columns().values()))
    last = np.arange(rows)[None] % EPISODE == EPISODE - 1
    columns = columns._replace(discount=np.full((1, rows), 0.99, np.float32), last=last)
    values, zero = rng.standard_normal((2, 1, rows), np.float32), np.zeros(1, np.int32)
    memory = Memory(columns, values, values, None, zero, np.array([rows], np.int32), zero)
    return jax.tree.map(jnp.array, memory)


class Round:
    """A learner with a full memory; each part of its round is a method that returns when its work is done."""

    def __init__(self, case: Case) -> None:
        recipe = self._recipe = case.recipe
        self._learner, self._memory = init_learner(recipe, LAYOUT, 0), full_memory(case.rows)
        self._key = jax.random.key(1)
        # The input of a round: as many rows as the host may stage, all of them empty, so that the memory does not change.
        self._no_rows = empty_rows(1, 128, LAYOUT), np.zeros(1, np.int32)
        self._planner = jax.jit(recipe.planner)
        self._planned = jax.jit(lambda memory: plan(memory, recipe.planner).planned)
        compiled = partial(jax.jit, compiler_options=CPU_COMPILER_OPTIONS)  # like the round
        self._refreshed = compiled(lambda learner, memory: refresh(recipe, learner, memory, memory.size, self._key).q_next)
        self._trained = compiled(
            lambda learner, memory: gradient_steps(recipe, memory, learner, draw_round(recipe, memory, self._key))
        )

    def planner(self) -> None:
        """The planner alone; `plan` also sorts the rows into time order and back."""
        rows = self._memory.rows
        _finish(self._planner(rows.reward, rows.discount, rows.last, self._memory.q_next))

    def plan(self) -> None:
        """Planning as the round does it."""
        _finish(self._planned(self._memory))

    def refresh(self) -> None:
        """The value of every next state."""
        _finish(self._refreshed(self._learner, self._memory))

    def gradient_steps(self) -> None:
        """All gradient steps of a round."""
        _finish(self._trained(self._learner, self._memory))

    def round(self) -> None:
        """The whole round, as training calls it."""
        self._learner, self._memory, losses = train_round(self._recipe, self._learner, self._memory, *self._no_rows, True)
        _finish(losses)

    def turns(self, *parts: str) -> dict[str, Callable[[], float]]:
        """A timing function for each of these parts."""
        return {part: partial(seconds, getattr(self, part)) for part in parts}


_finish: Callable[[Any], Any] = jax.block_until_ready


def refreshed_rows(case: Case) -> float:
    """How many rows a round is expected to refresh: those that a drawn row's rollout reaches within its episode."""
    reach = np.minimum(np.arange(1, EPISODE + 1), case.depth)  # from how many rows each row of an episode is reached
    missed = (1 - reach / case.rows) ** (case.gradient_steps * case.batch)
    return float(case.rows * (1 - missed).mean())


def flops(case: Case) -> dict[str, float]:
    """Floating-point operations of the parts that multiply matrices."""
    recipe = case.recipe
    first, second = recipe.settable()["net_arch"]
    critic = 2 * ((OBSERVATION + ACTION) * first + first * second + second)
    actor = 2 * (OBSERVATION * first + first * second + second * ACTION)
    # The backward pass costs twice the forward pass, or as much if only the gradient of the input is needed.
    policy = (3 * actor + 2 * 4 * critic) / recipe.policy_delay
    valuing, training = actor + 4 * critic, recipe.batch_size * (3 * 4 * critic + policy)
    steps = recipe.gradient_steps * training
    whole, needed = case.rows * valuing, refreshed_rows(case) * valuing
    return {"multiply": 2 * MULTIPLY**3, "refresh": whole, "gradient_steps": steps, "round": needed + steps}


def large_multiply() -> Callable[[], float]:
    """A timing function of a large float32 matrix multiplication."""
    matrix = jax.random.normal(jax.random.key(0), (MULTIPLY, MULTIPLY))
    multiply = jax.jit(jnp.matmul)
    return partial(seconds, lambda: _finish(multiply(matrix, matrix)))


def measure(case: Case, repeats: int) -> Samples:
    """Seconds of a large matrix multiplication and of each part of the round, measured in turns."""
    turns = Round(case).turns("planner", "plan", "refresh", "gradient_steps", "round")
    return alternate({"multiply": large_multiply(), **turns}, repeats)


def measure_planning(case: Case, repeats: int) -> Samples:
    """Seconds of our planner and of the dense method on the same trajectories; their results must agree."""
    data, planner = dense.trajectories(case.rows, EPISODE), jax.jit(Twin(case.depth))
    # In double precision rounding does not change which rollout is best.
    with jax.enable_x64(True):
        double = [x if x.dtype == bool else x.astype(np.float64) for x in data]
        found = np.asarray(planner(*map(jnp.asarray, double)))
    reward, discount, last, q_next = double
    np.testing.assert_allclose(found, dense.twin(reward, discount, last, q_next, case.depth), rtol=1e-9, atol=1e-9)
    on_device = [jnp.asarray(x) for x in data]
    turns = {
        "planner": partial(seconds, lambda: _finish(planner(*on_device))),
        "dense": partial(seconds, lambda: dense.twin(*data, case.depth)),
    }
    return alternate(turns, repeats)


def environment_speed(steps: int = 3000) -> float:
    """Steps per second on HalfCheetah-v5 with acting and stepping but without training."""
    model = GEM("HalfCheetah-v5", seed=0, learning_starts=500, train_freq=10**9)
    model.learn(500)
    start = time.perf_counter()
    model.learn(steps, reset_num_timesteps=False)
    return steps / (time.perf_counter() - start)


def checkpoint_seconds(case: Case) -> float:
    """Seconds to write a checkpoint of HalfCheetah-v5 with a full memory, including the sync to disk."""
    model = GEM("HalfCheetah-v5", seed=0, buffer_size=case.rows)
    model.learn(1)
    model.agent._ring = full_memory(case.rows)  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory(dir=".") as folder:
        recorder = Recorder(Path(folder), model.recipe)
        recorder.start()
        write = partial(checkpoints.write, Path(folder), model, {"recorder": recorder.facts()}, recorder.texts())
        return statistics.median(seconds(write) for _ in range(5))


def main() -> None:
    """Prints the table."""
    case, found = Case(), versions()
    recipe, work, times = case.recipe, flops(case), medians(measure(case, 5))
    peak = work["multiply"] / times.pop("multiply")
    print(f"{case.rows:,} rows, {OBSERVATION} observations, {ACTION} actions, depth {case.depth}")
    print(
        f"networks {recipe.settable()['net_arch']}, batch {recipe.batch_size}, {recipe.gradient_steps} gradient steps per round"
    )
    print(f"{found['platform']}, {len(processors())} thread(s), JAX {found['jax']}")
    print(f"large matrix multiplication: {peak / 1e9:.0f} GFLOP/s")
    print(f"{'part':24}{'ms':>10}{'of the round':>14}{'of matrix-multiply speed':>26}")
    for name, spent in times.items():
        share = f"{spent / times['round']:.1%}"
        speed = f"{work[name] / spent / peak:.0%}" if name in work else ""
        print(f"{name.replace('_', ' '):24}{1e3 * spent:10.2f}{share:>14}{speed:>26}")
    acting = environment_speed()
    print(f"acting and stepping HalfCheetah-v5: {acting:,.0f} steps/s")
    with_training = recipe.train_freq / (recipe.train_freq / acting + times["round"])
    print(f"environment steps per second with training, memory full: {with_training:.1f}")
    writing = checkpoint_seconds(case)
    part = writing / max(checkpoints.SECONDS, writing / checkpoints.SHARE)
    print(f"checkpoint, memory full: {1e3 * writing:.0f} ms, by default {part:.2%} of training time")


if __name__ == "__main__":
    main()
