"""Normalization of observations by their running mean and variance, which are saved with the networks.

Values of the target networks that are stored in the memory are computed with the normalizer of the time when these networks last
moved. Otherwise a row's value would depend on when it was computed, and old rows would not match new ones.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, TypeVar

import equinox as eqx
import numpy as np

from gemrl.core.arrays import Array
from gemrl.core.exceptions import BadValue
from gemrl.core.layout import Layout

CLIP = 10.0
"""Normalized observations are clipped to +- this, so that outliers do no harm."""


class Normalizer(eqx.Module):
    """Mean and variance of the `count` observations so far."""

    count: Array  # []
    mean: Array  # [D]
    variance: Array  # [D]

    @staticmethod
    def start(observation: int) -> Normalizer:
        """A normalizer without observations, which changes nothing."""
        return Normalizer(np.zeros((), np.float32), np.zeros(observation, np.float32), np.ones(observation, np.float32))

    @staticmethod
    def wanted(recipe: Any, layout: Layout) -> Normalizer | None:
        """A normalizer before the first observation, if the recipe has one. Raises unless observations are vectors."""
        if not recipe.normalize_observations:
            return None
        if layout.is_image or layout.states:
            raise BadValue("normalize_observations is for vectors, but these observations are images or discrete states")
        return Normalizer.start(layout.size)

    def __call__(self, observation: Array) -> Array:
        """The observation shifted and scaled to zero mean and unit variance, then clipped. [*B, D]."""
        xp = observation.__array_namespace__()
        return xp.clip((observation - self.mean) / (self.variance + 1e-8) ** 0.5, -CLIP, CLIP)

    def updated(self, observation: Array, counts: Array) -> Normalizer:
        """The normalizer after more observations [*B, D], where `counts` [*B] is true (parallel algorithm of Chan et al.)."""
        xp = observation.__array_namespace__()
        weight = counts[..., None].astype(observation.dtype)
        axes = tuple(range(observation.ndim - 1))
        count = weight.sum()
        mean = (weight * observation).sum(axis=axes) / xp.maximum(count, 1)
        spread = (weight * (observation - mean) ** 2).sum(axis=axes)
        total = self.count + count
        delta, share = mean - self.mean, count / xp.maximum(total, 1)
        squares = self.variance * self.count + spread + delta**2 * self.count * share
        variance = xp.where(total > 0, squares / xp.maximum(total, 1), self.variance)
        return Normalizer(total, self.mean + delta * share, variance)


Learner = TypeVar("Learner", bound=Any)
"""A learner with statistics and those of the time when its targets last moved; each may be None."""

STATISTICS = ("normalizer", "reward_scale")


def freezing(learner: Learner) -> Learner:
    """The learner, whose targets have just moved, with its present statistics as those for stored values."""
    for name in STATISTICS:
        if getattr(learner, f"target_{name}", None) is not None:
            learner = eqx.tree_at(attrgetter(f"target_{name}"), learner, getattr(learner, name))
    return learner


def frozen(learner: Learner) -> Learner:
    """The learner as it values states for the memory: with the statistics of the last move of its targets."""
    for name in STATISTICS:
        if (kept := getattr(learner, f"target_{name}", None)) is not None:
            learner = eqx.tree_at(attrgetter(name), learner, kept)
    return learner
