"""The only reader and writer of tune.json and trials.json. Both are plain JSON: whoever reads a search needs no Optuna."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gemrl.core.exceptions import MissingFile, ModelFileError, RunFolderError
from gemrl.core.files import read_json, write_json
from gemrl.experiments import schemas
from gemrl.experiments.description import env_title

TUNE_FILE, TRIALS_FILE = "tune.json", "trials.json"

TRIALS = "trials"
"""The folder of a search that contains the runs of its trials."""

FORMAT = 1
"""Version of both files."""


class TrialRow(NamedTuple):
    """A trial: its number, how it ended, its score and its settings, as `--set` takes them."""

    number: int
    state: str
    score: float | None
    settings: dict[str, str]
    step: int = 0
    """The step of its last evaluation."""
    reason: str = ""
    """Why it failed."""


class SearchResults(NamedTuple):
    """A search as its files describe it."""

    description: dict[str, Any]
    trials: list[TrialRow]
    importance: dict[str, float]
    """The share of each field in the difference between good and bad trials; {} if there are too few of them."""

    @property
    def ranked(self) -> list[TrialRow]:
        """The complete trials, best first."""
        return ranked(self.trials)


def ranked(trials: Sequence[TrialRow]) -> list[TrialRow]:
    """The complete trials, best first; of equal ones, the earliest."""
    complete = [trial for trial in trials if trial.state == "complete" and trial.score is not None]
    return sorted(complete, key=lambda trial: (-(trial.score or 0.0), trial.number))


def read_description(folder: Path) -> dict[str, Any]:
    """The content of tune.json, or {} if the folder has none. Raises RunFolderError if it is damaged."""
    try:
        return read_json(folder / TUNE_FILE, schemas.TUNE_FILE, links=False)
    except MissingFile:
        return {}
    except ModelFileError as error:
        raise RunFolderError(str(error)) from None


def read_search(folder: Path) -> SearchResults:
    """The search in a folder. Raises RunFolderError if there is none or it is damaged."""
    description = read_description(folder)
    if not description:
        raise RunFolderError(f"{folder} contains no search: it has no {TUNE_FILE}; create one with `gemrl tune`")
    try:
        content = read_json(folder / TRIALS_FILE, schemas.TRIALS_FILE, links=False)
    except MissingFile:
        return SearchResults(description, [], {})
    except ModelFileError as error:
        raise RunFolderError(str(error)) from None
    return SearchResults(description, [TrialRow(**row) for row in content["trials"]], content["importance"])


def write_description(folder: Path, content: Mapping[str, Any]) -> None:
    """Writes tune.json."""
    write_json(folder / TUNE_FILE, {"format": FORMAT, **content}, schemas.TUNE_FILE)


def write_trials(folder: Path, trials: Sequence[TrialRow], importance: Mapping[str, float]) -> None:
    """Writes trials.json."""
    content = {"format": FORMAT, "trials": [trial._asdict() for trial in trials], "importance": dict(importance)}
    write_json(folder / TRIALS_FILE, content, schemas.TRIALS_FILE)


class Tuned(NamedTuple):
    """What `gemrl train --from-tune` takes from a search."""

    algo: str
    settings: tuple[str, ...]
    env_args: dict[str, Any]
    trial: TrialRow


def tuned(folder: Path, env: str, env_args: Mapping[str, Any], algos: Sequence[str]) -> Tuned:
    """The best trial of a search. Raises RunFolderError if it has none, or was for another environment or algorithm.

    Without `env_args`, those of the search are used; without `algos`, any algorithm will do.
    """
    found = read_search(folder)
    about = found.description
    wanted = {"env": env, "env_args": env_args or about["env_args"]}
    if wanted != {"env": about["env"], "env_args": about["env_args"]}:
        raise RunFolderError(f"{folder} is a search for {env_title(about)}, not for {env_title(wanted)}")
    if algos and about["algo"] not in algos:
        raise RunFolderError(f"{folder} is a search for {about['algo']}, not for {algos[0]}; leave --algo out")
    if not found.ranked:
        raise RunFolderError(f"{folder} has no finished trial yet; continue the search with `gemrl tune`")
    best = found.ranked[0]
    settings = (*about["settings"], *(f"{name}={text}" for name, text in best.settings.items()))
    return Tuned(about["algo"], settings, about["env_args"], best)
