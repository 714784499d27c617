"""A folder of runs, read into one table. Nothing in it is changed, and what cannot be read is left out and named."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gemrl.analysis.results.run import Run, read_run
from gemrl.core.env_names import id_of
from gemrl.core.exceptions import RunFolderError
from gemrl.experiments.description import env_title, unusual_args
from gemrl.experiments.studies.study_file import read_study_file


@dataclass(frozen=True)
class Collection:
    """All runs below a folder."""

    folder: Path
    runs: tuple[Run, ...]
    unread: tuple[str, ...] = ()
    """What could not be read or is there twice, and why."""
    study: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def left_out(self) -> tuple[str, ...]:
        """Which runs are not compared with others, and why."""
        return (*self.unread, *_left_behind(self))

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
        place = {env: number for number, env in enumerate(order)}
        return sorted({run.env for run in self.runs}, key=lambda env: (place.get(id_of(env), len(order)), env))

    @cached_property
    def _compared(self) -> dict[str, Compared]:
        return {env: compared([run for run in self.runs if run.env == env]) for env in self.envs}

    @cached_property
    def _groups(self) -> dict[tuple[str, str], list[Run]]:
        groups: dict[tuple[str, str], list[Run]] = {}
        for run in self.runs:
            groups.setdefault((run.method, run.env), []).append(run)
        return groups

    def of(self, method: str, env: str) -> list[Run]:
        """The runs of a method that are compared with others on an environment."""
        return [run for run in self._compared[env].runs if run.method == method]

    def shown(self, method: str, env: str) -> list[Run]:
        """The runs of a method whose curve is drawn: those that are compared, else finished ones, else all of them."""
        found = self._groups.get((method, env), [])
        return self.of(method, env) or [run for run in found if run.finished] or found

    def unfinished(self) -> list[Run]:
        """Runs that are not at their end."""
        return [run for run in self.runs if not run.finished]

    def final_step(self, env: str) -> int:
        """The step at which runs on an environment are compared."""
        return self._compared[env].step

    def scores(self, method: str, env: str) -> np.ndarray:
        """The score of each run [runs]."""
        step = self.final_step(env)
        return np.array([run.score(step) for run in self.of(method, env)])


def collect(folder: Path) -> Collection:
    """Every run below a folder, or the run that it is."""
    if not folder.is_dir():
        raise RunFolderError(f"{folder} is not a folder")
    found: list[Run] = []
    unread: list[str] = []
    study = _study(folder)
    for place in sorted(_run_folders(folder)):
        try:
            run = read_run(place, folder, study)
        except RunFolderError as error:
            unread.append(" ".join(str(error).split()))
            continue
        twin = next((number for number, other in enumerate(found) if run.same_as(other)), None)
        if twin is None:
            found.append(run)
            continue
        kept, other = (run, found[twin]) if run.last_step > found[twin].last_step else (found[twin], run)
        found[twin] = kept
        unread.append(f"{other.folder} is the same run as {kept.folder}")  # two such are not two witnesses
    if not found:
        because = f" that can be read: {unread[0]}" if unread else "; `gemrl train` makes them"
        raise RunFolderError(f"{folder} holds no run{because}")
    return Collection(folder, tuple(_told_apart(_by_arguments(found))), tuple(unread), study)


def _run_folders(folder: Path) -> Iterator[Path]:
    """The folders with a run.json, behind links too, each once."""
    seen = set()
    for place, inner, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(place)
        if real in seen:
            inner.clear()
        elif "run.json" in files:
            yield Path(place)
        seen.add(real)


class Compared(NamedTuple):
    """Runs that are compared, and at which step."""

    step: int
    runs: list[Run]


def compared(found: Sequence[Run]) -> Compared:
    """What can be compared of the runs on one environment: finished ones, if any is, at a step that all of them have reached.

    It is as late as the methods allow, each by its longest run: who ends before it, or before others were evaluated at all, was
    a trial, and tells nothing there.
    """
    finished = [run for run in found if run.finished] or list(found)
    first = max(int(run.evaluations["step"][0]) for run in finished)
    long = [run for run in finished if run.last_step >= first]
    reached: dict[str, int] = {}
    for run in long:
        reached[run.method] = max(run.last_step, reached.get(run.method, 0))
    step = min(reached.values())
    return Compared(step, [run for run in long if run.last_step >= step])


def _left_behind(collection: Collection) -> list[str]:
    """Finished runs that are not compared, and why."""
    behind = [run for run in collection.runs if run.finished and run not in collection.of(run.method, run.env)]
    words = "{} ends at step {:,}, and runs on {} are compared at step {:,}"
    return [words.format(run.folder, run.last_step, run.env, collection.final_step(run.env)) for run in behind]


def _study(folder: Path) -> dict[str, Any]:
    """The study.json of a study's folder, if it has one that can be used."""
    return read_study_file(folder, strict=False)


def _by_arguments(found: Sequence[Run]) -> list[Run]:
    """The same runs; where an environment was made with arguments, its name says which."""
    return [replace(run, env=env_title(run.description | {"env_args": unusual_args(run.description)})) for run in found]


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
