"""What every recipe can do, whatever its family: be checked, changed by name, compared, and written as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from gemrl.core.exceptions import BadValue, UnknownName
from gemrl.core.literals import parse_literal, parse_part
from gemrl.core.suggestions import unknown
from gemrl.core.validation import check_number

INFINITY = float("inf")
LIST_THEM = "; `gemrl algos --fields` lists the fields of each"
ELSEWHERE = {
    "policy_kwargs": "net_arch and the like, fields of their own",
    "action_noise": "exploration_noise, in units of actions in [-1, 1]",
    "n_steps": "depth",
    "exploration_fraction": "exploration_steps, in steps of the environment",
    "exploration_initial_eps": "always 1",
    "ent_coef": "learnt, towards the entropy that target_entropy_scale sets",
    "target_entropy": "target_entropy_scale, a factor of minus the number of actions",
}
"""Keywords of Stable-Baselines3 that mean something here under another name."""


def number(default: float, doc: str, low: float = 1, high: float = INFINITY) -> Any:
    """A field that holds a number from low to high; a whole one if its default is."""
    return dataclasses.field(default=default, metadata={"doc": doc, "low": low, "high": high})


def choice(default: Any, doc: str, *kinds: type) -> Any:
    """A field that holds a value, often a part, of one of these kinds."""
    return dataclasses.field(default=default, metadata={"doc": doc, "kinds": kinds})


def falling(step: int, begins: int, steps: int, first: float, last: float) -> float:
    """A share that falls in a straight line from first to last, over so many steps from step `begins` on."""
    return first + min(max((step - begins) / steps, 0.0), 1.0) * (last - first)


def count_weights(inputs: int, widths: Sequence[int]) -> int:
    """Weights of a perceptron's hidden layers."""
    return sum(first * second for first, second in pairwise((inputs, *widths)))


@dataclasses.dataclass(frozen=True)
class Settings:
    """Base of the recipes: named fields, some of which hold parts with fields of their own."""

    parts: ClassVar[Mapping[str, type]] = {}
    """Every kind of part that a text may spell."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = _plain(getattr(self, field.name))
            object.__setattr__(self, field.name, value)
            _check(field, value)

    def but(self, **changes: Any) -> Self:
        """The same recipe with some fields changed; `depth`, `alpha` and the like reach into its parts."""
        values = vars(self).copy()
        for name, value in changes.items():
            _change(values, name, value)
        return type(self)(**values)

    def but_from_text(self, changes: Iterable[tuple[str, str]]) -> Self:
        """The same recipe with fields changed to what texts spell: a part where the field holds one, else a literal."""
        values = vars(self).copy()
        for name, text in changes:
            present = _settable(values)
            if name not in present:
                raise _unknown(name, present)
            _change(values, name, self._parsed(name, text, part=dataclasses.is_dataclass(present[name])))
        return type(self)(**values)

    def _parsed(self, name: str, text: str, *, part: bool) -> Any:
        try:
            return parse_part(text, self.parts) if part else parse_literal(text)
        except UnknownName:
            raise
        except BadValue as error:
            raise BadValue(f"{name}: {error}") from None

    def warning(self, steps: int) -> str:
        """What to say before a training of so many steps, if all of them are warm-up."""
        starts: int = getattr(self, "learning_starts", 0)
        return (
            f"nothing is learnt in {steps:,} steps: learning_starts is {starts:,}; set a smaller one" if steps <= starts else ""
        )

    def settable(self) -> dict[str, Any]:
        """All names that `but` takes, with their present values."""
        return _settable(vars(self))

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON values; a part is written as the Python that makes it, such as "Asymmetric(alpha=0.25)"."""
        return {name: repr(value) if dataclasses.is_dataclass(value) else value for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The recipe that `as_dict` wrote. Nothing is evaluated."""
        texts = [(name, value if isinstance(value, str) else repr(value)) for name, value in values.items()]
        return cls().but_from_text(texts)


def _unknown(name: str, present: Iterable[str]) -> UnknownName:
    """The error for a field that is not there."""
    if name in ELSEWHERE:
        return UnknownName(f"unknown field {name!r}: here it is {ELSEWHERE[name]}")
    if any(name in kind().settable() for kind in Settings.__subclasses__()):
        return UnknownName(f"{name} is a field of other algorithms, not of this one{LIST_THEM}")
    return unknown("field", name, present, LIST_THEM)


def _settable(values: Mapping[str, Any]) -> dict[str, Any]:
    inner = {name: value for part in values.values() for name, value in _inner(part).items()}
    return inner | dict(values)


def _change(values: dict[str, Any], name: str, value: Any) -> None:
    """Changes the field `name`, or the field of a part that has this name, in the values of a recipe."""
    place = next((place for place in values if name == place or name in _inner(values[place])), None)
    if place is None:
        raise _unknown(name, _settable(values))
    value = _as_meant(_settable(values)[name], _plain(value))
    values[place] = value if name == place else _replaced(values[place], name, value)


def _as_meant(present: Any, value: Any) -> Any:
    """A value as its field holds it: 1e5 is a whole number where one is wanted, and a single width is a network of one layer."""
    if type(present) is int and isinstance(value, float) and value.is_integer():
        return int(value)
    return (value,) if isinstance(present, tuple) and type(value) is int else value


def _plain(value: Any) -> Any:
    """A value as JSON can hold it: numbers of numpy's as Python's own, lists as the tuples they stand for."""
    if isinstance(value, (list, tuple)):
        return tuple(_plain(one) for one in value)
    return value.item() if isinstance(value, np.generic) else value


def _inner(part: Any) -> dict[str, Any]:
    """The fields of a part and of its own parts, by name; `depth` is whatever caps its rollouts."""
    if not dataclasses.is_dataclass(part):
        return {}
    own = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    cap = {"depth": own[part.cap]} if hasattr(part, "cap") else {}
    deeper = {name: value for inner in own.values() for name, value in _inner(inner).items()}
    return deeper | cap | own


def _replaced(part: Any, name: str, value: Any) -> Any:
    """The part with the field `name` of its own, or of a part of its own, changed."""
    name = getattr(part, "cap", name) if name == "depth" else name
    own = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    if name in own:
        return dataclasses.replace(part, **{name: value})
    place = next(place for place in own if name in _inner(own[place]))
    return dataclasses.replace(part, **{place: _replaced(own[place], name, value)})


def _check(field: dataclasses.Field[Any], value: Any) -> None:
    """Raises unless `value` is of the field's kind and in its range."""
    kinds = field.metadata.get("kinds")
    if kinds is None:
        check_number(field.name, value, field.metadata["low"], field.metadata["high"], whole=isinstance(field.default, int))
    elif type(value) not in kinds:
        names = "True or False" if kinds == (bool,) else " or ".join(kind.__name__ for kind in kinds)
        raise BadValue(f"{field.name} must be {names}, not {value!r}")
    elif kinds == (tuple,):
        if not value:
            raise BadValue(f"{field.name} must name at least one width, such as (400, 300)")
        for width in value:
            check_number(f"a width in {field.name}", width, 1, whole=True)
