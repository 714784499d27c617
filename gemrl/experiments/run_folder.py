"""A run folder: its description (run.json), its results and its trained model. The only reader and writer of run.json."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gemrl.algorithms.registry import AnyRecipe, recipe
from gemrl.core.exceptions import GemrlError, MissingFile, ModelFileError, RunFolderError
from gemrl.core.files import check_digest, digest_of, read_json, read_sealed, write_json, write_sealed
from gemrl.core.reading import exists
from gemrl.core.threads import check_flags
from gemrl.experiments import schemas
from gemrl.experiments.run_logs import LOGS
from gemrl.experiments.versions import VERSIONED, versions
from gemrl.training.model_files import ModelFiles

RUN_FILE = "run.json"

BEST_FILES = ("best.safetensors", "best.json")
"""The model of a run's best evaluation; the last file has the checksum of the other."""

MODELS = ("model.safetensors", "model.json", *BEST_FILES)
"""The trained model of a run, and that of its best evaluation."""


def holds_run(folder: Path) -> bool:
    """Whether the folder contains a run."""
    return exists(folder / RUN_FILE)


def check_free(folder: Path) -> None:
    """Raises RunFolderError if the folder contains a run."""
    if holds_run(folder):
        steps = describe(folder).get("steps")
        if steps and not finished(folder, steps):
            raise RunFolderError(f"{folder} contains a run that is not finished; continue it with: gemrl resume {folder}")
        raise RunFolderError(f"{folder} already contains a run; choose another folder with --run, or remove it")


def create(folder: Path, description: dict[str, Any]) -> None:
    """Writes the run.json of a new run."""
    check_free(folder)
    try:
        write_json(folder / RUN_FILE, description, schemas.RUN_FILE)
    except OSError as error:
        raise RunFolderError(f"cannot write to {folder}: {error.strerror or error}") from None


def forget(folder: Path) -> None:
    """Removes the files of a run that did not take a step."""
    for name in (RUN_FILE, *MODELS, *LOGS):
        (folder / name).unlink(missing_ok=True)


def describe(folder: str | os.PathLike[str], *, links: bool = True) -> dict[str, Any]:
    """The description of a run: the content of run.json. Without `links`, run.json must not be a link."""
    file = Path(folder) / RUN_FILE
    try:
        return read_json(file, schemas.RUN_FILE, links=links)
    except MissingFile:
        raise RunFolderError(f"{folder} is not a run folder: it has no run.json") from None
    except ModelFileError as error:
        raise RunFolderError(str(error)) from None


def check_resumable(folder: Path, description: dict[str, Any], *, other_versions: bool) -> None:
    """Raises RunFolderError if the description of a run is incomplete, or names other versions of packages."""
    missing = [name for name in schemas.RESUMED if name not in description]
    if missing:
        raise RunFolderError(f"{folder} cannot be resumed: {missing[0]} in run.json is missing")
    check_flags(description.get("xla_flags", ""))
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
        write_json(folder / RUN_FILE, description | {"steps": steps}, schemas.RUN_FILE)


def finished(folder: Path, steps: int) -> bool:
    """Whether a run has taken all its steps and left its model, or its sealed results."""
    if exists(folder / SEALED):
        return _sealed_steps(folder) >= steps
    try:
        return bool(ModelFiles(folder / "model").read_header().get("num_timesteps", 0) >= steps)
    except ModelFileError:
        return False


SEALED = "finished.json"
"""Marks a run as finished whose model was removed, with checksums of its results."""


def seal_results(folder: Path) -> None:
    """Marks a run as finished, so that its results count without its model."""
    if not exists(folder / SEALED):
        digests = {name: digest_of(folder / name) for name in LOGS}
        write_sealed(folder / SEALED, {"format": 1, "steps": describe(folder)["steps"], "sha256": digests}, schemas.FINISHED_FILE)


def _sealed_steps(folder: Path) -> int:
    """The number of steps of a run whose results were sealed. Raises ModelFileError if they have changed."""
    sealed = read_sealed(folder / SEALED, 1, schemas.FINISHED_FILE)
    for name in LOGS:
        check_digest(folder / name, sealed["sha256"].get(name))
    steps: int = sealed["steps"]
    return steps
