"""The only reader and writer of study.json, which describes a study in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gemrl.core.exceptions import MissingFile, ModelFileError, RunFolderError
from gemrl.core.files import read_json, write_json
from gemrl.experiments import schemas

STUDY_FILE = "study.json"

FORMAT = 1
"""Version of the file."""

CONTINUED = ("format", "recipes", "seeds", "settings", "steps", "eval_every", "eval_episodes")
"""What a study needs to continue, in addition to what a report needs."""


def read_study_file(folder: Path, *, strict: bool) -> dict[str, Any]:
    """The content of study.json, or {} if the folder has none. Raises RunFolderError if it is damaged.

    If it is read to continue the study, and not only for a report, it must be complete (`strict`).
    """
    file = folder / STUDY_FILE
    try:
        content = read_json(file, schemas.STUDY_FILE, links=False)
    except MissingFile:
        return {}
    except ModelFileError as error:
        raise RunFolderError(f"{error}; remove it (the runs next to it are kept)") from None
    missing = [name for name in CONTINUED if name not in content]
    if strict and missing:
        raise RunFolderError(f"{file} is damaged: {missing[0]} is missing; remove it (the runs next to it are kept)")
    return content


def write_study_file(folder: Path, content: Mapping[str, Any]) -> None:
    """Writes study.json; creates the folder if needed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / STUDY_FILE, {"format": FORMAT, **content}, schemas.STUDY_FILE)
    except OSError as error:
        raise RunFolderError(f"cannot write to {folder}: {error.strerror or error}") from None
