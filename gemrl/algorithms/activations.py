"""Activation functions of hidden layers, on numpy and JAX arrays alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from gemrl.algorithms.parts import part
from gemrl.core.arrays import Array


class Activation(ABC):
    """What a hidden layer applies to each number of its output."""

    @abstractmethod
    def __call__(self, x: Array) -> Array:
        """The activations of x, of the same shape."""


@part
@dataclass(frozen=True)
class ReLU(Activation):
    """x, or 0 where x is negative."""

    def __call__(self, x: Array) -> Array:
        return x.__array_namespace__().maximum(x, 0)


@part
@dataclass(frozen=True)
class ELU(Activation):
    """x, or exp(x) - 1 where x is negative."""

    def __call__(self, x: Array) -> Array:
        xp = x.__array_namespace__()
        return xp.where(x > 0, x, xp.expm1(xp.minimum(x, 0)))


@part
@dataclass(frozen=True)
class Tanh(Activation):
    """The hyperbolic tangent."""

    def __call__(self, x: Array) -> Array:
        return x.__array_namespace__().tanh(x)
