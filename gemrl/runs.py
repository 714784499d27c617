"""A run's folder: what was run, how it went, and the model that came out."""

from __future__ import annotations

import csv
import importlib.metadata
import json
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import gemrl
from gemrl.errors import ModelFileError, RunFolderError, unknown
from gemrl.progress import PROGRESS_COLUMNS, Progress
from gemrl.recipes import AnyRecipe
from gemrl.training import Moment

if TYPE_CHECKING:
    import os

    from gemrl.model import Model

EVALUATION_COLUMNS = ("step", "return_mean", "return_std", "length_mean", "estimation_error")

VERSIONED = ("jax", "jaxlib", "numpy", "gymnasium", "mujoco", "optax", "equinox")


def versions() -> dict[str, str]:
    """The versions of all that can change a result."""
    found = {"gemrl": gemrl.__version__, "python": platform.python_version(), "platform": platform.platform()}
    for name in VERSIONED:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def check_free(folder: Path) -> None:
    """Raises if the folder holds a run."""
    if (folder / "run.json").exists():
        raise RunFolderError(f"{folder} already holds a run; choose another folder with --run, or remove it")


def create(folder: Path, description: dict[str, Any]) -> None:
    """Makes the folder of a new run and writes its run.json."""
    from gemrl.saving import write_json

    check_free(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "run.json", description)
    except OSError as error:
        raise RunFolderError(f"cannot write to {folder}: {error.strerror or error}") from None


def describe(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The run.json of a run's folder."""
    file = Path(folder) / "run.json"
    try:
        description = json.loads(file.read_text())
        kinds = {"algo": str, "env": str, "seed": int}
        if not isinstance(description, dict) or not all(isinstance(description.get(k), v) for k, v in kinds.items()):
            raise ValueError
    except OSError:
        raise RunFolderError(f"{folder} is not a run's folder: it has no run.json") from None
    except ValueError:
        raise RunFolderError(f"{file} is damaged: it does not describe a run") from None
    return description


def load(path: str | os.PathLike[str], env: Any = None, *, device: str = "auto") -> Model:
    """The trained model in a run's folder, or the saved model of any algorithm at `path`."""
    from gemrl.models import MODELS
    from gemrl.saving import load_header

    if Path(path).is_dir():
        describe(path)
        path = Path(path) / "model"
        if not path.with_suffix(".json").exists():
            raise RunFolderError(f"{path.parent} holds no trained model: its run did not get to save one")
    algo = load_header(path).get("algo")
    if not isinstance(algo, str):
        raise ModelFileError(f"the JSON of {path} is damaged: it names no algorithm")
    if algo not in MODELS:
        raise unknown("algorithm", algo, MODELS)
    return MODELS[algo].load(path, env, device=device)


def read_evaluations(folder: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The columns of evaluations.csv."""
    with (Path(folder) / "evaluations.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name]) for row in rows]) for name in EVALUATION_COLUMNS}


class Recorder:
    """Writes evaluations.csv and progress.csv while a run goes on."""

    def __init__(self, folder: Path, recipe: AnyRecipe, *, every: int = 1000) -> None:
        self._progress, self._every, self._next = Progress(recipe), every, every
        self._files = [(folder / name).open("w", newline="") for name in ("evaluations.csv", "progress.csv")]
        self._evaluations = csv.writer(self._files[0], lineterminator="\n")
        self._lines = csv.DictWriter(self._files[1], PROGRESS_COLUMNS, lineterminator="\n", restval="")
        self._evaluations.writerow(EVALUATION_COLUMNS)
        self._lines.writeheader()

    def __call__(self, moment: Moment) -> dict[str, float] | None:
        """Takes note of a moment; the line it wrote to progress.csv, if it did."""
        self._progress.note(moment)
        if moment.evaluation:
            numbers = (getattr(moment.evaluation, name) for name in EVALUATION_COLUMNS[1:])
            self._evaluations.writerow([moment.step, *(repr(number) for number in numbers)])
        elif moment.step < self._next:
            return None
        self._next = moment.step - moment.step % self._every + self._every
        line = self._progress.line(moment.step, moment.evaluation)
        self._lines.writerow(line)
        for file in self._files:
            file.flush()
        return line

    def close(self) -> None:
        """Closes both files."""
        for file in self._files:
            file.close()
