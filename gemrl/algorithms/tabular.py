"""Tabular GEM (the paper's Algorithm 3) and its baselines, in pure numpy.

An algorithm is a frozen `Tabular`; the baselines change some of its fields. After an episode, the returns of all its steps are
planned once (gemrl/algorithms/planning.py), from the tables as they were at its end. Then its state-action pairs are updated in
time order: for each, one table, drawn at random, moves toward its return.
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
    """alpha = first * (1 + n / scale)^-power after n updates of a pair: Robbins-Monro for 1/2 < power <= 1, constant for 0."""

    first: float = 1.0
    scale: float = 100.0
    power: float = 1.0

    def __post_init__(self) -> None:
        check_number("first", self.first, 0, 1)
        check_number("scale", self.scale, 1e-6)
        check_number("power", self.power, 0, 1)

    def __call__(self, n: Array) -> Array:
        """The step sizes for numbers of earlier updates, of any shape."""
        return self.first * (1 + n / self.scale) ** -self.power


class TableBootstrap(ABC):
    """How a table values a next state."""

    tables: ClassVar[int | None] = None
    """How many tables it needs; None if any number works."""

    @abstractmethod
    def __call__(self, q: Array) -> Array:
        """State values from Q-values of all tables. [K, ..., A] -> [K, ...]."""


@part
@dataclass(frozen=True)
class Own(TableBootstrap):
    """Each table values the next state itself: max_a Q(i)(s', a)."""

    def __call__(self, q: Array) -> Array:
        return q.max(-1)


@part
@dataclass(frozen=True)
class Crossed(TableBootstrap):
    """As in double Q-learning: each table chooses the action, and the other one gives its value."""

    tables: ClassVar[int | None] = 2

    def __call__(self, q: Array) -> Array:
        return np.take_along_axis(q[::-1], q.argmax(-1)[..., None], -1)[..., 0]


@dataclass(frozen=True)
class Tabular:
    """A tabular algorithm; the defaults are those of GEM."""

    planner: Planner = Twin(1000)
    tables: int = 2
    bootstrap: TableBootstrap = Own()
    step_size: StepSize = StepSize()
    epsilon: float = 0.3
    """The fraction of random actions."""
    time_limit: int = 20
    """Steps after which an episode is truncated; returns bootstrap from its final state."""
    limit_is_death: bool = False
    """A mistake to study: truncation is treated as termination."""
    shared: bool = False
    """A mistake to study: all tables move toward the mean of all returns, as by the broadcast in the released code."""


GEM = Tabular()
Q_LEARNING = Tabular(planner=NStep(1), tables=1)
DOUBLE_Q = Tabular(planner=NStep(1), bootstrap=Crossed())
NSTEP_Q = Tabular(planner=NStep(5), tables=1)


def move(q: Array, updates: Array, pairs: Iterable[Any], targets: Iterable[Any], step_size: StepSize) -> None:
    """Moves flat tables q [K * ...] toward targets, in place. Time steps are processed in order, since a pair may recur.

    A time step is one pair, or an array of distinct pairs; `updates` counts the updates of each pair.
    """
    for pair, target in zip(pairs, targets, strict=True):
        q[pair] += step_size(updates[pair]) * (target - q[pair])
        updates[pair] += 1
