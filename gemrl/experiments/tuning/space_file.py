"""A user's own search space: a TOML file with one table per field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gemrl.algorithms.search_spaces import Choice, Parameter, Range
from gemrl.core.exceptions import BadValue
from gemrl.core.suggestions import unknown
from gemrl.core.toml import read_toml

KEYS = ("low", "high", "log", "choices")


def read_space(file: Path) -> dict[str, Parameter]:
    """The search space in a TOML file. The names of its fields are checked when the recipe is known."""
    content = read_toml(file)
    if not content:
        raise BadValue(f"{file} names no field; add one, such as [learning_rate] with low, high and log = true")
    return {name: _parameter(f"{name} in {file}", values) for name, values in content.items()}


def _parameter(what: str, values: Any) -> Parameter:
    """The values of a field; `what` names it in error messages."""
    if not isinstance(values, dict):
        raise BadValue(f"{what} must be a table with low and high, or with choices")
    for key in values:
        if key not in KEYS:
            raise unknown(f"key of {what}:", key, KEYS, f"; known: {', '.join(KEYS)}")
    if set(values) not in ({"low", "high"}, {"low", "high", "log"}, {"choices"}):
        raise BadValue(f"{what} must have low and high (and may have log), or choices")
    if not isinstance(values.get("log", False), bool) or not isinstance(values.get("choices", []), list):
        raise BadValue(f"{what}: log must be true or false, and choices a list")
    try:
        if "choices" in values:
            return Choice(tuple(tuple(value) if isinstance(value, list) else value for value in values["choices"]))
        return Range(values["low"], values["high"], values.get("log", False))
    except BadValue as error:
        raise BadValue(f"{what}: {error}") from None
