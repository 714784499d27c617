"""Parts of recipes: small frozen dataclasses, registered by name so that `--set` and saved files can refer to them."""

from __future__ import annotations

from typing import TypeVar

from gemrl.core.exceptions import BadValue

Kind = TypeVar("Kind", bound=type)

PARTS: dict[str, type] = {}
"""Every part class by its name."""


def part(cls: Kind) -> Kind:
    """A decorator that registers a frozen dataclass as a part. Defining the same class again, as in a notebook, replaces it."""
    known = PARTS.get(cls.__name__, cls)
    if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise BadValue(f"a part named {cls.__name__} already exists in {known.__module__}; choose another name")
    PARTS[cls.__name__] = cls
    return cls


def parts_of(*bases: type) -> dict[str, type]:
    """The registered parts with one of these base classes, by name."""
    return {name: cls for name, cls in PARTS.items() if issubclass(cls, bases)}
