"""A run's folder: what was run, how it went, and the model that came out."""

from __future__ import annotations

import csv
import importlib.metadata
import json
import platform
from collections import deque
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

import gemrl
from gemrl.errors import ModelFileError, RunFolderError, unknown
from gemrl.evaluation import Evaluation
from gemrl.training import Moment

if TYPE_CHECKING:
    import os

    from gemrl.models import Model

EVALUATION_COLUMNS = ("step", "return_mean", "return_std", "length_mean", "estimation_error")

PROGRESS_COLUMNS = (
    "time/total_timesteps",
    "time/episodes",
    "time/time_elapsed",
    "time/fps",
    "rollout/ep_rew_mean",
    "rollout/ep_len_mean",
    "train/n_updates",
    "train/learning_rate",
    "train/critic_loss",
    "train/actor_loss",
    "train/ent_coef",
    "eval/mean_reward",
    "eval/mean_ep_length",
    "eval/capped_episodes",
)
"""Named as Stable-Baselines3 names them, where it has them."""

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
        if not isinstance(description, dict) or not {"algo", "env", "seed"} <= description.keys():
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

    def __init__(self, folder: Path, model: Model, *, every: int = 1000) -> None:
        self._model, self._every = model, every
        self._started = monotonic()
        self._finished: deque[Any] = deque(maxlen=100)
        self._episodes = self._rounds = 0
        self._losses: dict[str, float] = {}
        self._next = every
        self._evaluations = (folder / "evaluations.csv").open("w", newline="")
        self._progress = (folder / "progress.csv").open("w", newline="")
        self._evaluation_rows = csv.writer(self._evaluations, lineterminator="\n")
        self._progress_rows = csv.DictWriter(self._progress, PROGRESS_COLUMNS, lineterminator="\n", restval="")
        self._evaluation_rows.writerow(EVALUATION_COLUMNS)
        self._progress_rows.writeheader()

    def __call__(self, moment: Moment) -> dict[str, float] | None:
        """Takes note of a moment; the line it wrote to progress.csv, if it did."""
        ended = moment.taken.ended if moment.taken else []
        self._finished.extend(ended)
        self._episodes += len(ended)
        if moment.losses is not None:
            self._rounds += 1
            self._losses = moment.losses
        if moment.evaluation:
            result = moment.evaluation
            numbers = (getattr(result, name) for name in EVALUATION_COLUMNS[1:])
            self._evaluation_rows.writerow([moment.step, *(repr(number) for number in numbers)])
            self._evaluations.flush()
        if not moment.evaluation and moment.step < self._next:
            return None
        while self._next <= moment.step:
            self._next += self._every
        line = self._line(moment.step, moment.evaluation)
        self._progress_rows.writerow(line)
        self._progress.flush()
        return line

    def _line(self, step: int, evaluation: Evaluation | None) -> dict[str, float]:
        elapsed = monotonic() - self._started
        recipe = self._model.recipe
        line: dict[str, float] = {
            "time/total_timesteps": step,
            "time/episodes": self._episodes,
            "time/time_elapsed": round(elapsed, 3),
            "time/fps": round(step / max(elapsed, 1e-9), 1),
            "train/n_updates": self._rounds * recipe.gradient_steps,
            "train/learning_rate": recipe.learning_rate,
        }
        if self._finished:
            line["rollout/ep_rew_mean"] = float(np.mean([episode.total for episode in self._finished]))
            line["rollout/ep_len_mean"] = float(np.mean([episode.length for episode in self._finished]))
        line |= {f"train/{name}": value for name, value in self._losses.items()}
        if evaluation:
            line["eval/mean_reward"] = evaluation.return_mean
            line["eval/mean_ep_length"] = evaluation.length_mean
            line["eval/capped_episodes"] = evaluation.capped
        return line

    def close(self) -> None:
        """Closes both files."""
        self._evaluations.close()
        self._progress.close()
