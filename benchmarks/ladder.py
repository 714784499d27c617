"""What each part of GEM adds: the ladder on HalfCheetah-v5, with td3 beside it: `python -m benchmarks.ladder`."""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path

import numpy as np

from benchmarks.queue import RESULTS, finished, gemrl_job, run_all
from gemrl.recipes import GROUPS
from gemrl.recording import read_evaluations

ENV, STEPS = "HalfCheetah-v5", 30_000
NAMES = ["td3", *GROUPS["ladder"]]


def folder(name: str, seed: int) -> Path:
    """Where a rung's run is kept."""
    return RESULTS / "ladder" / name / str(seed)


def draw(target: Path, seeds: int) -> None:
    """A bar per rung, a point per seed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.4), layout="constrained", dpi=130)
    labels = {"td3": "td3", **{name: f"{name}: {summary}" for name, (summary, _) in GROUPS["ladder"].items()}}
    labels = {name: textwrap.fill(label, 40) for name, label in labels.items()}
    for row, name in enumerate(NAMES):
        finals = [
            read_evaluations(folder(name, seed))["return_mean"][-1] for seed in range(seeds) if finished(folder(name, seed))
        ]
        if finals:
            axes.barh(row, np.mean(finals), color="#777777" if name == "td3" else "#0072B2", alpha=0.5)
            axes.plot(finals, [row] * len(finals), "o", color="black", markersize=4)
    axes.set_yticks(range(len(NAMES)), [labels[name] for name in NAMES], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(f"return after {STEPS:,} steps of {ENV}\nbar: mean, points: {seeds} seeds", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", alpha=0.3)
    figure.savefig(target, metadata={"Software": None})


def main() -> None:
    """Runs what is not finished, then draws."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    warm_up = "learning_starts=10000"
    run_all(
        [gemrl_job(folder(name, seed), ENV, name, seed, STEPS, warm_up) for seed in range(options.seeds) for name in NAMES],
        options.workers,
    )
    draw(Path("docs/images/ladder.png"), options.seeds)


if __name__ == "__main__":
    main()
