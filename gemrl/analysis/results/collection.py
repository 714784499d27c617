"""Read a folder of runs into one table. The folder is never changed; runs that cannot be read are left out and listed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gemrl.analysis.results.run import Run, read_run
from gemrl.analysis.results.searches import FoundSearch, read_searches
from gemrl.core.env_names import id_of
from gemrl.core.exceptions import RunFolderError
from gemrl.experiments.description import task_title
from gemrl.experiments.run_folder import RUN_FILE
from gemrl.experiments.studies.study_file import read_study_file
from gemrl.experiments.tuning.files import TRIALS, TUNE_FILE


@dataclass(frozen=True)
class Collection:
    """All runs below a folder."""

    folder: Path
    runs: tuple[Run, ...]
    unreadable: tuple[str, ...] = ()
    """Runs that could not be read or are duplicates, each with the reason."""
    study: dict[str, Any] = field(default_factory=dict)
    searches: tuple[FoundSearch, ...] = ()

    @cached_property
    def left_out(self) -> tuple[str, ...]:
        """Runs that are excluded from comparisons, each with the reason."""
        return (*self.unreadable, *_too_short(self))

    @cached_property
    def methods(self) -> list[str]:
        """All methods: in the order of the study if there is one, then gem first, then by name."""
        order = list(self.study.get("algos", {}))
        names = {run.method for run in self.runs}
        return sorted(names, key=lambda name: (order.index(name) if name in order else len(order), name != "gem", name))

    @cached_property
    def envs(self) -> list[str]:
        """All environments: in the order of the study if there is one, then by name."""
        order = list(self.study.get("envs", []))
        position = {env: index for index, env in enumerate(order)}
        return sorted({run.env for run in self.runs}, key=lambda env: (position.get(id_of(env), len(order)), env))

    @cached_property
    def _compared(self) -> dict[str, Comparison]:
        return {env: comparison([run for run in self.runs if run.env == env]) for env in self.envs}

    @cached_property
    def _groups(self) -> dict[tuple[str, str], list[Run]]:
        groups: dict[tuple[str, str], list[Run]] = {}
        for run in self.runs:
            groups.setdefault((run.method, run.env), []).append(run)
        return groups

    def of(self, method: str, env: str) -> list[Run]:
        """The runs of a method that enter comparisons on an environment."""
        return [run for run in self._compared[env].runs if run.method == method]

    def shown(self, method: str, env: str) -> list[Run]:
        """The runs of a method whose curves are drawn: the compared ones, else the finished ones, else all."""
        found = self._groups.get((method, env), [])
        return self.of(method, env) or [run for run in found if run.finished] or found

    def unfinished(self) -> list[Run]:
        """Runs that have not reached their last step."""
        return [run for run in self.runs if not run.finished]

    def final_step(self, env: str) -> int:
        """The step at which runs on an environment are compared."""
        return self._compared[env].step

    def scores(self, method: str, env: str) -> np.ndarray:
        """The score of each compared run [runs]."""
        step = self.final_step(env)
        return np.array([run.score(step) for run in self.of(method, env)])


def collect(folder: Path, *, or_searches: bool = False) -> Collection:
    """All runs below a folder, which may also be a run itself, and all hyperparameter searches.

    Raises RunFolderError if there is no run; with `or_searches`, a search will do.
    """
    if not folder.is_dir():
        raise RunFolderError(f"{folder} is not a folder")
    found: list[Run] = []
    unreadable: list[str] = []
    study: dict[str, Any] = {}
    try:
        study = read_study_file(folder, strict=False)
    except RunFolderError as error:
        unreadable.append(str(error))
    folders = sorted(_folders(folder))
    for path in (path for path, names in folders if RUN_FILE in names):
        try:
            run = read_run(path, folder, study)
        except RunFolderError as error:
            unreadable.append(" ".join(str(error).split()))
            continue
        duplicate = next((index for index, other in enumerate(found) if run.same_as(other)), None)
        if duplicate is None:
            found.append(run)
            continue
        first = found[duplicate]
        kept, other = (run, first) if run.last_step > first.last_step else (first, run)
        found[duplicate] = kept
        unreadable.append(f"{other.folder} is the same run as {kept.folder}")  # a copy is not a second sample
    searches, damaged = read_searches(path for path, names in folders if TUNE_FILE in names)
    unreadable += damaged
    if not found and not (or_searches and searches):
        reason = f" that can be read: {unreadable[0]}" if unreadable else "; create one with `gemrl train`"
        raise RunFolderError(f"{folder} contains no run{reason}")
    return Collection(folder, tuple(_with_distinct_methods(_with_env_titles(found))), tuple(unreadable), study, tuple(searches))


def _folders(folder: Path) -> Iterator[tuple[Path, set[str]]]:
    """All folders below a folder, each once and with the names in it; symbolic links are followed.

    The runs of a search's trials are left out: they are shown as trials.
    """
    seen = set()
    for path, subfolders, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(path)
        names = {*files, *subfolders}  # what is not a file will be named
        if real in seen:
            subfolders.clear()
        else:
            yield Path(path), names
        if TUNE_FILE in names:
            subfolders[:] = [name for name in subfolders if name != TRIALS]
        seen.add(real)


class Comparison(NamedTuple):
    """The runs that are compared on one environment, and the step at which they are compared."""

    step: int
    runs: list[Run]


def comparison(found: Sequence[Run]) -> Comparison:
    """The runs on one environment that can be compared, and the last step that all of them have reached.

    Finished runs are used if there are any. The step is the latest that the longest run of every method has reached. Runs that
    end earlier, or before the first evaluation of another run, are left out: they were short trials.
    """
    finished = [run for run in found if run.finished] or list(found)
    first = max(int(run.evaluations["step"][0]) for run in finished)
    long = [run for run in finished if run.last_step >= first]
    reached: dict[str, int] = {}
    for run in long:
        reached[run.method] = max(run.last_step, reached.get(run.method, 0))
    step = min(reached.values())
    return Comparison(step, [run for run in long if run.last_step >= step])


def _too_short(collection: Collection) -> list[str]:
    """The finished runs that end too early to be compared, each with the reason."""
    short = [run for run in collection.runs if run.finished and run not in collection.of(run.method, run.env)]
    reason = "{} ends at step {:,}, but runs on {} are compared at step {:,}"
    return [reason.format(run.folder, run.last_step, run.env, collection.final_step(run.env)) for run in short]


def _with_env_titles(found: Sequence[Run]) -> list[Run]:
    """The runs, each with the title of what it is compared on as the name of its environment."""
    return [replace(run, env=task_title(run.description)) for run in found]


def _with_distinct_methods(found: Iterable[Run]) -> list[Run]:
    """The runs; where a method has several recipes on an environment, the differing fields are added to its name."""
    found = list(found)
    recipes: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in found:
        known = recipes.setdefault((run.method, run.env), [])
        if _settings(run) not in known:
            known.append(_settings(run))
    return [replace(run, method=_method_with_settings(run, recipes[run.method, run.env])) for run in found]


def _method_with_settings(run: Run, recipes: list[dict[str, Any]]) -> str:
    """The method of a run, followed by those of its settings that differ between the recipes."""
    names = dict.fromkeys(name for recipe in recipes for name in recipe)
    varying = [name for name in names if any(recipe.get(name) != recipes[0].get(name) for recipe in recipes)]
    return " ".join([run.method, *(f"{name}={_settings(run).get(name)}" for name in varying)])


def _settings(run: Run) -> dict[str, Any]:
    """The settings that may differ between runs of one method: the recipe, the number of environments, and recorded data."""
    data = [f"{Path(entry['path']).name}:{entry['sha256'][:8]}" for entry in run.description.get("data", [])]
    recorded = {"data": ",".join(data), "keep_data": run.description.get("keep_data", False)} if data else {}
    return run.recipe | {"n_envs": run.description.get("n_envs", 1)} | recorded
