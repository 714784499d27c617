"""A user's own study: a TOML file with the fields of Study."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gemrl.core.exceptions import BadValue
from gemrl.core.suggestions import unknown
from gemrl.core.text import short_repr
from gemrl.core.toml import read_toml
from gemrl.experiments.studies.study import Study, first_seeds

TYPES: dict[str, type] = {field.name: str for field in dataclasses.fields(Study)} | {
    **dict.fromkeys(("algos", "envs", "seeds", "settings", "env_args"), list),
    **dict.fromkeys(("steps", "eval_every", "eval_episodes"), int),
}
"""The TOML type of each field of a study."""


def read_study(file: Path) -> Study:
    """The study in a TOML file. Its name is the file's name by default."""
    content = read_toml(file)
    if isinstance(content.get("seeds"), int) and not isinstance(content["seeds"], bool):
        content["seeds"] = list(first_seeds(content["seeds"]))
    for name, value in content.items():
        if name not in TYPES:
            raise unknown(f"field in {file}:", name, TYPES, f"; known: {', '.join(TYPES)}")
        _check_type(f"{name} in {file}", value, TYPES[name], int if name == "seeds" else str)
    missing = [name for name in ("algos", "envs") if name not in content]
    if missing:
        raise BadValue(f"{file} must set {missing[0]}")
    values: dict[str, Any] = {"name": file.stem, "title": file.stem}
    values |= {name: tuple(value) if isinstance(value, list) else value for name, value in content.items()}
    return Study(**values)


def _check_type(what: str, value: Any, expected: type, item_type: type) -> None:
    """Raises BadValue if a value is not of the expected type, or a list whose items are not of `item_type`."""
    lists = "a whole number or a list of them" if item_type is int else "a list of strings"
    expectation = {str: "a string", int: "a whole number", list: lists}[expected]
    items: Sequence[Any] = value if isinstance(value, list) else []
    valid = all(isinstance(item, item_type) and not isinstance(item, bool) for item in items)
    negative = item_type is int and valid and any(item < 0 for item in items)
    if isinstance(value, bool) or not isinstance(value, expected) or not valid or negative:
        raise BadValue(f"{what} must be {expectation}, not {short_repr(value)}")
