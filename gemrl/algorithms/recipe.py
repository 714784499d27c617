"""What every recipe can do, whatever its family: be checked, changed by field names, compared, and written as JSON."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

import numpy as np

from gemrl.algorithms.bodies import check_widths
from gemrl.algorithms.parts import PARTS, parts_of
from gemrl.core.exceptions import BadValue, UnknownName
from gemrl.core.layout import Layout
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
    """A field that holds a number from low to high; a whole number if its default is one."""
    return dataclasses.field(default=default, metadata={"doc": doc, "low": low, "high": high})


def choice(default: Any, doc: str, kind: type) -> Any:
    """A field that holds a bool, a tuple of widths, or a part of this kind."""
    return dataclasses.field(default=default, metadata={"doc": doc, "kind": kind})


def falling(step: int, begins: int, steps: int, first: float, last: float) -> float:
    """A fraction that falls linearly from first to last over so many steps, starting at step `begins`."""
    return first + min(max((step - begins) / steps, 0.0), 1.0) * (last - first)


@dataclasses.dataclass(frozen=True)
class BaseRecipe(ABC):
    """The interface of a recipe: named fields, some of which hold parts with fields of their own.

    What follows is all that other packages ask of a recipe, whatever its family.
    """

    family: ClassVar[str]
    """What all recipes of this class have in common, in a few words."""
    needs: ClassVar[str]
    """The observations and actions that it needs, in words."""

    gamma: float = number(0.99, "discount factor", 0, 1)

    @property
    def learning_starts(self) -> int:
        """Steps of random actions before any training."""
        return 0

    @property
    def gradient_steps(self) -> int:
        """Gradient steps of a round of training; 0 if the agent counts its updates itself."""
        return 0

    @property
    def learning_rate(self) -> float:
        """The optimizer's step size; 0 if it has none."""
        return 0.0

    @property
    def evaluation_eps(self) -> float:
        """The fraction of random actions in evaluations."""
        return 0.0

    @property
    def reward_bound(self) -> float:
        """Rewards are clipped to +- this for learning."""
        return INFINITY

    def epsilon(self, step: int) -> float | None:
        """The fraction of random actions in training at a step; None where exploration is of another kind."""
        return None

    @abstractmethod
    def fits(self, layout: Layout) -> bool:
        """Whether it can act and learn with such observations and actions."""

    @abstractmethod
    def least_parameters(self, layout: Layout) -> int:
        """A lower bound on the number of its parameters."""

    def for_environment(self, env_id: str, layout: Layout) -> Self:
        """The recipe with the preset of an environment, if it has one."""
        return self

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
            return parse_part(text, PARTS) if part else parse_literal(text)
        except UnknownName:
            raise
        except BadValue as error:
            raise BadValue(f"{name}: {error}") from None

    def warning(self, steps: int) -> str:
        """What to say before a training of so many steps, if all of them are warm-up."""
        starts = self.learning_starts
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
    if any(name in kind().settable() for kind in BaseRecipe.__subclasses__()):
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
    kind = field.metadata.get("kind")
    if kind is None:
        check_number(field.name, value, field.metadata["low"], field.metadata["high"], whole=isinstance(field.default, int))
    elif kind is tuple:
        check_widths(field.name, value)
    elif not isinstance(value, kind):
        names = "True or False" if kind is bool else " or ".join(parts_of(kind))
        raise BadValue(f"{field.name} must be {names}, not {value!r}")
