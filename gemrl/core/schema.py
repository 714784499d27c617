"""Schemas of JSON files as data: which fields a file has, of which kinds and in which ranges.

One schema per file is checked when the file is read and before it is written: what can be written can be read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from gemrl.core.reading import JSON_BYTES, is_text
from gemrl.core.text import short_repr

MAX_STEPS = 10**15
"""The most steps of a run: more than a century at 100,000 steps a second."""

MAX_SEED = 2**32 - 1
"""The largest seed."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Kind(Protocol):
    """The values that a field may have."""

    def wrong(self, value: Any) -> str:
        """What is wrong with a value, to follow the name of its field; "" if nothing is."""


@dataclass(frozen=True)
class Whole:
    """An integer from `low` to `high`."""

    low: int = 0
    high: int = MAX_STEPS

    def wrong(self, value: Any) -> str:
        if type(value) is int and self.low <= value <= self.high:
            return ""
        return f" must be a whole number from {self.low:,} to {self.high:,}, not {shown(value)}"


@dataclass(frozen=True)
class Real:
    """A number; NaN and infinity only if it need not be `finite`."""

    finite: bool = True

    def wrong(self, value: Any) -> str:
        # An integer may be larger than any float, so it is compared and not converted.
        if isinstance(value, float) and (math.isfinite(value) or not self.finite):
            return ""
        fits = type(value) is int and abs(value) < 1 << 1000
        return "" if fits else f" must be a {'finite ' if self.finite else ''}number, not {shown(value)}"


@dataclass(frozen=True)
class Text:
    """A string without control characters, of at most `longest` characters; if there is a `pattern`, it matches it."""

    longest: int = 1000
    pattern: str = ""
    says: str = ""
    """What the pattern means, in words."""

    def wrong(self, value: Any) -> str:
        if not isinstance(value, str) or not value or len(value) > self.longest:
            return f" must be a string of 1 to {self.longest:,} characters, not {shown(value)}"
        if _CONTROL.search(value) or not is_text(value):
            return f" must not contain control characters: {shown(value)}"
        return "" if not self.pattern or re.fullmatch(self.pattern, value) else f" must be {self.says}, not {shown(value)}"


DIGEST = Text(64, "[0-9a-f]{64}", "a SHA-256")


@dataclass(frozen=True)
class AnyText:
    """Any string, such as the lines of a map."""

    longest: int = 100_000

    def wrong(self, value: Any) -> str:
        fits = isinstance(value, str) and len(value) <= self.longest
        return "" if fits else f" must be a string of at most {self.longest:,} characters, not {shown(value)}"


@dataclass(frozen=True)
class Flag:
    """True or False."""

    def wrong(self, value: Any) -> str:
        return "" if isinstance(value, bool) else f" must be true or false, not {shown(value)}"


@dataclass(frozen=True)
class Anything:
    """Any JSON value."""

    def wrong(self, value: Any) -> str:
        return ""


@dataclass(frozen=True)
class Nothing:
    """No value: the kind of fields that must not exist."""

    def wrong(self, value: Any) -> str:
        return " is not a field of this object"


@dataclass(frozen=True)
class Maybe:
    """A value of this kind, or null."""

    kind: Kind

    def wrong(self, value: Any) -> str:
        return "" if value is None else self.kind.wrong(value)


@dataclass(frozen=True)
class Items:
    """A list of values of one kind."""

    kind: Kind
    most: int = 1_000_000

    def wrong(self, value: Any) -> str:
        if not isinstance(value, list) or len(value) > self.most:
            return f" must be a list of at most {self.most:,} values, not {shown(value)}"
        return next((f"[{index}]{text}" for index, item in enumerate(value) if (text := self.kind.wrong(item))), "")


@dataclass(frozen=True)
class Pair:
    """A list of two values, each of its own kind."""

    first: Kind
    second: Kind

    def wrong(self, value: Any) -> str:
        if not isinstance(value, list) or len(value) != 2:
            return f" must be a list of two values, not {shown(value)}"
        return self.first.wrong(value[0]) or self.second.wrong(value[1])


@dataclass(frozen=True)
class Record:
    """An object with named fields. Those it must have are `needed`; a field that is not named has the kind `others`."""

    needed: Mapping[str, Kind] = field(default_factory=dict)
    optional: Mapping[str, Kind] = field(default_factory=dict)
    others: Kind = field(default_factory=Anything)
    names: Kind = Text(300)
    """What the name of a field may be."""

    def wrong(self, value: Any) -> str:
        if not isinstance(value, dict):
            return f" must be an object with fields, not {shown(value)}"
        for name in self.needed:
            if name not in value:
                return f".{name} is missing"
        known = {**self.needed, **self.optional}
        for name, inner in value.items():
            if text := self.names.wrong(name):
                return f": the name of a field{text}"
            if text := known.get(name, self.others).wrong(inner):
                return f".{name}{text}"
        return ""


@dataclass(frozen=True)
class FileKind:
    """A kind of JSON file: its name, what it contains and how large it may be."""

    name: str
    schema: Record
    limit: int = JSON_BYTES


ANY_JSON = FileKind("a JSON file", Record())
"""A JSON file without a schema, which gemrl does not read back."""


def problem(content: Any, schema: Record) -> str:
    """What is wrong with the content of a file, in one phrase; "" if it fits its schema."""
    return schema.wrong(content).removeprefix(".")


def shown(value: Any) -> str:
    """A value for an error message, short and without control characters."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    text = short_repr(value)
    return {"None": "null", "True": "true", "False": "false"}.get(text, text)
