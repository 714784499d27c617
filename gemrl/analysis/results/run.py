"""One run as stored in its folder: run.json, the evaluations and the training time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gemrl.algorithms.registry import general_name
from gemrl.core.env_names import id_of
from gemrl.core.exceptions import RunFolderError
from gemrl.experiments import run_folder
from gemrl.experiments.run_logs import SCORED, Timing, read_evaluations, read_timings


def task_name(env: str) -> str:
    """The name of an environment without namespace, version and arguments: Alien for ALE/Alien-v5 and AlienNoFrameskip-v4."""
    name = id_of(env).split(":")[-1].split("/")[-1]
    return re.sub(r"-v\d+$", "", name).removesuffix("NoFrameskip")


def warm_up(description: Mapping[str, Any]) -> int:
    """The number of steps of a run before training starts; 0 if its recipe has no such field, or if it trained offline."""
    steps = description.get("recipe", {}).get("learning_starts", 0)
    return steps if isinstance(steps, int) and not description.get("offline") else 0


@dataclass(frozen=True)
class Run:
    """One run: the content of run.json and the columns of evaluations.csv."""

    folder: Path
    method: str
    env: str
    """The id of the environment, followed by its arguments if they are unusual."""
    description: dict[str, Any]
    evaluations: dict[str, np.ndarray] = field(repr=False)
    timing: Timing | None = None
    """Steps and seconds in the last line of progress.csv, which may be later than the last evaluation."""

    @property
    def seed(self) -> int:
        return int(self.description["seed"])

    @property
    def recipe(self) -> dict[str, Any]:
        """The fields of the recipe as JSON values."""
        return self.description.get("recipe", {})

    @property
    def learning_starts(self) -> int:
        """The number of steps before training starts; 0 if there are none."""
        return warm_up(self.description)

    def same_as(self, other: Run) -> bool:
        """Whether both are the same training run: equal settings, and equal evaluations at all steps that both contain."""
        names = ("algo", "env", "env_args", "seed", "n_envs", "recipe", "data", "keep_data", "offline")
        if self.method != other.method or any(self.description.get(name) != other.description.get(name) for name in names):
            return False
        shared, own_index, other_index = np.intersect1d(self.evaluations["step"], other.evaluations["step"], return_indices=True)
        columns = ((column[own_index], other.evaluations[name][other_index]) for name, column in self.evaluations.items())
        return shared.size > 0 and all(np.array_equal(*pair, equal_nan=True) for pair in columns)

    @property
    def last_step(self) -> int:
        return int(self.evaluations["step"][-1])

    @property
    def finished(self) -> bool:
        """Whether the run was evaluated at its last step."""
        return self.last_step >= self.description.get("steps", 0)

    @property
    def speed(self) -> float | None:
        """Environment steps per second, evaluations included."""
        return self.timing.steps / self.timing.seconds if self.timing else None

    def score(self, step: int) -> float:
        """The mean return of the last three evaluations up to `step`, or of as many as there are."""
        until = self.evaluations["step"] <= step
        return float(self.evaluations["return_mean"][until][-SCORED:].mean()) if until.any() else np.nan

    def last(self, step: int) -> float:
        """The return of the last evaluation up to `step`."""
        until = self.evaluations["step"] <= step
        return float(self.evaluations["return_mean"][until][-1]) if until.any() else np.nan

    def error(self, step: int) -> float:
        """The estimation error of the last evaluation up to `step`."""
        until = self.evaluations["step"] <= step
        return float(self.evaluations["estimation_error"][until][-1]) if until.any() else np.nan


def stacked(group: Sequence[Run], column: str = "return_mean") -> tuple[np.ndarray, np.ndarray]:
    """One column of several runs, interpolated at the steps that all of them cover: [steps], [runs, steps]."""
    run_steps = [run.evaluations["step"] for run in group]
    first, last = max(steps[0] for steps in run_steps), min(steps[-1] for steps in run_steps)
    grid = np.unique(np.concatenate(run_steps))
    grid = grid[(grid >= first) & (grid <= last)]
    return grid, np.array([np.interp(grid, run.evaluations["step"], run.evaluations[column]) for run in group])


def read_run(folder: Path, root: Path, study: dict[str, Any]) -> Run:
    """The run in a folder below `root`; raises RunFolderError if it cannot be used."""
    description = {"env_args": {}} | run_folder.describe(folder, links=False)  # older runs have no env_args
    evaluations = read_evaluations(folder, links=False)
    if not evaluations["step"].size:
        raise RunFolderError(f"{folder} has no evaluation yet")
    description["recipe"] = run_folder.recipe_fields(description)
    method = _method(folder, root, study, description)
    return Run(folder, method, str(description["env"]), description, evaluations, _timing(folder))


def _method(folder: Path, root: Path, study: dict[str, Any], description: dict[str, Any]) -> str:
    """The method: the study's name for it, or a more specific folder name (td3-nstep-depth=5/Hopper-v5/0), or the algorithm."""
    algo, parts = str(description["algo"]), folder.relative_to(root).parts
    if parts and parts[0] in study.get("algos", {}):
        return parts[0]
    named = [root.name] if "=" in root.name else []  # otherwise the root folder names the collection, not a method
    known = {algo, general_name(algo)}
    names = [part for part in (*named, *parts[:-1]) if any(f"{part}-".startswith(f"{name}-") for name in known)]
    return names[-1] if names else algo


def _timing(folder: Path) -> Timing | None:
    """The last line of progress.csv."""
    timings = read_timings(folder)
    return timings[-1] if timings and timings[-1].seconds > 0 else None
