"""Losses of the critics and objectives of the actor: parts of a recipe that run on numpy and JAX arrays alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from gemrl.algorithms.parts import part
from gemrl.core.arrays import Array
from gemrl.core.validation import check_number


class Loss(ABC):
    """The loss of an error delta = Q - R."""

    arguments: ClassVar[tuple[str, ...]] = ()
    """Numbers that compiled programs take as arguments (algorithms/arguments.py)."""

    @abstractmethod
    def __call__(self, delta: Array) -> Array:
        """The loss of each delta, of any shape."""


@part
@dataclass(frozen=True)
class Asymmetric(Loss):
    """(delta)_+^2 + alpha (-delta)_+^2 with delta = Q - R: the paper's conservative objective; alpha = 1 is the squared error."""

    alpha: float = 0.25
    arguments: ClassVar[tuple[str, ...]] = ("alpha",)

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, 0)

    def __call__(self, delta: Array) -> Array:
        return weighted_square(delta, self.alpha)


def weighted_square(delta: Array, alpha: float | Array) -> Array:
    """(delta)_+^2 + alpha (-delta)_+^2."""
    xp = delta.__array_namespace__()
    return xp.maximum(delta, 0) ** 2 + alpha * xp.maximum(-delta, 0) ** 2


@part
@dataclass(frozen=True)
class Calibrated(Loss):
    """The asymmetric loss with an alpha that sets itself: lower while values are too high, higher while they are too low.

    It starts at `alpha`. Whenever the memory is planned again, the values of its newest rows are compared with the returns that
    followed, and alpha changes by a factor of up to exp(alpha_rate), between alpha_low and alpha_high.
    """

    alpha: float = 0.5
    alpha_low: float = 0.1
    alpha_high: float = 1.0
    alpha_rate: float = 0.3
    arguments: ClassVar[tuple[str, ...]] = ("alpha_low", "alpha_high", "alpha_rate")

    def __post_init__(self) -> None:
        check_number("alpha_low", self.alpha_low, 1e-6)
        check_number("alpha_high", self.alpha_high, self.alpha_low)
        check_number("alpha", self.alpha, self.alpha_low, self.alpha_high)
        check_number("alpha_rate", self.alpha_rate, 0)

    def __call__(self, delta: Array) -> Array:
        return weighted_square(delta, self.alpha)


@part
@dataclass(frozen=True)
class Huber(Loss):
    """The Huber loss, with weight alpha where the value is below its target; alpha = 1 is the usual loss."""

    alpha: float = 0.25
    arguments: ClassVar[tuple[str, ...]] = ("alpha",)

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, 0)

    def __call__(self, delta: Array) -> Array:
        xp = delta.__array_namespace__()
        size = xp.abs(delta)
        error = xp.where(size <= 1, 0.5 * delta**2, size - 0.5)
        return xp.where(delta >= 0, error, self.alpha * error)


@part
@dataclass(frozen=True)
class Expectile(Loss):
    """|expectile - 1(delta > 0)| delta^2: expectile regression, to the worst return (0), the mean (0.5) or the best (1).

    It is the asymmetric loss with alpha = expectile / (1 - expectile), times 1 - expectile.
    """

    expectile: float = 0.2
    arguments: ClassVar[tuple[str, ...]] = ("expectile",)

    def __post_init__(self) -> None:
        check_number("expectile", self.expectile, 0.001, 0.999)

    def __call__(self, delta: Array) -> Array:
        xp = delta.__array_namespace__()
        return (1 - self.expectile) * xp.maximum(delta, 0) ** 2 + self.expectile * xp.maximum(-delta, 0) ** 2


class ActorObjective(ABC):
    """The objective that the deterministic policy gradient maximizes."""

    critics_used: ClassVar[slice] = slice(None)
    """The critics that it needs."""

    @abstractmethod
    def __call__(self, q: Array) -> Array:
        """The objective, from the values of these critics. [C, B] -> [B]."""


@part
@dataclass(frozen=True)
class MeanOfCritics(ActorObjective):
    """The policy maximizes the mean of all critics."""

    def __call__(self, q: Array) -> Array:
        return q.mean(axis=0)


@part
@dataclass(frozen=True)
class FirstCritic(ActorObjective):
    """The policy maximizes the first critic of the first pair, as in TD3."""

    critics_used: ClassVar[slice] = slice(1)

    def __call__(self, q: Array) -> Array:
        return q[0]
