"""A run folder: its description (run.json), its results and its trained model. The only reader and writer of run.json."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import Any

from gemrl.algorithms.registry import AnyRecipe, recipe
from gemrl.core.exceptions import GemrlError, ModelFileError, RunFolderError
from gemrl.core.files import check_digest, digest_of, read_sealed, write_json, write_sealed
from gemrl.core.processes import ENV_TIMEOUT
from gemrl.experiments.run_logs import LOGS
from gemrl.experiments.versions import VERSIONED, versions
from gemrl.training.model_files import ModelFiles

RUN_FILE = "run.json"


def holds_run(folder: Path) -> bool:
    """Whether the folder contains a run."""
    return (folder / RUN_FILE).exists()


def check_free(folder: Path) -> None:
    """Raises RunFolderError if the folder contains a run."""
    if holds_run(folder):
        steps = describe(folder).get("steps")
        if isinstance(steps, int) and not finished(folder, steps):
            raise RunFolderError(f"{folder} contains a run that is not finished; continue it with: gemrl resume {folder}")
        raise RunFolderError(f"{folder} already contains a run; choose another folder with --run, or remove it")


def create(folder: Path, description: dict[str, Any]) -> None:
    """Writes the run.json of a new run."""
    check_free(folder)
    try:
        write_json(folder / RUN_FILE, description)
    except OSError as error:
        raise RunFolderError(f"cannot write to {folder}: {error.strerror or error}") from None


def forget(folder: Path) -> None:
    """Removes the files of a run that did not take a step."""
    for name in (RUN_FILE, "model.json", "model.safetensors", *LOGS):
        (folder / name).unlink(missing_ok=True)


def describe(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The description of a run: the content of run.json."""
    file = Path(folder) / RUN_FILE
    try:
        description = json.loads(file.read_text())
        types = {"algo": str, "env": str, "seed": int}
        if not isinstance(description, dict) or not all(isinstance(description.get(k), v) for k, v in types.items()):
            raise ValueError
    except (FileNotFoundError, NotADirectoryError):
        raise RunFolderError(f"{folder} is not a run folder: it has no run.json") from None
    except OSError as error:
        raise RunFolderError(f"cannot read {file}: {error.strerror or error}") from None
    except ValueError:
        raise RunFolderError(f"{file} is damaged: it does not describe a run") from None
    return description


def check_resumable(folder: Path, description: dict[str, Any], *, other_versions: bool) -> None:
    """Raises RunFolderError if the description of a run is incomplete, or names other versions of packages."""
    types: dict[str, Any] = {"steps": int, "eval_every": int, "eval_episodes": int, "n_envs": int, "tensorboard": bool}
    types |= {"recipe": dict, "versions": dict, "device": str, "checkpoint_every": (int, NoneType), "env_timeout": int}
    values = {"env_timeout": ENV_TIMEOUT} | description  # older runs have none
    wrong = [name for name, expected in types.items() if not isinstance(values.get(name, ...), expected)]
    if wrong:
        raise RunFolderError(f"{folder} cannot be resumed: {wrong[0]} in run.json is missing or has the wrong type")
    before, now = description["versions"], versions()
    names = [name for name in ("gemrl", *VERSIONED) if name in before and before[name] != now.get(name)]
    changed = [f"{name} {before.get(name)} (now {now.get(name)})" for name in names]
    if changed and not other_versions:
        anyway = f"to continue anyway (results will not be bit-identical): gemrl resume {folder} --other-versions"
        raise RunFolderError(f"{folder} was started with {', '.join(changed)}; {anyway}")


def recipe_of(description: Mapping[str, Any]) -> AnyRecipe:
    """The recipe in the description of a run."""
    fields = description.get("recipe")
    if not isinstance(fields, dict):
        raise RunFolderError(f"run.json of this {description['algo']} run has no recipe")
    return type(recipe(description["algo"])).from_dict(fields)


def recipe_fields(description: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a run's recipe as JSON values. Fields that did not exist yet have the value that reproduces the run."""
    try:
        return as_json(recipe_of(description))
    except GemrlError:
        fields = description.get("recipe")
        return fields if isinstance(fields, dict) else {}


def as_json(chosen: AnyRecipe) -> dict[str, Any]:
    """The fields of a recipe as JSON values, as in run.json."""
    fields: dict[str, Any] = json.loads(json.dumps(chosen.as_dict()))
    return fields


def extend(folder: Path, steps: int) -> None:
    """Sets the number of steps in the description of a run."""
    description = describe(folder)
    if steps != description["steps"]:
        write_json(folder / RUN_FILE, description | {"steps": steps})


def finished(folder: Path, steps: int) -> bool:
    """Whether a run has taken all its steps and left its model, or its sealed results."""
    if (folder / SEALED).exists():
        return _sealed_steps(folder) >= steps
    try:
        return bool(ModelFiles(folder / "model").read_header().get("num_timesteps", 0) >= steps)
    except ModelFileError:
        return False


SEALED = "finished.json"
"""Marks a run as finished whose model was removed, with checksums of its results."""


def seal_results(folder: Path) -> None:
    """Marks a run as finished, so that its results count without its model."""
    if not (folder / SEALED).exists():
        digests = {name: digest_of(folder / name) for name in LOGS}
        write_sealed(folder / SEALED, {"format": 1, "steps": describe(folder)["steps"], "sha256": digests})


def _sealed_steps(folder: Path) -> int:
    """The number of steps of a run whose results were sealed. Raises ModelFileError if they have changed."""
    sealed = read_sealed(folder / SEALED, 1)
    digests, steps = sealed.get("sha256"), sealed.get("steps")
    if not isinstance(digests, dict) or not isinstance(steps, int):
        raise ModelFileError(f"{folder / SEALED} is damaged: it does not describe results")
    for name in LOGS:
        check_digest(folder / name, digests.get(name))
    return steps
