"""A run's folder: what was run, how it went, and the model that came out."""

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


def check_free(folder: Path) -> None:
    """Raises if the folder holds a run."""
    if (folder / "run.json").exists():
        steps = describe(folder).get("steps")
        if isinstance(steps, int) and not finished(folder, steps):
            raise RunFolderError(f"{folder} holds a run that is not finished; go on with: gemrl resume {folder}")
        raise RunFolderError(f"{folder} already holds a run; choose another folder with --run, or remove it")


def create(folder: Path, description: dict[str, Any]) -> None:
    """Writes the run.json of a new run."""
    check_free(folder)
    try:
        write_json(folder / "run.json", description)
    except OSError as error:
        raise RunFolderError(f"cannot write to {folder}: {error.strerror or error}") from None


def forget(folder: Path) -> None:
    """Removes a run that did not get to take a step."""
    for name in ("run.json", "model.json", "model.safetensors", *LOGS):
        (folder / name).unlink(missing_ok=True)


def describe(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The run.json of a run's folder."""
    file = Path(folder) / "run.json"
    try:
        description = json.loads(file.read_text())
        kinds = {"algo": str, "env": str, "seed": int}
        if not isinstance(description, dict) or not all(isinstance(description.get(k), v) for k, v in kinds.items()):
            raise ValueError
    except (FileNotFoundError, NotADirectoryError):
        raise RunFolderError(f"{folder} is not a run's folder: it has no run.json") from None
    except OSError as error:
        raise RunFolderError(f"cannot read {file}: {error.strerror or error}") from None
    except ValueError:
        raise RunFolderError(f"{file} is damaged: it does not describe a run") from None
    return description


def check_resumable(folder: Path, description: dict[str, Any], *, other_versions: bool) -> None:
    """Raises if the description of a run lacks what going on needs, or was made with other versions."""
    kinds: dict[str, Any] = {"steps": int, "eval_every": int, "eval_episodes": int, "n_envs": int, "tensorboard": bool}
    kinds |= {"recipe": dict, "versions": dict, "device": str, "checkpoint_every": (int, NoneType), "env_timeout": int}
    told = {"env_timeout": ENV_TIMEOUT} | description  # runs of old do not say
    wrong = [name for name, kind in kinds.items() if not isinstance(told.get(name, ...), kind)]
    if wrong:
        raise RunFolderError(f"{folder}/run.json cannot be resumed: its {wrong[0]} is missing or of another kind")
    before, now = description["versions"], versions()
    names = [name for name in ("gemrl", *VERSIONED) if name in before and before[name] != now.get(name)]
    changed = [f"{name} {before.get(name)} (now {now.get(name)})" for name in names]
    if changed and not other_versions:
        instead = f"`gemrl resume {folder} --other-versions` goes on, but not to the same bits"
        raise RunFolderError(f"{folder} was made with {', '.join(changed)}; {instead}")


def recipe_of(description: Mapping[str, Any]) -> AnyRecipe:
    """The recipe that the description of a run holds."""
    fields = description.get("recipe")
    if not isinstance(fields, dict):
        raise RunFolderError(f"the run.json of this {description['algo']} run holds no recipe")
    return type(recipe(description["algo"])).from_dict(fields)


def recipe_fields(description: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a run's recipe as JSON has them; one that is newer than the run has the value that it always had."""
    try:
        return as_json(recipe_of(description))
    except GemrlError:
        fields = description.get("recipe")
        return fields if isinstance(fields, dict) else {}


def as_json(chosen: AnyRecipe) -> dict[str, Any]:
    """The fields of a recipe as run.json holds them."""
    fields: dict[str, Any] = json.loads(json.dumps(chosen.as_dict()))
    return fields


def extend(folder: Path, steps: int) -> None:
    """Makes the run's folder one of a run of so many steps."""
    description = describe(folder)
    if steps != description["steps"]:
        write_json(folder / "run.json", description | {"steps": steps})


def finished(folder: Path, steps: int) -> bool:
    """Whether a run of so many steps came to its end and left its model, or its sealed results."""
    if (folder / SEALED).exists():
        return _sealed_steps(folder) >= steps
    try:
        return bool(ModelFiles(folder / "model").read_header().get("num_timesteps", 0) >= steps)
    except ModelFileError:
        return False


SEALED = "finished.json"
"""Says of a finished run without its model that it is finished, with checksums of the results."""


def seal_results(folder: Path) -> None:
    """Writes down that a run is finished, so that its results count without its model."""
    if not (folder / SEALED).exists():
        digests = {name: digest_of(folder / name) for name in LOGS}
        write_sealed(folder / SEALED, {"format": 1, "steps": describe(folder)["steps"], "sha256": digests})


def _sealed_steps(folder: Path) -> int:
    """The steps of a run whose results were sealed and are unaltered."""
    sealed = read_sealed(folder / SEALED, 1)
    digests, steps = sealed.get("sha256"), sealed.get("steps")
    if not isinstance(digests, dict) or not isinstance(steps, int):
        raise ModelFileError(f"{folder / SEALED} is damaged: it describes no results")
    for name in LOGS:
        check_digest(folder / name, digests.get(name))
    return steps
