"""Parts of a recipe that change a number over a run: a factor of it, by environment steps. They run on numpy and JAX alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gemrl.algorithms.parts import part
from gemrl.core.arrays import Array
from gemrl.core.validation import check_number


class Schedule(ABC):
    """The factor of a number at each environment step."""

    constant: ClassVar[bool] = False
    """Whether it is always 1."""

    @abstractmethod
    def __call__(self, step: Array) -> Array:
        """The factor at a step, an array of any shape."""


@part
@dataclass(frozen=True)
class Constant(Schedule):
    """The number stays as it is."""

    constant: ClassVar[bool] = True

    def __call__(self, step: Array) -> Array:
        return step.__array_namespace__().ones_like(step)


@dataclass(frozen=True)
class _Falling(Schedule):
    """From 1 to `final` over the first `steps` environment steps of a run, then `final`."""

    final: float = 0.0
    steps: int = 100_000
    arguments: ClassVar[tuple[str, ...]] = ("final",)

    def __post_init__(self) -> None:
        check_number("final", self.final, 0)
        check_number("steps", self.steps, 1, whole=True)

    def __call__(self, step: Array) -> Array:
        return self.final + (1 - self.final) * self.left(step.__array_namespace__().clip(step / self.steps, 0, 1))

    @abstractmethod
    def left(self, progress: Array) -> Array:
        """How much is left of the difference, from 1 at progress 0 to 0 at progress 1."""


@part
@dataclass(frozen=True)
class Linear(_Falling):
    """From 1 to `final` in a straight line over the first `steps` environment steps of a run."""

    def left(self, progress: Array) -> Array:
        return 1 - progress


@part
@dataclass(frozen=True)
class Cosine(_Falling):
    """From 1 to `final` along half a cosine over the first `steps` environment steps of a run: slow, fast, slow."""

    def left(self, progress: Array) -> Array:
        return (1 + progress.__array_namespace__().cos(np.pi * progress)) / 2
