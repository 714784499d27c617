"""Statistics of scores [runs, tasks]: those of the paper, and those recommended by Agarwal et al. (2021).

Missing runs are NaN. Runs are resampled within each task, never across tasks (stratified bootstrap).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

Array = np.ndarray
Statistic = Callable[[Array], Array]
"""A function from scores [..., runs, tasks] to numbers [...]."""

RESAMPLES, CONFIDENCE = 2000, 0.95


class Interval(NamedTuple):
    """A value and the bounds of its confidence interval; scalars, or arrays of the same shape."""

    value: Array
    low: Array
    high: Array


def mean(scores: Array) -> Array:
    """The mean over tasks of the mean over runs. [..., runs, tasks] -> [...]."""
    return np.nanmean(np.nanmean(scores, axis=-2), axis=-1)


def std(scores: Array) -> Array:
    """The sample standard deviation over runs (divided by n - 1); 0 for a single run. [runs, tasks] -> [tasks]."""
    count = np.isfinite(scores).sum(axis=-2)
    return np.nanstd(scores, axis=-2) * np.sqrt(count / np.maximum(count - 1, 1))


def iqm(scores: Array) -> Array:
    """Interquartile mean: the mean of the middle half of all runs of all tasks. [..., runs, tasks] -> [...]."""
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)  # NaNs are sorted to the end
    counts = np.unique(np.isfinite(flat).sum(-1))
    if len(counts) != 1 or not counts[0]:
        return np.full(scores.shape[:-2], np.nan)
    cut = int(0.25 * counts[0])
    return flat[..., cut : counts[0] - cut].mean(-1)


def median(scores: Array) -> Array:
    """The median over tasks of the mean over runs. [..., runs, tasks] -> [...]."""
    return np.median(np.nanmean(scores, axis=-2), axis=-1)


def resampled(scores: Array, rng: np.random.Generator, count: int = RESAMPLES) -> Array:
    """Bootstrap samples: the runs of each task, drawn with replacement. [runs, tasks, ...] -> [count, runs, tasks, ...]."""
    drawn = np.full((count, *scores.shape), np.nan)
    for task in range(scores.shape[1]):
        present = np.flatnonzero(~np.isnan(scores[:, task].reshape(len(scores), -1)).all(-1))
        if present.size:
            picks = present[rng.integers(present.size, size=(count, present.size))]
            drawn[:, : present.size, task] = scores[picks, task]
    return drawn


def percentiles(samples: Array) -> tuple[Array, Array]:
    """The bounds of the middle 95% of samples. [count, ...] -> two arrays [...]."""
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(samples, [tail, 1 - tail], axis=0)
    return low, high


def interval(scores: Array, statistic: Statistic, rng: np.random.Generator, count: int = RESAMPLES) -> Interval:
    """A statistic of scores [runs, tasks] and its stratified bootstrap 95% interval."""
    return Interval(statistic(scores), *percentiles(statistic(resampled(scores, rng, count))))


def probability_of_improvement(first: Array, second: Array) -> Array:
    """The probability that a run of `first` beats one of `second` on the same task, averaged over tasks; a tie counts half.
    [..., runs, tasks] and [..., other runs, tasks] -> [...]."""
    ours, theirs = first[..., :, None, :], second[..., None, :, :]
    wins = np.where(np.isnan(ours) | np.isnan(theirs), np.nan, (ours > theirs) + 0.5 * (ours == theirs))
    return np.nanmean(np.nanmean(wins, axis=(-3, -2)), axis=-1)


def improvement_interval(first: Array, second: Array, rng: np.random.Generator, count: int = RESAMPLES) -> Interval:
    """Probability of improvement and its stratified bootstrap 95% interval, with both methods resampled."""
    drawn = probability_of_improvement(resampled(first, rng, count), resampled(second, rng, count))
    return Interval(probability_of_improvement(first, second), *percentiles(drawn))


class Difference(NamedTuple):
    """How much higher the mean of one method's runs is than that of another's on one task, and how sure that is."""

    value: float
    p: float
    """Two-sided p-value of the permutation test: the share of all divisions of the runs that differ at least as much."""
    least: float
    """The smallest p-value that so many runs can have."""

    @property
    def verdict(self) -> str:
        """What may be said of it: that it is clear, likely, or not shown."""
        return "clear" if self.p <= CLEAR else "likely" if self.p <= LIKELY else "not shown"


CLEAR, LIKELY = 0.05, 0.1
"""Up to these p-values a difference is called clear or likely. Three runs against three cannot go below 0.1."""

DIVISIONS = 200_000
"""At most as many divisions are tried; beyond, as many random ones."""


def permutation_test(first: Array, second: Array) -> Difference:
    """The difference of the means of two methods' runs on a task, and its permutation test. [n], [m] -> difference.

    It is exact unless there are more than DIVISIONS divisions. A method without runs differs from none.
    """
    first, second = (runs[np.isfinite(runs)] for runs in (first, second))
    if not (len(first) and len(second)):
        return Difference(np.nan, 1.0, 1.0)
    together, count = np.concatenate([first, second]), len(first)
    value = first.mean() - second.mean()
    number = comb(len(together), count)
    if number <= DIVISIONS:
        chosen = np.array(list(combinations(range(len(together)), count)))
    else:
        order = np.random.default_rng(0).random((DIVISIONS, len(together))).argsort(axis=1)
        chosen = np.concatenate([np.arange(count)[None], order[:, :count]])  # the division that was observed is one of them
    sums = together[chosen].sum(axis=1)
    differences = sums / count - (together.sum() - sums) / len(second)
    tolerance = 1e-9 * np.abs(together).max()  # sums in another order round differently
    p = float((np.abs(differences) >= abs(value) - tolerance).mean())
    return Difference(float(value), p, min(1.0, (1 + (count == len(second))) / len(chosen)))


def performance_profile(scores: Array, thresholds: Array) -> Array:
    """The fraction of all runs of all tasks that score above each threshold.
    [..., runs, tasks] -> [..., thresholds]."""
    flat = scores.reshape(*scores.shape[:-2], -1)
    above = flat[..., None] > thresholds  # False for NaN
    return above.sum(-2) / np.isfinite(flat).sum(-1)[..., None]


def profile_interval(scores: Array, thresholds: Array, rng: np.random.Generator, count: int = RESAMPLES) -> Interval:
    """The performance profile and its pointwise bootstrap 95% intervals. [runs, tasks] -> three arrays [thresholds]."""
    drawn = performance_profile(resampled(scores, rng, count), thresholds)
    return Interval(performance_profile(scores, thresholds), *percentiles(drawn))


def efficiency_curve(curves: Array, rng: np.random.Generator, count: int = RESAMPLES) -> Interval:
    """The sample-efficiency curve: the interquartile mean at each step of training and its pointwise intervals.
    [runs, tasks, steps] -> three arrays [steps]. Each run is resampled as a whole, with all its steps."""
    drawn = np.moveaxis(resampled(curves, rng, count), -1, 1)
    return Interval(iqm(np.moveaxis(curves, -1, 0)), *percentiles(iqm(drawn)))


def area_under_curve(steps: Array, values: Array) -> Array:
    """The area under a learning curve divided by its length, by the trapezoid rule. [steps], [..., steps] -> [...]."""
    if len(steps) == 1:
        return values[..., 0]
    return np.trapezoid(values, steps, axis=-1) / (steps[-1] - steps[0])


def normalised(scores: Array, low: Array | float, high: Array | float) -> Array:
    """Scores rescaled so that each task's `low` is 0 and its `high` is 1. [..., tasks], [tasks], [tasks] -> [..., tasks]."""
    return (scores - low) / (high - low)


def smoothed(values: Array, window: int) -> Array:
    """The centred moving average; at both ends, over the part of the window that exists. [..., n] -> [..., n]."""
    half = window // 2
    # Windows are averaged separately: a running sum would carry a NaN, or the rounding error of a huge value, into later ones.
    means = [values[..., max(index - half, 0) : index + half + 1].mean(axis=-1) for index in range(values.shape[-1])]
    return np.stack(means, axis=-1)
