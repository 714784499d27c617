"""The only reader and writer of study.json, which describes a study in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gemrl.core.exceptions import ModelFileError, RunFolderError
from gemrl.core.files import read_json, write_json

STUDY_FILE = "study.json"

FORMAT = 1
"""Version of the file."""

FOR_REPORTS: dict[str, type] = {"name": str, "title": str, "algos": dict, "envs": list}
"""What a report needs, with types."""

FOR_STUDIES: dict[str, type] = {
    **dict.fromkeys(("algos", "recipes"), dict),
    **dict.fromkeys(("envs", "seeds", "settings"), list),
    **dict.fromkeys(("steps", "eval_every", "eval_episodes"), int),
    "name": str,
}
"""What a study needs to continue, with types."""


def read_study_file(folder: Path, *, strict: bool) -> dict[str, Any]:
    """The content of study.json, or {} if the folder has none.

    A damaged file raises RunFolderError if `strict`. Otherwise, as for reports, it counts as none.
    """
    file = folder / STUDY_FILE
    if strict and not file.exists():
        return {}
    try:
        content = read_json(file)
        if not (_is_complete(content) if strict else _has_types(content, FOR_REPORTS)):
            raise ModelFileError(f"{file} does not describe a study")
    except ModelFileError:
        if not strict:
            return {}
        raise RunFolderError(
            f"{file} is damaged: it does not describe a study; remove it (the runs next to it are kept)"
        ) from None
    return content


def write_study_file(folder: Path, content: Mapping[str, Any]) -> None:
    """Writes study.json; creates the folder if needed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / STUDY_FILE, {"format": FORMAT, **content})
    except OSError as error:
        raise RunFolderError(f"cannot write to {folder}: {error.strerror or error}") from None


def _is_complete(content: Mapping[str, Any]) -> bool:
    """Whether a study can continue from this content."""
    if content.get("format") != FORMAT or not _has_types(content, FOR_STUDIES):
        return False
    return all(isinstance(recipes, dict) for recipes in content["recipes"].values())


def _has_types(content: Mapping[str, Any], types: Mapping[str, type]) -> bool:
    return all(isinstance(content.get(name), expected) for name, expected in types.items())
