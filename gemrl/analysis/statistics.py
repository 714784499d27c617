"""Statistics of scores [runs, tasks], as the paper has them and as the field now asks for (Agarwal et al., 2021).

A run that is missing is a NaN. Runs are resampled within each task and never across tasks (a stratified bootstrap).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Array = np.ndarray
Statistic = Callable[[Array], Array]
"""What maps scores [..., runs, tasks] to numbers [...]."""

RESAMPLES, CONFIDENCE = 2000, 0.95


class Interval(NamedTuple):
    """A number and the bounds of its interval; each a number, or an array of them."""

    value: Array
    low: Array
    high: Array


def mean(scores: Array) -> Array:
    """The mean over tasks of the mean over runs. [..., runs, tasks] -> [...]."""
    return np.nanmean(np.nanmean(scores, axis=-2), axis=-1)


def std(scores: Array) -> Array:
    """Standard deviation over runs, of the runs themselves (no correction). [runs, tasks] -> [tasks]."""
    return np.nanstd(scores, axis=-2)


def iqm(scores: Array) -> Array:
    """Interquartile mean: of all runs of all tasks, the mean of the middle half. [..., runs, tasks] -> [...]."""
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)  # NaNs go last
    counts = np.unique(np.isfinite(flat).sum(-1))
    if len(counts) != 1 or not counts[0]:
        return np.full(scores.shape[:-2], np.nan)
    cut = int(0.25 * counts[0])
    return flat[..., cut : counts[0] - cut].mean(-1)


def median(scores: Array) -> Array:
    """The median over tasks of the mean over runs. [..., runs, tasks] -> [...]."""
    return np.median(np.nanmean(scores, axis=-2), axis=-1)


def resampled(scores: Array, rng: np.random.Generator, count: int = RESAMPLES) -> Array:
    """Runs drawn with replacement within each task, as many as it has. [runs, tasks, ...] -> [count, runs, tasks, ...]."""
    drawn = np.full((count, *scores.shape), np.nan)
    for task in range(scores.shape[1]):
        present = np.flatnonzero(~np.isnan(scores[:, task].reshape(len(scores), -1)).all(-1))
        if present.size:
            picks = present[rng.integers(present.size, size=(count, present.size))]
            drawn[:, : present.size, task] = scores[picks, task]
    return drawn


def percentiles(samples: Array) -> tuple[Array, Array]:
    """The bounds that hold the middle 95% of samples. [count, ...] -> [...] twice."""
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(samples, [tail, 1 - tail], axis=0)
    return low, high


def interval(scores: Array, statistic: Statistic, rng: np.random.Generator, count: int = RESAMPLES) -> Interval:
    """A statistic of scores [runs, tasks] and its stratified bootstrap 95% interval."""
    return Interval(statistic(scores), *percentiles(statistic(resampled(scores, rng, count))))


def probability_of_improvement(first: Array, second: Array) -> Array:
    """How likely a run of `first` beats one of `second` on the same task, mean over tasks; a draw is half a win.
    [..., runs, tasks] and [..., other runs, tasks] -> [...]."""
    ours, theirs = first[..., :, None, :], second[..., None, :, :]
    wins = np.where(np.isnan(ours) | np.isnan(theirs), np.nan, (ours > theirs) + 0.5 * (ours == theirs))
    return np.nanmean(np.nanmean(wins, axis=(-3, -2)), axis=-1)


def improvement_interval(first: Array, second: Array, rng: np.random.Generator, count: int = RESAMPLES) -> Interval:
    """Probability of improvement and its stratified bootstrap 95% interval, both sides resampled."""
    drawn = probability_of_improvement(resampled(first, rng, count), resampled(second, rng, count))
    return Interval(probability_of_improvement(first, second), *percentiles(drawn))


def performance_profile(scores: Array, thresholds: Array) -> Array:
    """The fraction of runs that score above each threshold, every run of every task counted once.
    [..., runs, tasks] -> [..., thresholds]."""
    flat = scores.reshape(*scores.shape[:-2], -1)
    above = flat[..., None] > thresholds  # a NaN is above nothing
    return above.sum(-2) / np.isfinite(flat).sum(-1)[..., None]


def profile_interval(scores: Array, thresholds: Array, rng: np.random.Generator, count: int = RESAMPLES) -> Interval:
    """The performance profile and its pointwise stratified bootstrap 95% intervals. [runs, tasks] -> [thresholds] thrice."""
    drawn = performance_profile(resampled(scores, rng, count), thresholds)
    return Interval(performance_profile(scores, thresholds), *percentiles(drawn))


def efficiency_curve(curves: Array, rng: np.random.Generator, count: int = RESAMPLES) -> Interval:
    """The interquartile mean at each step of training and its pointwise intervals: a sample-efficiency curve.
    [runs, tasks, steps] -> [steps] thrice. A run is resampled whole, with all its steps."""
    drawn = np.moveaxis(resampled(curves, rng, count), -1, 1)
    return Interval(iqm(np.moveaxis(curves, -1, 0)), *percentiles(iqm(drawn)))


def area_under_curve(steps: Array, values: Array) -> Array:
    """The mean height of a learning curve by the trapezoid rule. [steps], [..., steps] -> [...]."""
    if len(steps) == 1:
        return values[..., 0]
    return np.trapezoid(values, steps, axis=-1) / (steps[-1] - steps[0])


def normalised(scores: Array, low: Array | float, high: Array | float) -> Array:
    """Scores on a scale where each task's `low` is 0 and its `high` is 1. [..., tasks], [tasks], [tasks] -> [..., tasks]."""
    return (scores - low) / (high - low)


def smoothed(values: Array, window: int) -> Array:
    """The centred moving average, over what there is of the window at both ends. [..., n] -> [..., n]."""
    half = window // 2
    # Each window on its own: sums that run through would carry a NaN, or the rounding of one huge value, to all that follow.
    parts = [values[..., max(place - half, 0) : place + half + 1].mean(axis=-1) for place in range(values.shape[-1])]
    return np.stack(parts, axis=-1)
