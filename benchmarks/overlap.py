"""Rounds that overlap with acting: `python -m benchmarks.overlap` compares a run with the time of its two halves.

The environment is HalfCheetah-v5 with a pause of `--pause` milliseconds in each step. Steps before the first rounds, which
compile, are not counted.
"""

from __future__ import annotations

import argparse
from time import perf_counter, sleep
from typing import Any

import gymnasium as gym

from gemrl.training.models import MODELS

WARM_UP = 500
"""Steps that are not counted."""


class Slow(gym.Wrapper):
    """An environment that takes longer; `spent` adds up the seconds of its steps."""

    def __init__(self, env: gym.Env, pause: float) -> None:
        super().__init__(env)
        self._pause, self.spent = pause, 0.0

    def step(self, action: Any) -> Any:
        start = perf_counter()
        sleep(self._pause)
        answer = self.env.step(action)
        self.spent += perf_counter() - start
        return answer


def measured(pause: float, steps: int, *, algo: str = "gem", overlap: bool) -> tuple[float, float]:
    """Seconds of a run after its warm-up: in all, and those of its environment."""
    env = Slow(gym.make("HalfCheetah-v5"), pause)
    model = MODELS[algo](env, seed=0, learning_starts=100, overlap=overlap)
    start = spent = 0.0
    for event in model.training(WARM_UP + steps):
        if event.step == WARM_UP and not start:
            start, spent = perf_counter(), env.spent
    model.agent.act(env.observation_space.sample()[None])  # waits for the last round
    return perf_counter() - start, env.spent - spent


def repeated(pause: float, steps: int, repeats: int) -> dict[str, Any]:
    """Seconds of runs without and with overlap, and of the environment and the rest of those without, in turns."""
    found: dict[str, list[float]] = {"apart": [], "together": [], "environment": [], "rest": []}
    for _ in range(repeats):
        apart, environment = measured(pause / 1000, steps, overlap=False)
        together, _ = measured(pause / 1000, steps, overlap=True)
        for name, spent in zip(found, (apart, together, environment, apart - environment), strict=True):
            found[name].append(spent)
    return {"pause": pause, "steps": steps, "seconds": found}


def main() -> None:
    """Prints the times of runs with and without overlap, and the longer of both halves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pause", type=float, default=20.0, help="milliseconds per step (default: 20)")
    parser.add_argument("--steps", type=int, default=1500, help="steps that are counted (default: 1,500)")
    parser.add_argument("--algo", default="gem", help="algorithm (default: gem)")
    options = parser.parse_args()
    fields = {"algo": options.algo}
    apart, environment = measured(options.pause / 1000, options.steps, overlap=False, **fields)
    together, _ = measured(options.pause / 1000, options.steps, overlap=True, **fields)
    longer = max(environment, apart - environment)
    print(
        f"environment {environment:.1f} s, training and the rest {apart - environment:.1f} s, one after the other {apart:.1f} s"
    )
    print(f"with overlap {together:.1f} s: {together / longer:.2f} of the longer of both, {together / apart:.2f} of their sum")


if __name__ == "__main__":
    main()
