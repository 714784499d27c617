"""Hyperparameter searches below a folder, read from their JSON files. Optuna and its database are not touched."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from gemrl.core.exceptions import RunFolderError
from gemrl.experiments.description import env_title
from gemrl.experiments.tuning.files import SearchResults, TrialRow, read_search


class FoundSearch(NamedTuple):
    """A search and the folder it was found in."""

    folder: Path
    results: SearchResults


def read_searches(folders: Iterable[Path]) -> tuple[list[FoundSearch], list[str]]:
    """The searches in these folders, and the reasons why some could not be read."""
    found, unreadable = [], []
    for folder in folders:
        try:
            found.append(FoundSearch(folder, read_search(folder)))
        except RunFolderError as error:
            unreadable.append(" ".join(str(error).split()))
    return found, unreadable


def search_record(found: FoundSearch, root: Path) -> dict[str, Any]:
    """A search as the page shows it: its trials by number, the best score so far, and the importance of each field."""
    about, trials = found.results.description, sorted(found.results.trials)
    return {
        "title": f"{about['algo']} on {env_title(about)}",
        "folder": found.folder.relative_to(root).as_posix(),
        "steps": about["steps"],
        "seeds": len(about["seeds"]),
        "sampler": about["sampler"],
        "pruner": about["pruner"],
        "fields": list(about["space"]),
        "trials": [{**trial._asdict(), "settings": _values(trial)} for trial in trials],
        "best": best_so_far(trials),
        "importance": [{"field": name, "share": share} for name, share in found.results.importance.items()],
    }


def best_so_far(trials: list[TrialRow]) -> list[float | None]:
    """The best score of the complete trials up to each one; None before the first of them."""
    best: float | None = None
    found = []
    for trial in trials:
        if trial.state == "complete" and trial.score is not None:
            best = trial.score if best is None else max(best, trial.score)
        found.append(best)
    return found


def _values(trial: TrialRow) -> dict[str, Any]:
    """The settings of a trial: numbers as numbers, so that a table sorts them, all else as text."""
    found: dict[str, Any] = {}
    for name, text in trial.settings.items():
        try:
            found[name] = float(text)
        except ValueError:
            found[name] = text
    return found
