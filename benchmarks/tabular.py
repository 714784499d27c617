"""The tabular agents on small gymnasium environments; finished runs are skipped. Run with `python -m benchmarks.tabular`."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

from benchmarks.queue import RESULTS
from gemrl.envs.making import make
from gemrl.training.loop import scheduled
from gemrl.training.models import MODELS

TARGET = RESULTS / "tabular" / "evaluations.csv"
COLUMNS = ("world", "algorithm", "seed", "step", "return_mean", "return_std", "length_mean", "estimation_error")

WORLDS: dict[str, tuple[Callable[[], gym.Env], int, int]] = {
    "FrozenLake-v1, not slippery": (partial(make, "FrozenLake-v1", is_slippery=False), 10_000, 10),
    "FrozenLake-v1, slippery": (partial(make, "FrozenLake-v1", is_slippery=True), 50_000, 100),
    "CliffWalking-v1, cut at 200": (partial(make, "CliffWalking-v1", max_episode_steps=200), 20_000, 10),
    "Taxi-v4": (partial(make, "Taxi-v4"), 200_000, 50),
}
"""By name: a function that makes the environment, the number of training steps, and the episodes per evaluation."""

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "gem-tabular": ("gem-tabular", {}),
    "gem-tabular, replays=5": ("gem-tabular", {"replays": 5}),
    "gem2-tabular": ("gem2-tabular", {}),
    "gem2-tabular, replays=5": ("gem2-tabular", {"replays": 5}),
    "q-learning": ("q-learning", {}),
    "double-q": ("double-q", {}),
    "nstep-q": ("nstep-q", {}),
}


def rows() -> list[dict[str, str]]:
    """The rows measured so far."""
    if not TARGET.exists():
        return []
    with TARGET.open(newline="") as file:
        return list(csv.DictReader(file))


def measure(world: str, case: str, seed: int) -> list[tuple[Any, ...]]:
    """Trains one agent and returns a row for each of four evaluations."""
    maker, steps, episodes = WORLDS[world]
    algo, fields = CASES[case]
    model = MODELS[algo](maker(), seed=seed, **fields)
    schedule = scheduled(maker, steps // 4, episodes, seed)
    found = [(event.step, event.evaluation) for event in model.training(steps, schedule) if event.evaluation]
    schedule.evaluator.close()
    return [(world, case, seed, step, *(repr(getattr(result, name)) for name in COLUMNS[4:])) for step, result in found]


def table(fraction: float = 1.0) -> str:
    """The returns after this fraction of the steps as a Markdown table: the mean over seeds, and each seed."""
    measured = rows()
    lines = ["| | " + " | ".join(WORLDS) + " |", "|---" * (len(WORLDS) + 1) + "|"]
    header = (f"{int(fraction * steps):,} steps" for _, steps, _ in WORLDS.values())
    lines.append(f"| | {' | '.join(header)} |")
    for case in CASES:
        cells = []
        for world, (_, steps, _) in WORLDS.items():
            wanted = (world, case, str(int(fraction * steps)))
            each = [float(row["return_mean"]) for row in measured if (row["world"], row["algorithm"], row["step"]) == wanted]
            cells.append(f"{np.mean(each):.4g} ({', '.join(f'{one:.4g}' for one in each)})" if each else "not yet run")
        lines.append(f"| {case} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Runs what is missing, then prints the tables after a quarter of the steps and at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=list(WORLDS))
    options = parser.parse_args()
    done = {(row["world"], row["algorithm"], int(row["seed"])) for row in rows()}
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    with TARGET.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if not done:
            writer.writerow(COLUMNS)
        for world in options.worlds:
            for seed in range(options.seeds):
                for case in CASES:
                    if (world, case, seed) not in done:
                        print(world, case, seed, flush=True)
                        writer.writerows(measure(world, case, seed))
                        file.flush()
    print(table(0.25), table(), sep="\n\n")


if __name__ == "__main__":
    main()
