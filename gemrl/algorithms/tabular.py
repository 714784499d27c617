"""GEM on tables, the paper's Algorithm 3, and what it is compared with: pure numpy, many MDPs side by side.

An algorithm is a frozen `Tabular`; the others are the same with named fields changed. In each MDP an episode is played and
stored, its returns are planned (gemrl/planning.py), and then its pairs are gone through in time order: one table, drawn
evenly, moves toward its return. All returns of an episode are planned once, from the tables as they were at its end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gemrl.algorithms.parts import part
from gemrl.algorithms.planning import NStep, Planner, Twin
from gemrl.core.validation import check_number

Array = np.ndarray


@part
@dataclass(frozen=True)
class StepSize:
    """alpha = first * (1 + n / scale)^-power at the n-th update of a pair: Robbins-Monro for 1/2 < power <= 1, constant for 0."""

    first: float = 1.0
    scale: float = 100.0
    power: float = 1.0

    def __post_init__(self) -> None:
        check_number("first", self.first, 0, 1)
        check_number("scale", self.scale, 1e-6)
        check_number("power", self.power, 0, 1)

    def __call__(self, n: Array) -> Array:
        """Step sizes for counts of earlier updates, of any shape."""
        return self.first * (1 + n / self.scale) ** -self.power


class TableBootstrap(ABC):
    """How a table values a next state."""

    tables: ClassVar[int | None] = None
    """How many tables it needs; None if any number will do."""

    @abstractmethod
    def __call__(self, q: Array) -> Array:
        """Values [K, ...] of tables [K, ..., A]."""


@part
@dataclass(frozen=True)
class Own(TableBootstrap):
    """A table's value of the next state by its own judgement: max_a Q(i)(s', a)."""

    def __call__(self, q: Array) -> Array:
        return q.max(-1)


@part
@dataclass(frozen=True)
class Crossed(TableBootstrap):
    """Double Q-learning's: the table chooses the action, the other one gives its value."""

    tables: ClassVar[int | None] = 2

    def __call__(self, q: Array) -> Array:
        return np.take_along_axis(q[::-1], q.argmax(-1)[..., None], -1)[..., 0]


@dataclass(frozen=True)
class Tabular:
    """A tabular algorithm; the defaults are GEM's."""

    planner: Planner = Twin(1000)
    tables: int = 2
    bootstrap: TableBootstrap = Own()
    step_size: StepSize = StepSize()
    epsilon: float = 0.3
    """How often an action is random."""
    time_limit: int = 20
    """Steps after which an episode is cut; the value of the state it was cut at still counts."""
    limit_is_death: bool = False
    """A mistake to study: a cut taken for the end of all rewards."""
    shared: bool = False
    """A mistake to study: all tables move, each toward the mean of all returns, as with the released code's broadcast."""


GEM = Tabular()
Q_LEARNING = Tabular(planner=NStep(1), tables=1)
DOUBLE_Q = Tabular(planner=NStep(1), bootstrap=Crossed())
NSTEP_Q = Tabular(planner=NStep(5), tables=1)


def move(q: Array, updates: Array, pairs: Iterable[Any], targets: Iterable[Any], step_size: StepSize) -> None:
    """Moves flat tables q [K * ...] toward targets, in place, one step of time after the other, since a pair may come again.

    A step of time is one pair, or an array of different ones; `updates` counts how often each was moved.
    """
    for pair, target in zip(pairs, targets, strict=True):
        q[pair] += step_size(updates[pair]) * (target - q[pair])
        updates[pair] += 1
