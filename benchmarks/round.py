"""Times GEM's round at a full memory, part by part, against the matrix-multiply speed of the same process: `make bench`."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gemrl.agents.continuous import gradient_step, init_learner, refresh, train_round
from gemrl.memory import Memory, Rows, empty_rows, plan
from gemrl.models import GEM
from gemrl.recipes import GEM as GEM_RECIPE
from gemrl.runs import versions

ROWS, OBSERVATION, ACTION, DEPTH = 100_000, 17, 6, 1000
EPISODE = 1000
RECIPE = GEM_RECIPE.but(depth=DEPTH)


def full_memory() -> Memory:
    """A memory of random rows in episodes of 1000 steps, each cut by a time limit."""
    rng = np.random.default_rng(0)
    rows = Rows(*(rng.normal(size=column.shape).astype(np.float32) for column in empty_rows(1, ROWS, OBSERVATION, ACTION)))
    rows = rows._replace(discount=np.full((1, ROWS), 0.99, np.float32), last=np.arange(ROWS)[None] % EPISODE == EPISODE - 1)
    values = rng.normal(size=(2, 1, ROWS)).astype(np.float32)
    full = np.array([ROWS], np.int32)
    memory = Memory(rows, values, values, np.zeros(1, np.int32), full, np.zeros(1, np.int32))
    return jax.tree.map(jnp.array, memory)


_finish: Callable[[Any], Any] = jax.block_until_ready


def seconds(call: Callable[[], Any], repeats: int = 5) -> float:
    """The median time of a call, after one that compiles."""
    _finish(call())
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        _finish(call())
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def flops() -> dict[str, float]:
    """Multiply-adds of a refresh and of a gradient step, times two."""
    first, second = RECIPE.net_arch
    critic = 2 * ((OBSERVATION + ACTION) * first + first * second + second)
    actor = 2 * (OBSERVATION * first + first * second + second * ACTION)
    # Backward costs twice the forward pass, or once where only the gradient of the input is needed.
    policy = (3 * actor + 2 * 4 * critic) / RECIPE.policy_delay
    return {"refresh": ROWS * (actor + 4 * critic), "gradient step": RECIPE.batch_size * (3 * 4 * critic + policy)}


def multiply_speed() -> float:
    """Floating-point operations per second of a large float32 matrix multiply."""
    size = 2048
    matrix = jax.random.normal(jax.random.key(0), (size, size))
    multiply = jax.jit(jnp.matmul)
    return 2 * size**3 / seconds(lambda: multiply(matrix, matrix))


def environment_speed(steps: int = 3000) -> float:
    """Steps per second of acting in and stepping HalfCheetah-v5, without training."""
    model = GEM("HalfCheetah-v5", seed=0, learning_starts=500, train_freq=10**9)
    model.learn(500)
    start = time.perf_counter()
    model.learn(steps, reset_num_timesteps=False)
    return steps / (time.perf_counter() - start)


def main() -> None:
    """Prints the table."""
    memory, learner = full_memory(), init_learner(RECIPE, OBSERVATION, ACTION, 0)
    peak, work, key = multiply_speed(), flops(), jax.random.key(1)
    # The planner alone is timed on its inputs, so that nothing else is counted; `plan` adds the way to time order and back.
    inputs = memory.rows.reward, memory.rows.discount, memory.rows.last, memory.q_next
    planning = seconds(partial(jax.jit(RECIPE.planner), *inputs))
    planned = jax.jit(lambda m: plan(m, RECIPE.planner).planned)
    refreshed = jax.jit(lambda m: refresh(RECIPE, learner, m, m.size, key).q_next)
    steps = jax.jit(
        lambda m: jax.lax.scan(partial(gradient_step, RECIPE, m), learner, jax.random.split(key, RECIPE.gradient_steps))[1]
    )
    times = {
        "planner": planning,
        "plan (in the memory)": seconds(partial(planned, memory)),
        "refresh": seconds(partial(refreshed, memory)),
        "gradient step": seconds(partial(steps, memory)) / RECIPE.gradient_steps,
    }
    state = [learner, memory]
    nothing = empty_rows(1, 128, OBSERVATION, ACTION), np.zeros(1, np.int32)

    def one_round() -> Any:
        state[0], state[1], losses = train_round(RECIPE, state[0], state[1], *nothing, True)
        return losses

    times["round"] = seconds(one_round)
    work["round"] = work["refresh"] + RECIPE.gradient_steps * work["gradient step"]
    found = versions()
    print(f"{ROWS:,} rows, {OBSERVATION} observations, {ACTION} actions, depth {DEPTH}")
    print(f"networks {RECIPE.net_arch}, batch {RECIPE.batch_size}, {RECIPE.gradient_steps} gradient steps a round")
    print(f"{found['platform']}, {len(os.sched_getaffinity(0))} thread(s), JAX {found['jax']}")
    print(f"large matrix multiply: {peak / 1e9:.0f} GFLOP/s")
    print(f"{'part':24}{'ms':>10}{'of the round':>14}{'of matrix-multiply speed':>26}")
    for name, spent in times.items():
        share = f"{spent / times['round']:.1%}"
        speed = f"{work[name] / spent / peak:.0%}" if name in work else ""
        print(f"{name:24}{1e3 * spent:10.2f}{share:>14}{speed:>26}")
    per_round = RECIPE.train_freq / environment_speed()
    print(f"acting and stepping HalfCheetah-v5: {RECIPE.train_freq / per_round:,.0f} steps/s")
    print(f"environment steps per second with training, memory full: {RECIPE.train_freq / (per_round + times['round']):.1f}")


if __name__ == "__main__":
    main()
