"""A folder of runs, read into one table. Nothing in it is changed, and what cannot be read is left out and named."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gemrl import runs
from gemrl.env_args import env_args, env_title, unexpected
from gemrl.errors import DAMAGED, RunFolderError
from gemrl.recording import read_evaluations

LAST_PART = 0.1
"""A run's score is the mean return of the evaluations in this last part of training, of the last one at least."""


def task_name(env: str) -> str:
    """An environment's name without namespace, version and arguments: ALE/Alien-v5 and AlienNoFrameskip-v4 are Alien."""
    return env.split(" (")[0].split(":")[-1].split("/")[-1].rsplit("-v", 1)[0].removesuffix("NoFrameskip")


@dataclass(frozen=True)
class Run:
    """One run: what run.json says, and the columns of evaluations.csv."""

    folder: Path
    method: str
    env: str
    """Its id; with its arguments, where other runs of the same folder have others."""
    description: dict[str, Any]
    evaluations: dict[str, np.ndarray] = field(repr=False)
    seconds: float | None = None

    @property
    def seed(self) -> int:
        return int(self.description["seed"])

    @property
    def recipe(self) -> dict[str, Any]:
        """The fields of its recipe, as JSON has them."""
        return self.description.get("recipe", {})

    def same_as(self, other: Run) -> bool:
        """Whether it is the same training with the same outcome: a copy, or a run that was repeated to the same bits."""
        names = ("algo", "env", "env_args", "seed", "n_envs", "recipe")
        if any(self.description.get(name) != other.description.get(name) for name in names):
            return False
        return all(np.array_equal(column, other.evaluations[name], equal_nan=True) for name, column in self.evaluations.items())

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
        return self.last_step / self.seconds if self.seconds else None

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


@dataclass(frozen=True)
class Collection:
    """All runs below a folder."""

    folder: Path
    runs: tuple[Run, ...]
    left_out: tuple[str, ...] = ()
    """What could not be read, and why."""
    study: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def methods(self) -> list[str]:
        """In the study's order where there is one, else gem first, then by name."""
        order = list(self.study.get("algos", {}))
        names = {run.method for run in self.runs}
        return sorted(names, key=lambda name: (order.index(name) if name in order else len(order), name != "gem", name))

    @cached_property
    def envs(self) -> list[str]:
        """In the study's order where there is one, else by name."""
        order = list(self.study.get("envs", []))
        return sorted({run.env for run in self.runs}, key=lambda env: (order.index(env) if env in order else len(order), env))

    def of(self, method: str, env: str) -> list[Run]:
        """The runs of a method on an environment that count: finished ones, or all of them if none is."""
        found = [run for run in self.runs if run.method == method and run.env == env]
        return [run for run in found if run.finished] or found

    def unfinished(self) -> list[Run]:
        """Runs that are not at their end."""
        return [run for run in self.runs if not run.finished]

    def final_step(self, env: str) -> int:
        """The last step that all runs of an environment that count have reached."""
        return min(run.last_step for method in self.methods for run in self.of(method, env))

    def scores(self, method: str, env: str) -> np.ndarray:
        """The score of each run [runs]."""
        step = self.final_step(env)
        return np.array([run.score(step) for run in self.of(method, env)])


def stacked(group: Sequence[Run], column: str = "return_mean") -> tuple[np.ndarray, np.ndarray]:
    """One column of several runs, at the steps that all of them cover. -> [steps], [runs, steps]."""
    every = [run.evaluations["step"] for run in group]
    first, last = max(steps[0] for steps in every), min(steps[-1] for steps in every)
    grid = np.unique(np.concatenate(every))
    grid = grid[(grid >= first) & (grid <= last)]
    return grid, np.array([np.interp(grid, run.evaluations["step"], run.evaluations[column]) for run in group])


def collect(folder: Path) -> Collection:
    """Every run below a folder, or the run that it is."""
    if not folder.is_dir():
        raise RunFolderError(f"{folder} is not a folder")
    found: list[Run] = []
    left_out: list[str] = []
    study = _study(folder)
    for file in sorted(folder.rglob("run.json")):
        try:
            run = _read(file.parent, folder, study)
        except RunFolderError as error:
            left_out.append(" ".join(str(error).split()))
            continue
        twin = next((other for other in found if run.same_as(other)), None)
        if twin:  # two such runs are not two witnesses
            left_out.append(f"{run.folder} is the same run as {twin.folder}")
        else:
            found.append(run)
    if not found:
        because = f" that can be read: {left_out[0]}" if left_out else "; `gemrl train` makes them"
        raise RunFolderError(f"{folder} holds no run{because}")
    return _comparable(Collection(folder, tuple(_told_apart(_by_arguments(found))), tuple(left_out), study))


def _comparable(collection: Collection) -> Collection:
    """Without runs that were not yet evaluated at the last step that all runs on their environment have reached."""
    late = [run for run in collection.runs if run.evaluations["step"][0] > collection.final_step(run.env)]
    words = "{} has no evaluation up to step {:,}, the last that all runs on {} have reached"
    reasons = (words.format(run.folder, collection.final_step(run.env), run.env) for run in late)
    rest = tuple(run for run in collection.runs if run not in late)
    return replace(collection, runs=rest, left_out=(*collection.left_out, *reasons)) if late else collection


def _read(folder: Path, root: Path, study: dict[str, Any]) -> Run:
    description = runs.describe(folder)
    description["env_args"] = env_args(description)  # runs of old have none; damaged ones are told here
    try:
        evaluations = read_evaluations(folder)
    except OSError:
        raise RunFolderError(f"{folder} has no evaluations.csv") from None
    except (*DAMAGED, csv.Error):
        raise RunFolderError(f"{folder}/evaluations.csv is damaged") from None
    steps = evaluations["step"]
    if not steps.size:
        raise RunFolderError(f"{folder} has no evaluation yet")
    if not (np.isfinite(steps).all() and np.isfinite(evaluations["return_mean"]).all() and (np.diff(steps) > 0).all()):
        raise RunFolderError(f"{folder}/evaluations.csv is damaged: steps must grow and returns be numbers")
    if not isinstance(description.get("steps", 0), int) or not isinstance(description.get("recipe", {}), dict):
        raise RunFolderError(f"{folder}/run.json is damaged: its steps or its recipe are of another kind")
    method = _method(folder, root, study, description)
    return Run(folder, method, str(description["env"]), description, evaluations, _seconds(folder))


def _method(folder: Path, root: Path, study: dict[str, Any], description: dict[str, Any]) -> str:
    """The study's name for it, or the algorithm's, or that of a folder that says more, as in td3-nstep-depth=5/Hopper-v5/0."""
    algo, parts = str(description["algo"]), folder.relative_to(root).parts
    if parts and parts[0] in study.get("algos", {}):
        return parts[0]
    named = [root.name] if "=" in root.name else []  # else it is the name of the whole
    places = [part for part in (*named, *parts[:-1]) if part.startswith(algo) or algo.startswith(f"{part}-")]
    return places[-1] if places else algo


def _seconds(folder: Path) -> float | None:
    """How long the run took, by the last line of progress.csv."""
    try:
        with (folder / "progress.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        return float(rows[-1]["time/time_elapsed"])
    except (OSError, csv.Error, *DAMAGED):
        return None


def _study(folder: Path) -> dict[str, Any]:
    """The study.json of a study's folder, if it has one that can be used."""
    try:
        content = json.loads((folder / "study.json").read_bytes())
        kinds = {"name": str, "title": str, "algos": dict, "envs": list}
        usable = isinstance(content, dict) and all(isinstance(content.get(name), kind) for name, kind in kinds.items())
        return content if usable else {}
    except (OSError, ValueError, RecursionError):
        return {}


def _by_arguments(found: Sequence[Run]) -> list[Run]:
    """The same runs; where those of an environment were made with different arguments, its name says which."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for run in found:
        known = kinds.setdefault(run.env, [])
        if unexpected(run.description) not in known:
            known.append(unexpected(run.description))
    return [replace(run, env=_with_arguments(run)) if len(kinds[run.env]) > 1 else run for run in found]


def _with_arguments(run: Run) -> str:
    return env_title(run.description | {"env_args": unexpected(run.description)})


def _told_apart(found: Iterable[Run]) -> list[Run]:
    """The same runs; where a method has several recipes on an environment, its name says which fields it has of its own."""
    found = list(found)
    recipes: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in found:
        known = recipes.setdefault((run.method, run.env), [])
        if _settings(run) not in known:
            known.append(_settings(run))
    return [replace(run, method=_longer(run, recipes[run.method, run.env])) for run in found]


def _longer(run: Run, recipes: list[dict[str, Any]]) -> str:
    names = dict.fromkeys(name for recipe in recipes for name in recipe)
    varying = [name for name in names if any(recipe.get(name) != recipes[0].get(name) for recipe in recipes)]
    return " ".join([run.method, *(f"{name}={_settings(run).get(name)}" for name in varying)])


def _settings(run: Run) -> dict[str, Any]:
    """What may differ between runs of one name: the recipe, and how many environments were stepped together."""
    return run.recipe | {"n_envs": run.description.get("n_envs", 1)}
