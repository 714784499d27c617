"""What every network body implements."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self

import equinox as eqx

from gemrl.core.arrays import Array


class BodyNetwork(eqx.Module):
    """A network built from a body: hidden layers and a linear output.

    A body that keeps running statistics, such as BatchNorm's, updates them in `training` and uses them when it is called.
    """

    @abstractmethod
    def __call__(self, x: Array, again: Array | None = None) -> Array:
        """x [B, inputs] -> [B, outputs]; `again` [B, A] is the action of a critic, for bodies that take it a second time."""

    def training(self, x: Array, again: Array | None = None) -> tuple[Array, Any]:
        """Outputs for a gradient step, and the statistics after it; empty if the body keeps none."""
        return self(x, again), ()

    def with_statistics(self, statistics: Any) -> Self:
        """The same network with the statistics that `training` returned."""
        return self

    def fast(self) -> BodyNetwork:
        """The same function in a form that is faster for many rows without gradients; by default the network itself."""
        return self

    def acting(self) -> BodyNetwork:
        """The network to act with until it changes, with the same outputs; by default the network itself."""
        return self

    @staticmethod
    def fast_ensemble(members: tuple[BodyNetwork, ...]) -> Callable[[Array, Array], Array] | None:
        """One fast form for all critics together, from (s, a) to values [C, B]; None if there is none."""
        return None
