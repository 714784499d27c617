"""Curves of runs: read from the CSV files in results/, and from CSV files that hold many runs."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).parents[2]

SCORED = 3
"""The score of a run is the mean return of this many last evaluations."""

EVALUATIONS, PROGRESS = "evaluations.csv", "progress.csv"
COLUMNS = {
    "return": (EVALUATIONS, "step", "return_mean", 1.0),
    "error": (EVALUATIONS, "step", "estimation_error", 1.0),
    "spread": (EVALUATIONS, "step", "return_std", 1.0),
    "length": (EVALUATIONS, "step", "length_mean", 1.0),
    "step": (EVALUATIONS, "step", "step", 1.0),
    "training": (PROGRESS, "time/total_timesteps", "rollout/ep_rew_mean", 1.0),
    "episodes": (PROGRESS, "time/total_timesteps", "time/episodes", 1.0),
    "minutes": (PROGRESS, "time/total_timesteps", "time/time_elapsed", 1 / 60),
}
"""What can be asked of a run: its file, the column of steps, the column of values, and their unit."""


class Curve(NamedTuple):
    """What a run had at which steps: two arrays [evaluations]."""

    step: np.ndarray
    value: np.ndarray


class NoSource(Exception):
    """A query that cannot be answered: what is wrong with it."""


@cache
def rows(file: Path) -> list[dict[str, str]]:
    """The lines of a CSV file."""
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def curve(lines: list[dict[str, str]], step: str, value: str, unit: float) -> Curve:
    """Two columns as numbers, where both have one."""
    pairs = [(float(line[step]), float(line[value])) for line in lines if line[step] and line[value]]
    table = np.array(pairs).reshape(-1, 2)
    return Curve(table[:, 0], unit * table[:, 1])


def curves(path: str, column: str) -> list[Curve]:
    """The curves of all runs at a path in results/, by seed; an asterisk stands for any part of a name.

    A CSV file of many runs is a folder here: below it are the values of its first columns, as in
    `tabular/evaluations.csv/Taxi-v4/q-learning`.
    """
    name, is_file, keys = path.partition(".csv/")
    if is_file:
        return keyed(Path(f"{name}.csv"), keys.split("/"), column)
    file, step, value, unit = COLUMNS[column]
    folders = [run for match in sorted((ROOT / "results").glob(path)) for run in seeds(match)]
    if not folders:
        raise NoSource(f"there is no run {path} in results/")
    return [curve(rows(folder / file), step, value, unit) for folder in folders]


def seeds(folder: Path) -> list[Path]:
    """A run's own folder, or the runs of all seeds below it."""
    if (folder / EVALUATIONS).is_file():
        return [folder]
    found = [path for path in folder.iterdir() if path.name.isdecimal() and (path / EVALUATIONS).is_file()]
    return sorted(found, key=lambda path: int(path.name))


def keyed(file: Path, keys: list[str], column: str) -> list[Curve]:
    """The curves of a file in which the first columns name the runs, and `seed`, if there is one, tells them apart."""
    place = next((base / file for base in (ROOT / "results", ROOT) if (base / file).is_file()), None)
    if place is None:
        raise NoSource(f"there is no file {file}")
    lines = [line for line in rows(place) if list(line.values())[: len(keys)] == keys]
    if not lines:
        raise NoSource(f"{file} has no line {', '.join(keys)}")
    value = next(name for name in (COLUMNS[column][2], "return", "value") if name in lines[0])
    each = dict.fromkeys(line.get("seed", "") for line in lines)
    return [curve([line for line in lines if line.get("seed", "") == seed], "step", value, 1.0) for seed in each]
