"""One run of a folder, as it lies: what run.json says, its evaluations, and how long it took."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gemrl.algorithms.registry import general_name
from gemrl.core.env_names import id_of
from gemrl.core.exceptions import DAMAGED, RunFolderError
from gemrl.experiments import run_folder
from gemrl.experiments.description import env_args
from gemrl.experiments.run_logs import Timing, read_evaluations, read_timings

LAST_PART = 0.1
"""A run's score is the mean return of the evaluations in this last part of training, of the last one at least."""


def task_name(env: str) -> str:
    """An environment's name without namespace, version and arguments: ALE/Alien-v5 and AlienNoFrameskip-v4 are Alien."""
    name = id_of(env).split(":")[-1].split("/")[-1]
    return re.sub(r"-v\d+$", "", name).removesuffix("NoFrameskip")


@dataclass(frozen=True)
class Run:
    """One run: what run.json says, and the columns of evaluations.csv."""

    folder: Path
    method: str
    env: str
    """Its id; with its arguments, where other runs of the same folder have others."""
    description: dict[str, Any]
    evaluations: dict[str, np.ndarray] = field(repr=False)
    timed: Timing | None = None
    """By the last line of progress.csv, which may be beyond the last evaluation."""

    @property
    def seed(self) -> int:
        return int(self.description["seed"])

    @property
    def recipe(self) -> dict[str, Any]:
        """The fields of its recipe, as JSON has them."""
        return self.description.get("recipe", {})

    def same_as(self, other: Run) -> bool:
        """Whether it is the same training with the same outcome, as far as both go: a copy, or one repeated to the same bits."""
        names = ("algo", "env", "env_args", "seed", "n_envs", "recipe")
        if self.method != other.method or any(self.description.get(name) != other.description.get(name) for name in names):
            return False
        shared, mine, theirs = np.intersect1d(self.evaluations["step"], other.evaluations["step"], return_indices=True)
        columns = ((column[mine], other.evaluations[name][theirs]) for name, column in self.evaluations.items())
        return shared.size > 0 and all(np.array_equal(*pair, equal_nan=True) for pair in columns)

    @property
    def last_step(self) -> int:
        return int(self.evaluations["step"][-1])

    @property
    def finished(self) -> bool:
        """Whether it was evaluated at its last step."""
        return self.last_step >= self.description.get("steps", 0)

    @property
    def speed(self) -> float | None:
        """Environment steps per second, evaluations included."""
        return self.timed.steps / self.timed.seconds if self.timed else None

    def score(self, step: int) -> float:
        """The mean return of the evaluations in the last part of training up to `step`."""
        steps, returns = self.evaluations["step"], self.evaluations["return_mean"]
        until = steps <= step
        late = until & (steps > (1 - LAST_PART) * step)
        return float(returns[late].mean() if late.any() else returns[until][-1:].mean() if until.any() else np.nan)

    def error(self, step: int) -> float:
        """The estimation error of the last evaluation up to `step`."""
        until = self.evaluations["step"] <= step
        return float(self.evaluations["estimation_error"][until][-1]) if until.any() else np.nan


def stacked(group: Sequence[Run], column: str = "return_mean") -> tuple[np.ndarray, np.ndarray]:
    """One column of several runs, at the steps that all of them cover. -> [steps], [runs, steps]."""
    every = [run.evaluations["step"] for run in group]
    first, last = max(steps[0] for steps in every), min(steps[-1] for steps in every)
    grid = np.unique(np.concatenate(every))
    grid = grid[(grid >= first) & (grid <= last)]
    return grid, np.array([np.interp(grid, run.evaluations["step"], run.evaluations[column]) for run in group])


def read_run(folder: Path, root: Path, study: dict[str, Any]) -> Run:
    description = run_folder.describe(folder)
    try:
        description["env_args"] = env_args(description)  # runs of old have none
    except RunFolderError as error:
        raise RunFolderError(f"{folder}: {error}") from None
    try:
        evaluations = read_evaluations(folder)
    except FileNotFoundError:
        raise RunFolderError(f"{folder} has no evaluations.csv") from None
    except OSError as error:
        raise RunFolderError(f"cannot read {folder}/evaluations.csv: {error.strerror or error}") from None
    except (*DAMAGED, csv.Error):
        raise RunFolderError(f"{folder}/evaluations.csv is damaged") from None
    steps = evaluations["step"]
    if not steps.size:
        raise RunFolderError(f"{folder} has no evaluation yet")
    if not (np.isfinite(steps).all() and np.isfinite(evaluations["return_mean"]).all() and (np.diff(steps) > 0).all()):
        raise RunFolderError(f"{folder}/evaluations.csv is damaged: steps must grow and returns be numbers")
    if not isinstance(description.get("steps", 0), int) or not isinstance(description.get("recipe", {}), dict):
        raise RunFolderError(f"{folder}/run.json is damaged: its steps or its recipe are of another kind")
    description["recipe"] = run_folder.recipe_fields(description)
    method = _method(folder, root, study, description)
    return Run(folder, method, str(description["env"]), description, evaluations, _timed(folder))


def _method(folder: Path, root: Path, study: dict[str, Any], description: dict[str, Any]) -> str:
    """The study's name for it, or the algorithm's, or that of a folder that says more, as in td3-nstep-depth=5/Hopper-v5/0."""
    algo, parts = str(description["algo"]), folder.relative_to(root).parts
    if parts and parts[0] in study.get("algos", {}):
        return parts[0]
    named = [root.name] if "=" in root.name else []  # else it is the name of the whole
    known = {algo, general_name(algo)}
    places = [part for part in (*named, *parts[:-1]) if any(f"{part}-".startswith(f"{name}-") for name in known)]
    return places[-1] if places else algo


def _timed(folder: Path) -> Timing | None:
    """The last line of progress.csv."""
    timings = read_timings(folder)
    return timings[-1] if timings and timings[-1].seconds > 0 else None
