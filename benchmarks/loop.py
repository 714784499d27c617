"""Where the time of a step of the whole training loop goes: `python -m benchmarks.loop [td3|sac]`, on one thread.

The setting is that of the comparison with other libraries: HalfCheetah-v5, one gradient step after each environment step.
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from time import perf_counter
from typing import Any

import jax

from benchmarks.contestants import Ours
from benchmarks.timing import processors, seconds


def pieces(model: Any, steps: int) -> dict[str, float]:
    """Seconds per step of each piece of the loop, which is taken apart here; callbacks and metrics are not in it."""
    agent, task, spent = model.agent, model._task, defaultdict[str, float](float)
    observation, since = task.reset(), perf_counter()

    def ended(piece: str) -> None:
        nonlocal since
        now = perf_counter()
        spent[piece] += (now - since) / steps
        since = now

    for step in range(1, steps + 1):
        action = agent.explore(observation, agent.recipe.learning_starts + step)
        ended("choosing an action")
        taken = task.step(observation, action)
        observation = taken.observation
        ended("environment, with checks")
        agent.observe(taken.transition)
        ended("storing the row")
        agent.learn(step)
        jax.block_until_ready(agent.learner)  # type: ignore[no-untyped-call]
        ended("round")
        agent._policy  # noqa: B018
        ended("copying the policy to the host")
    return spent


def main() -> None:
    """Prints the pieces, the whole loop, and a gradient step in rounds of 200."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algo", nargs="?", default="td3", choices=("td3", "sac"))
    parser.add_argument("--steps", type=int, default=1000, help="steps that are counted (default: 1,000)")
    options = parser.parse_args()
    os.sched_setaffinity(0, processors()[:1])
    contestant = Ours(options.algo, 1)
    contestant.environment_steps(200)
    contestant.gradient_steps(200, 1)
    many = min(seconds(lambda: contestant.gradient_steps(200, 1)) for _ in range(5)) / 200
    found = pieces(contestant._model(1), options.steps)
    loop = seconds(lambda: contestant.environment_steps(options.steps)) / options.steps
    for piece, spent in (found | {"all pieces": sum(found.values()), "whole loop": loop, "gradient step of 200": many}).items():
        print(f"{piece:32}{1e3 * spent:8.3f} ms")


if __name__ == "__main__":
    main()
