"""What each component of GEM adds: the ladder and td3 on HalfCheetah-v5. Run with `python -m benchmarks.ladder`."""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path

import numpy as np

from benchmarks.queue import RESULTS, finished, gemrl_job, run_all
from gemrl.algorithms.registry import groups
from gemrl.analysis.figures.encoding import encoded
from gemrl.experiments.run_logs import read_evaluations

ENV, STEPS = "HalfCheetah-v5", 30_000
NAMES = ["td3", *groups()["ladder"]]


def folder(name: str, seed: int) -> Path:
    """The run folder of a rung and seed."""
    return RESULTS / "ladder" / name / str(seed)


def finals(name: str, seeds: int, column: str) -> list[float]:
    """One column of the last evaluation of each finished run of a rung."""
    return [read_evaluations(folder(name, seed))[column][-1] for seed in range(seeds) if finished(folder(name, seed))]


def table(seeds: int) -> str:
    """The finished runs as a Markdown table."""
    lines = ["| rung | return (each seed) | estimation error (each seed) |", "|---|---|---|"]
    for name in NAMES:
        returns = ", ".join(f"{value:,.0f}" for value in finals(name, seeds, "return_mean"))
        errors = ", ".join(f"{value:+,.0f}" for value in finals(name, seeds, "estimation_error"))
        lines.append(f"| {name} | {returns} | {errors} |")
    return "\n".join(lines)


def draw(target: Path, seeds: int) -> None:
    """Draws a bar per rung and a point per seed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.4), layout="constrained")
    labels = {"td3": "td3", **{name: f"{name}: {one.summary}" for name, one in groups()["ladder"].items()}}
    labels = {name: textwrap.fill(label, 40) for name, label in labels.items()}
    for row, name in enumerate(NAMES):
        returns = finals(name, seeds, "return_mean")
        if returns:
            axes.barh(row, np.mean(returns), color="#777777" if name == "td3" else "#0072B2", alpha=0.5)
            axes.plot(returns, [row] * len(returns), "o", color="black", markersize=4)
    axes.set_yticks(range(len(NAMES)), [labels[name] for name in NAMES], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(f"return after {STEPS:,} steps of {ENV}\nbar: mean, points: {seeds} seeds", fontsize=9)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", alpha=0.3)
    target.write_bytes(encoded(figure))


def main() -> None:
    """Runs what is not finished yet, then draws the figure and prints the table."""
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
    print(table(options.seeds))


if __name__ == "__main__":
    main()
