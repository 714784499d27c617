"""Truncation on Pendulum-v1, where rewards are negative and no episode terminates; run `python -m benchmarks.time_limits`."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.queue import RESULTS, finished, gemrl_job, run_all
from gemrl.experiments.run_logs import read_evaluations

ENV, STEPS = "Pendulum-v1", 8_000
CASES = {
    "gem, depth 5": ("gem", "depth=5"),
    "gem, depth 1000": ("gem", "depth=1000"),
    "gem-released, depth 5": ("gem-released", "depth=5"),
    "gem-released, depth 1000": ("gem-released", "depth=1000"),
    "gem-released, norm behind, depth 5": ("gem-released", "norm_first=False", "depth=5"),
    "gem-released, norm behind, depth 1000": ("gem-released", "norm_first=False", "depth=1000"),
}


def folder(case: str, seed: int) -> Path:
    """The run folder of a case and seed."""
    return RESULTS / "time-limits" / case.replace(", ", "-").replace(" ", "-") / str(seed)


def table(seeds: int) -> str:
    """The finished runs as a Markdown table."""
    lines = ["| recipe | return, mean (each seed) | estimation error, mean (each seed) |", "|---|---|---|"]
    for case in CASES:
        runs = [read_evaluations(folder(case, seed)) for seed in range(seeds) if finished(folder(case, seed))]
        cells = []
        for name in ("return_mean", "estimation_error"):
            finals = [run[name][-1] for run in runs]
            each = ", ".join(f"{final:,.0f}" for final in finals)
            cells.append(f"{np.mean(finals):,.0f} ({each})" if finals else "not yet run")
        lines.append(f"| {case} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Runs what is not finished yet, then prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    jobs = [
        gemrl_job(folder(case, seed), ENV, algo, seed, STEPS, "learning_starts=1000", *settings)
        for seed in range(options.seeds)
        for case, (algo, *settings) in CASES.items()
    ]
    run_all(jobs, options.workers)
    print(table(options.seeds))


if __name__ == "__main__":
    main()
