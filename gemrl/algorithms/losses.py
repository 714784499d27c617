"""What a critic's error costs, and which critics the policy climbs: small parts that compute on numpy and JAX arrays alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gemrl.core.arrays import Array
from gemrl.core.validation import check_number


@dataclass(frozen=True)
class Asymmetric:
    """(delta)_+^2 + alpha (-delta)_+^2 with delta = Q - R: the paper's conservative objective; alpha = 1 is the squared error."""

    alpha: float = 0.25

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, 0)

    def __call__(self, delta: Array) -> Array:
        xp = delta.__array_namespace__()
        return xp.maximum(delta, 0) ** 2 + self.alpha * xp.maximum(-delta, 0) ** 2


@dataclass(frozen=True)
class MeanOfCritics:
    """The policy climbs the mean of all critics."""

    looks_at: ClassVar[slice] = slice(None)

    def __call__(self, q: Array) -> Array:
        """q [C, B] -> [B]."""
        return q.mean(axis=0)


@dataclass(frozen=True)
class FirstCritic:
    """The policy climbs the first critic of the first pair, as in TD3."""

    looks_at: ClassVar[slice] = slice(1)  # the others need not be evaluated

    def __call__(self, q: Array) -> Array:
        """q [C, B] -> [B]."""
        return q[0]


@dataclass(frozen=True)
class Huber:
    """Huber's error, with weight alpha where the value is below its target: delta = Q - R; alpha = 1 is the usual one."""

    alpha: float = 0.25

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, 0)

    def __call__(self, delta: Array) -> Array:
        """The error of each delta, of any shape."""
        xp = delta.__array_namespace__()
        size = xp.abs(delta)
        error = xp.where(size <= 1, 0.5 * delta**2, size - 0.5)
        return xp.where(delta >= 0, error, self.alpha * error)
