"""The numbers of a recipe that compiled programs take as arguments, so that recipes that differ only in these share programs.

These are all real numbers of the recipe, and those of its parts that a part names in `arguments`. A number that is 0 stays a
constant, because it often turns something off, which makes another program.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

Part = TypeVar("Part")

PLACEHOLDER = -1.0
"""Stands where a number is an argument."""


def numbers_of(recipe: Any) -> dict[str, float]:
    """The numbers that are arguments, by the names of their fields, such as "tau" and "targets.planner.margin"."""
    found: dict[str, float] = {}
    for field in dataclasses.fields(recipe):
        value = getattr(recipe, field.name)
        found |= {field.name: value} if isinstance(field.default, float) else {}
        found |= {f"{field.name}.{name}": number for name, number in _numbers_of_part(value).items()}
    return {name: float(value) for name, value in found.items() if value}


def _numbers_of_part(part: Any) -> dict[str, float]:
    if not dataclasses.is_dataclass(part):
        return {}
    found = {name: getattr(part, name) for name in getattr(part, "arguments", ())}
    for field in dataclasses.fields(part):
        found |= {f"{field.name}.{name}": value for name, value in _numbers_of_part(getattr(part, field.name)).items()}
    return found


def with_numbers(part: Part, numbers: Mapping[str, Any]) -> Part:
    """The recipe or part with these numbers, which are not checked: they may be arguments of a program that is being compiled."""
    changed = object.__new__(type(part))
    for name, value in vars(part).items():
        inner = {path.removeprefix(f"{name}."): number for path, number in numbers.items() if path.startswith(f"{name}.")}
        object.__setattr__(changed, name, numbers[name] if name in numbers else with_numbers(value, inner) if inner else value)
    return changed


def shape_of(recipe: Part) -> Part:
    """The recipe with placeholders in place of these numbers: recipes with the same shape share their programs."""
    return with_numbers(recipe, dict.fromkeys(numbers_of(recipe), PLACEHOLDER))


def is_zero(number: Any) -> bool:
    """Whether a number of a recipe is 0; one that is an argument is not."""
    return isinstance(number, (int, float)) and number == 0
