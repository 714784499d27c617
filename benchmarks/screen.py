"""Scores of runs beyond the paper: `python -m benchmarks.screen [FOLDER]` prints them as a Markdown table.

The score of a run is (return - random play) / (TD3 at a million steps - random play), where the return is the mean of the last
three evaluations up to `--at` steps. The score of a method is the mean over tasks of the mean over seeds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.queue import RESULTS
from gemrl.analysis.results.collection import Collection, collect
from gemrl.analysis.results.run import Run
from gemrl.analysis.results.scales import scale
from gemrl.analysis.statistics import interval, mean

LAST = 3
"""Evaluations that are averaged: a single one may differ from the next by thousands."""


def late_return(run: Run, at: int) -> float:
    """The mean return of the last three evaluations up to step `at`; NaN if the run has not reached it."""
    until = run.evaluations["step"] <= at
    return float(run.evaluations["return_mean"][until][-LAST:].mean()) if run.last_step >= at else np.nan


def returns(collection: Collection, method: str, env: str, at: int) -> np.ndarray:
    """The return of each run of a method that has reached step `at` [runs]."""
    found = [late_return(run, at) for run in collection.runs if (run.method, run.env) == (method, env)]
    return np.array([value for value in found if not np.isnan(value)])


def scores(collection: Collection, method: str, envs: list[str], at: int) -> np.ndarray:
    """The scores of a method's runs [runs, tasks]; NaN where a task has fewer runs."""
    columns = []
    for env in envs:
        low, high, _ = scale(collection, env)
        columns.append((returns(collection, method, env, at) - low) / (high - low))
    table = np.full((max(len(column) for column in columns), len(envs)), np.nan)
    for task, column in enumerate(columns):
        table[: len(column), task] = column
    return table


def row(collection: Collection, method: str, envs: list[str], at: int) -> str:
    """The line of a method: the return on each task (each seed), and the score with its interval if no task is missing."""
    cells = []
    for env in envs:
        each = returns(collection, method, env, at)
        seeds = f" ({', '.join(f'{value:,.0f}' for value in each)})" if len(each) > 1 else ""
        cells.append(f"{each.mean():,.0f}{seeds}" if len(each) else "")
    if all(cells):
        found = scores(collection, method, envs, at)
        value, low, high = interval(found, mean, np.random.default_rng(0))
        cells.append(f"{value:.2f} ({low:.2f} to {high:.2f})" if len(found) > 1 else f"{value:.2f}")
    else:
        cells.append("")
    return f"| {method} | {' | '.join(cells)} |"


def table(collection: Collection, at: int) -> str:
    """All methods with a run that has reached step `at`."""
    reached = [run for run in collection.runs if run.last_step >= at]
    envs = [env for env in collection.envs if any(run.env == env for run in reached)]
    methods = [method for method in collection.methods if any(run.method == method for run in reached)]
    head = f"| method | {' | '.join(envs)} | score |"
    return "\n".join([head, "|---" * (len(envs) + 2) + "|", *(row(collection, method, envs, at) for method in methods)])


def main() -> None:
    """Prints the table of a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=RESULTS / "gem2-screen", help="a folder of runs")
    parser.add_argument("--at", type=int, default=50_000, help="the step at which runs are compared (default: 50,000)")
    options = parser.parse_args()
    print(table(collect(options.folder), options.at))


if __name__ == "__main__":
    main()
