"""Statistics compared with scipy, with all possible resamples, and with rliable where it is installed."""

from __future__ import annotations

import importlib.util
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from gemrl.analysis import statistics

SCORES = np.random.default_rng(7).normal(size=(5, 6)) + np.arange(6)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(8)


some_scores = arrays(float, st.tuples(st.integers(1, 6), st.integers(1, 4)), elements=st.floats(-50, 50))


@settings(deadline=None)
@given(some_scores)
def test_iqm_equals_the_trimmed_mean_of_scipy(scores: np.ndarray) -> None:
    np.testing.assert_allclose(statistics.iqm(scores), stats.trim_mean(scores, 0.25, axis=None), rtol=1e-9, atol=1e-9)


def test_missing_runs_are_ignored() -> None:
    padded = np.vstack([SCORES, np.full((2, 6), np.nan)])
    padded[0, 1], rest = np.nan, np.delete(SCORES.T.ravel(), 5)
    np.testing.assert_allclose(statistics.iqm(padded), stats.trim_mean(rest, 0.25))
    np.testing.assert_allclose(statistics.mean(padded), np.mean([SCORES[1:, 1].mean(), *SCORES.mean(0)[[0, 2, 3, 4, 5]]]))
    np.testing.assert_allclose(statistics.performance_profile(padded, np.array([2.0])), [(rest > 2).mean()])
    drawn = statistics.resampled(padded, np.random.default_rng(0), 50)
    assert (np.isfinite(drawn).sum(1) == [5, 4, 5, 5, 5, 5]).all()
    assert np.isnan(statistics.iqm(np.full((2, 2), np.nan)))


def test_mean_standard_deviation_and_median() -> None:
    assert statistics.mean(np.array([[1.0, 10.0], [3.0, 20.0]])) == 8.5
    np.testing.assert_allclose(statistics.std(np.array([[1.0, 10.0], [3.0, 20.0]])), [2**0.5, 50**0.5])
    np.testing.assert_array_equal(statistics.std(np.array([[1.0], [np.nan]])), [0.0])
    assert statistics.median(np.array([[0.0, 1.0, 9.0], [0.0, 1.0, 9.0], [6.0, 1.0, 9.0]])) == 2.0  # median of task means


def all_divisions(first: list[float], second: list[float]) -> list[float]:
    """The difference of means of every division of the runs into groups of these sizes, one by one."""
    together, found = [*first, *second], []
    for chosen in itertools.combinations(range(len(together)), len(first)):
        rest = [x for index, x in enumerate(together) if index not in chosen]
        found.append(float(np.mean([together[index] for index in chosen]) - np.mean(rest)))
    return found


@pytest.mark.parametrize(("count", "others"), [(3, 3), (2, 5), (4, 3), (1, 2)])
def test_permutation_test_counts_all_divisions(count: int, others: int, rng: np.random.Generator) -> None:
    for shift in (0.0, 1.0, 5.0):
        first, second = list(rng.normal(size=count) + shift), list(rng.normal(size=others))
        found, every = statistics.permutation_test(np.array([*first, np.nan]), np.array(second)), all_divisions(first, second)
        assert found.value == pytest.approx(np.mean(first) - np.mean(second))
        assert found.p == pytest.approx(np.mean([abs(other) >= abs(found.value) - 1e-9 for other in every]))
        if count == others:  # scipy doubles the smaller tail, which is the same if both groups are equally large
            theirs = stats.permutation_test((first, second), lambda a, b: np.mean(a) - np.mean(b), n_resamples=np.inf)
            assert found.p == pytest.approx(theirs.pvalue)


@pytest.mark.parametrize(("count", "others", "least"), [(3, 3, 0.1), (2, 3, 0.1), (4, 4, 2 / 70), (1, 1, 1.0), (5, 5, 2 / 252)])
def test_smallest_p_value_is_that_of_groups_far_apart(count: int, others: int, least: float) -> None:
    apart = statistics.permutation_test(np.arange(count) + 100.0, np.arange(others) * 1.0)
    assert apart.p == pytest.approx(least)
    assert apart.least == pytest.approx(least)
    assert apart.verdict == ("clear" if least <= 0.05 else "likely" if least <= 0.1 else "not shown")
    assert statistics.permutation_test(np.ones(count), np.ones(others)).p == 1
    assert statistics.permutation_test(np.full(count, np.nan), np.ones(others)).verdict == "not shown"


def test_permutation_test_of_many_runs_tries_random_divisions(rng: np.random.Generator) -> None:
    first, second = rng.normal(size=14) + 0.5, rng.normal(size=14)
    found = statistics.permutation_test(first, second)
    expected = stats.ttest_ind(first, second).pvalue
    assert found.p == pytest.approx(expected, abs=0.02)
    assert found.least == pytest.approx(2 / (statistics.DIVISIONS + 1))


def test_resamples_stay_within_their_task() -> None:
    drawn = statistics.resampled(SCORES, np.random.default_rng(0), 400)
    for task in range(6):
        assert set(np.unique(drawn[:, :, task])) == set(SCORES[:, task])
    assert not np.array_equal(drawn[..., 0] == SCORES[0, 0], drawn[..., 1] == SCORES[0, 1])  # tasks are resampled independently


def test_interval_matches_the_exact_bootstrap_distribution() -> None:
    """Three runs of one task and two of another have 27 * 4 resamples, so the exact percentiles can be enumerated."""
    scores = np.array([[1.0, 10.0], [2.0, 14.0], [6.0, np.nan]])
    every = [
        (np.mean(first) + np.mean(second)) / 2
        for first in itertools.product([1.0, 2.0, 6.0], repeat=3)
        for second in itertools.product([10.0, 14.0], repeat=2)
    ]
    found = statistics.interval(scores, statistics.mean, np.random.default_rng(0), 40_000)
    assert found.value == pytest.approx((3 + 12) / 2)
    low, high = np.quantile(every, [0.025, 0.975], method="inverted_cdf")
    np.testing.assert_allclose([found.low, found.high], [low, high], atol=1e-9)


def test_interval_of_one_task_matches_scipy(rng: np.random.Generator) -> None:
    """The tolerance is about five standard deviations of the noise of both."""
    scores = rng.exponential(size=(30, 1))
    theirs = stats.bootstrap((scores[:, 0],), np.mean, method="percentile", n_resamples=20_000, rng=np.random.default_rng(1))
    ours = statistics.interval(scores, statistics.mean, np.random.default_rng(2), 20_000)
    np.testing.assert_allclose(ours[1:], theirs.confidence_interval, atol=0.025)


def test_intervals_have_their_nominal_coverage() -> None:
    """In 300 experiments with 10 runs on 4 tasks; the percentile bootstrap is known to be slightly too narrow."""
    rng, covered = np.random.default_rng(3), 0
    for _ in range(300):
        found = statistics.interval(rng.normal(size=(10, 4)), statistics.mean, rng, 300)
        covered += bool(found.low <= 0 <= found.high)
    assert 0.88 < covered / 300 < 0.98


@settings(max_examples=50, deadline=None)
@given(some_scores, st.integers(1, 5), st.integers(0, 9))
def test_probability_of_improvement_matches_mann_whitney_u(scores: np.ndarray, runs: int, seed: int) -> None:
    scores, other = np.round(scores), np.round(np.random.default_rng(seed).normal(size=(runs, scores.shape[1])))
    each = [
        stats.mannwhitneyu(ours, theirs, method="asymptotic").statistic / (len(ours) * len(theirs))
        for ours, theirs in zip(scores.T, other.T, strict=True)
    ]
    assert statistics.probability_of_improvement(scores, other) == pytest.approx(np.mean(each))
    reverse = statistics.probability_of_improvement(other, scores)
    assert reverse == pytest.approx(1 - np.mean(each))


def test_certain_improvement_has_a_degenerate_interval() -> None:
    found = statistics.improvement_interval(SCORES + 100, SCORES, np.random.default_rng(0), 100)
    np.testing.assert_array_equal(found, 1)


def test_improvement_ignores_missing_runs_and_resamples_both_methods() -> None:
    ours, theirs = np.array([[2.0, 2.0], [2.0, np.nan]]), np.array([[1.0, 3.0], [np.nan, np.nan]])
    assert statistics.probability_of_improvement(ours, theirs) == 0.5
    one, two = np.array([[2.0]]), np.array([[1.0], [3.0]])  # only the method with two runs can vary
    for sides in ((one, two), (two, one)):
        found = statistics.improvement_interval(*sides, np.random.default_rng(0), 2000)
        np.testing.assert_array_equal(found, [0.5, 0, 1])


def test_profiles_are_strict_inequalities_with_intervals() -> None:
    scores = np.array([[1.0], [2.0]])
    np.testing.assert_array_equal(statistics.performance_profile(scores, np.array([0.0, 1.0, 2.0])), [1, 0.5, 0])
    found = statistics.profile_interval(scores, np.array([1.5]), np.random.default_rng(0), 2000)
    np.testing.assert_array_equal(np.ravel(found), [0.5, 0, 1])  # a quarter of resamples has only one of the runs


def test_profiles_are_fractions_of_runs() -> None:
    thresholds = np.linspace(-3, 9, 25)
    expected = [sum(score > threshold for score in SCORES.ravel()) / SCORES.size for threshold in thresholds]
    found = statistics.profile_interval(SCORES, thresholds, np.random.default_rng(0), 500)
    np.testing.assert_allclose(found.value, expected)
    assert (found.low <= found.value).all()
    assert (found.value <= found.high).all()
    area = np.trapezoid(statistics.performance_profile(SCORES, np.linspace(-20, 20, 40_001)), np.linspace(-20, 20, 40_001))
    assert area - 20 == pytest.approx(SCORES.mean(), abs=1e-3)  # the area under a profile is the mean


def test_efficiency_curve_is_the_iqm_at_each_step(rng: np.random.Generator) -> None:
    curves = rng.normal(size=(4, 3, 7)).cumsum(-1)
    found = statistics.efficiency_curve(curves, np.random.default_rng(0), 300)
    np.testing.assert_allclose(found.value, [stats.trim_mean(curves[..., step], 0.25, axis=None) for step in range(7)])
    expected = statistics.interval(curves[..., 6], statistics.iqm, np.random.default_rng(0), 300)
    np.testing.assert_allclose([found.low[6], found.high[6]], expected[1:])  # same draws, so the same bounds


def test_area_under_the_curve() -> None:
    steps = np.array([0.0, 1.0, 3.0])
    assert statistics.area_under_curve(steps, 2 * steps) == pytest.approx(3.0)  # the mean of 2x over [0, 3]
    np.testing.assert_allclose(statistics.area_under_curve(steps, np.array([[5.0, 5, 5], [0, 1, 1]])), [5, 2.5 / 3])
    assert statistics.area_under_curve(np.array([4.0]), np.array([8.0])) == 8.0


def test_normalisation_and_smoothing(rng: np.random.Generator) -> None:
    np.testing.assert_allclose(
        statistics.normalised(np.array([[5.0, 0.0]]), np.array([0.0, -10]), np.array([10.0, 10])), [[0.5, 0.5]]
    )
    values = rng.normal(size=(2, 20))
    expected = [[row[max(t - 2, 0) : t + 3].mean() for t in range(20)] for row in values]
    np.testing.assert_allclose(statistics.smoothed(values, 5), expected)
    np.testing.assert_allclose(statistics.smoothed(values, 1), values)


if importlib.util.find_spec("rliable"):  # needs an older pandas: pip install rliable 'pandas<3'

    def test_matches_rliable(rng: np.random.Generator) -> None:
        """Equal values; intervals agree up to the noise of resampling."""
        from rliable import library, metrics

        ours, theirs = SCORES, rng.normal(size=(4, 6)) + np.arange(6)
        thresholds = np.linspace(-2, 8, 11)
        assert statistics.iqm(ours) == pytest.approx(metrics.aggregate_iqm(ours))
        assert statistics.mean(ours) == pytest.approx(metrics.aggregate_mean(ours))
        assert statistics.median(ours) == pytest.approx(metrics.aggregate_median(ours))
        better = metrics.probability_of_improvement(ours, theirs)
        assert statistics.probability_of_improvement(ours, theirs) == pytest.approx(better)
        profile = [library.run_score_deviation(ours, threshold) for threshold in thresholds]
        np.testing.assert_allclose(statistics.performance_profile(ours, thresholds), profile)

        def both(x: Any) -> np.ndarray:
            return np.array([metrics.aggregate_iqm(x), metrics.aggregate_mean(x)])

        _, bounds = library.get_interval_estimates({"a": ours}, both, reps=20_000)
        for index, statistic in enumerate((statistics.iqm, statistics.mean)):
            found = statistics.interval(ours, statistic, np.random.default_rng(0), 20_000)
            np.testing.assert_allclose(found[1:], bounds["a"][:, index], atol=0.02)


def test_smoothing_is_not_affected_by_values_outside_its_window() -> None:
    values = np.ones(60)
    for bad in (np.nan, np.inf, 1e17):
        values[10] = bad
        np.testing.assert_array_equal(np.flatnonzero(statistics.smoothed(values, 5) != 1), [8, 9, 10, 11, 12])
