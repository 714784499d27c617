"""The base class of all recipes: fields that are checked, can be changed by name, and are saved as JSON."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

import numpy as np

from gemrl.algorithms.bodies import Body, check_widths
from gemrl.algorithms.parts import PARTS, parts_of
from gemrl.algorithms.sb3_names import SB3_NAMES
from gemrl.algorithms.schedules import Constant, Schedule
from gemrl.core.exceptions import BadValue, UnknownName
from gemrl.core.layout import Layout
from gemrl.core.literals import parse_literal, parse_part
from gemrl.core.suggestions import unknown
from gemrl.core.text import counted
from gemrl.core.validation import check_number

INFINITY = float("inf")
WITHOUT_GRADIENTS = "learns each episode once, without gradient steps"
"""Why tables cannot train on recorded data alone."""
FIELDS_HINT = "; `gemrl algos --fields` lists the fields of each"


def number(default: float, doc: str, low: float = 1, high: float = INFINITY) -> Any:
    """A field that holds a number from low to high; an integer if its default is one."""
    return dataclasses.field(default=default, metadata={"doc": doc, "low": low, "high": high})


def choice(default: Any, doc: str, kind: type) -> Any:
    """A field that holds a bool, a tuple of widths, or a part of this kind (its base class)."""
    return dataclasses.field(default=default, metadata={"doc": doc, "kind": kind})


def linear_schedule(step: int, start: int, steps: int, first: float, last: float) -> float:
    """A value that changes linearly from first to last over `steps` steps, beginning at step `start`."""
    return first + min(max((step - start) / steps, 0.0), 1.0) * (last - first)


@dataclasses.dataclass(frozen=True)
class BaseRecipe(ABC):
    """The interface of a recipe: named fields, some of which hold parts with fields of their own.

    Other packages use recipes of all families through this interface only.
    """

    family: ClassVar[str]
    """What all recipes of this class have in common, in a few words, for tables and comparisons."""
    needs: ClassVar[str]
    """The observations and actions that it needs, for error messages."""
    compiles: ClassVar[bool] = True
    """Whether its first round of training compiles programs, which may take a minute."""

    gamma: float = number(0.99, "discount factor", 0, 1)

    @property
    def learning_starts(self) -> int:
        """Steps of random actions before training starts."""
        return 0

    @property
    def gradient_steps(self) -> int:
        """Gradient steps per round; 0 if the agent counts its updates itself."""
        return 0

    @property
    def learning_rate(self) -> float:
        """The optimizer's step size; 0 if it has none."""
        return 0.0

    @property
    def learning_rate_schedule(self) -> Schedule:
        """How the learning rate changes over a run."""
        return Constant()

    def learning_rate_at(self, step: Any) -> Any:
        """The learning rate at an environment step: a number, or an array."""
        if self.learning_rate_schedule.constant:
            return self.learning_rate
        return self.learning_rate * self.learning_rate_schedule(step if hasattr(step, "shape") else np.asarray(step, np.float32))

    @property
    def trial_every(self) -> int:
        """Environment steps between trials of the policy without exploration; 0 if there are none."""
        return 0

    @property
    def hindsight(self) -> int:
        """Copies of each episode that are stored with goals that it reached."""
        return 0

    @property
    def offline_problem(self) -> str | None:
        """Why it cannot train on recorded data alone; None if it can."""
        if not self.gradient_steps:
            return WITHOUT_GRADIENTS
        return "takes its goals from episodes that it plays: set hindsight=0" if self.hindsight else None

    @property
    def evaluation_eps(self) -> float:
        """The fraction of random actions in evaluations."""
        return 0.0

    @property
    def reward_bound(self) -> float:
        """Rewards are clipped to +- this for learning."""
        return INFINITY

    @property
    def target_steps(self) -> int | None:
        """Environment steps between two updates of the targets; None if there are none or they follow gradient steps."""
        return None

    def epsilon(self, step: int) -> float | None:
        """The fraction of random actions in training at a step; None if exploration works differently."""
        return None

    @abstractmethod
    def fits(self, layout: Layout) -> bool:
        """Whether it can act and learn with such observations and actions."""

    @abstractmethod
    def least_parameters(self, layout: Layout) -> int:
        """A lower bound on the number of its parameters."""

    def for_environment(self, env_id: str, layout: Layout) -> Self:
        """The recipe with the preset for an environment, if there is one."""
        return self

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = _plain(getattr(self, field.name))
            object.__setattr__(self, field.name, value)
            _check(field, value)

    def but(self, **changes: Any) -> Self:
        """The same recipe with some fields changed, including fields of its parts such as `depth` and `alpha`."""
        values = vars(self).copy()
        for name, value in changes.items():
            _change(values, name, value)
        return type(self)(**values)

    def but_from_text(self, changes: Iterable[tuple[str, str]]) -> Self:
        """The same recipe with fields changed to values parsed from text: a part if the field holds one, else a literal."""
        values = vars(self).copy()
        for name, text in changes:
            current = _settable(values)
            if name not in current:
                raise _unknown(name, current)
            _change(values, name, self._parsed(name, text, part=dataclasses.is_dataclass(current[name])))
        return type(self)(**values)

    def _parsed(self, name: str, text: str, *, part: bool) -> Any:
        try:
            return parse_part(text, PARTS) if part else parse_literal(text)
        except UnknownName:
            raise
        except BadValue as error:
            raise BadValue(f"{name}: {error}") from None

    def warnings(self, steps: int, n_envs: int) -> list[str]:
        """What is probably not meant in a training of this many steps with this many environments."""
        found = []
        if steps <= self.learning_starts:
            starts = f"learning_starts is {self.learning_starts:,}"
            found.append(f"nothing is learned in {counted(steps, 'step')}: {starts}; set a smaller one")
        if (interval := self.target_steps) and interval < n_envs:
            often = f"more often than all {n_envs:,} environments step"
            found.append(f"targets are updated every {counted(interval, 'step')}, {often}; set target_update_interval={n_envs}")
        return found

    def settable(self) -> dict[str, Any]:
        """All names that `but` takes, with their current values."""
        return _settable(vars(self))

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON values. A part is written as the Python that makes it, such as "Asymmetric(alpha=0.25)".

        A body is written as its name, followed by its fields, which files from before bodies have too.
        """
        found: dict[str, Any] = {}
        for name, value in vars(self).items():
            if isinstance(value, Body) and not vars(value).keys() & vars(self).keys():
                found |= {name: type(value).__name__, **{inner: _written(one) for inner, one in vars(value).items()}}
            else:
                found[name] = _written(value)
        return found

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The recipe that `as_dict` wrote. Nothing is evaluated."""
        ordered = sorted(values, key=lambda name: name != "body")  # its fields follow it
        texts = [(name, values[name] if isinstance(values[name], str) else repr(values[name])) for name in ordered]
        return cls().but_from_text(texts)


def _written(value: Any) -> Any:
    """A value as JSON: a part as the Python that makes it."""
    return repr(value) if dataclasses.is_dataclass(value) else value


def _unknown(name: str, known: Iterable[str]) -> UnknownName:
    """The error for an unknown field, with a suggestion."""
    elsewhere = f": {SB3_NAMES[name]}" if name in SB3_NAMES else ""
    if any(name in kind().settable() for kind in BaseRecipe.__subclasses__()):
        return UnknownName(f"{name} is a field of other algorithms, not of this one{elsewhere or FIELDS_HINT}")
    return UnknownName(f"unknown field {name!r}{elsewhere}") if elsewhere else unknown("field", name, known, FIELDS_HINT)


def _settable(values: Mapping[str, Any]) -> dict[str, Any]:
    inner = {name: value for part in values.values() for name, value in _inner(part).items()}
    return inner | dict(values)


def _change(values: dict[str, Any], name: str, value: Any) -> None:
    """Changes the field `name` in the values of a recipe, or the field of a part with this name."""
    field = next((field for field in values if name == field or name in _inner(values[field])), None)
    if field is None:
        raise _unknown(name, _settable(values))
    value = _converted(_settable(values)[name], _plain(value))
    values[field] = value if name == field else _replaced(values[field], name, value)


def _converted(current: Any, value: Any) -> Any:
    """A value in the type of its field's current value: 1e5 becomes an integer, and a single width a tuple of one."""
    if type(current) is int and isinstance(value, float) and value.is_integer():
        return int(value)
    return (value,) if isinstance(current, tuple) and type(value) is int else value


def _plain(value: Any) -> Any:
    """A value with numpy numbers converted to Python numbers, and lists to tuples."""
    if isinstance(value, (list, tuple)):
        return tuple(_plain(one) for one in value)
    return value.item() if isinstance(value, np.generic) else value


def _inner(part: Any) -> dict[str, Any]:
    """The fields of a part and of its own parts, by name; `depth` also names the field that caps rollouts."""
    if not dataclasses.is_dataclass(part):
        return {}
    own = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    cap = {"depth": own[part.cap]} if hasattr(part, "cap") else {}
    deeper = {name: value for inner in own.values() for name, value in _inner(inner).items()}
    return deeper | cap | own


def _replaced(part: Any, name: str, value: Any) -> Any:
    """The part with the field `name`, or this field of one of its own parts, changed."""
    name = getattr(part, "cap", name) if name == "depth" else name
    own = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    if name in own:
        return dataclasses.replace(part, **{name: value})
    field = next(field for field in own if name in _inner(own[field]))
    return dataclasses.replace(part, **{field: _replaced(own[field], name, value)})


def _check(field: dataclasses.Field[Any], value: Any) -> None:
    """Raises unless `value` has the type of the field and is in its range."""
    kind = field.metadata.get("kind")
    if kind is None:
        check_number(field.name, value, field.metadata["low"], field.metadata["high"], whole=isinstance(field.default, int))
    elif kind is tuple:
        check_widths(field.name, value)
    elif not isinstance(value, kind):
        names = "True or False" if kind is bool else " or ".join(parts_of(kind))
        raise BadValue(f"{field.name} must be {names}, not {value!r}")
