"""The numbers of a report: curves, scores, comparisons over all tasks, cost, and differences between recipes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gemrl.algorithms.registry import ALGORITHMS, RECIPES
from gemrl.analysis import statistics
from gemrl.analysis.palette import is_gem
from gemrl.analysis.results.collection import Collection
from gemrl.analysis.results.run import Run, stacked
from gemrl.analysis.results.scales import scale
from gemrl.core.mappings import differences
from gemrl.core.text import counted

CURVE_RESAMPLES = 1000
PROFILE_POINTS, EFFICIENCY_POINTS = 201, 41

Record = dict[str, Any]


def reference(collection: Collection) -> str:
    """The method that the others are compared with: gem, else a variant of gem, else the first method."""
    return next(filter(is_gem, collection.methods), collection.methods[0])


def curves(collection: Collection, env: str, column: str) -> dict[str, Record]:
    """By method: the mean over runs at each step, its 95% interval, and the standard deviation over runs."""
    found = {}
    for method in collection.methods:
        group = collection.shown(method, env)
        if group:
            steps, values = stacked(group, column)
            drawn = statistics.resampled(values[:, None], _rng(), CURVE_RESAMPLES)
            low, high = statistics.percentiles(drawn[:, :, 0].mean(1))
            middle = values.mean(0)
            found[method] = {"steps": steps, "mean": middle, "low": low, "high": high, "std": values.std(0), "runs": len(group)}
            found[method]["warm_up"] = group[0].learning_starts
    return found


def score_rows(collection: Collection) -> list[Record]:
    """A row per method and environment with all reported statistics of its score."""
    rows = []
    for env in collection.envs:
        bounds, last = scale(collection, env), collection.final_step(env)
        for method in collection.methods:
            group = collection.of(method, env)
            if not group:
                continue
            scores = collection.scores(method, env)[:, None]
            middle = statistics.interval(scores, statistics.mean, _rng())
            steps, values = stacked(group)
            until = steps <= last
            area = statistics.area_under_curve(steps[until], values[:, until]).mean() if until.any() else np.nan
            row = {"env": env, "method": method, "runs": len(group), "step": last, "mean": middle.value}
            row |= {"std": statistics.std(scores)[0], "low": middle.low, "high": middle.high, "iqm": statistics.iqm(scores)}
            row |= {"last": np.mean([run.last(last) for run in group])}
            row |= {"area": area, "error": np.mean([run.error(last) for run in group])}
            rows.append(row | {"normalised": statistics.normalised(middle.value, *np.array(bounds[:2]))})
    return rows


def difference_rows(collection: Collection) -> list[Record]:
    """A row per environment and method: how its mean score differs from the reference's there, and what may be said of it."""
    rows: list[Record] = []
    for env in collection.envs:
        baseline = reference(collection)
        theirs = collection.scores(baseline, env)
        for method in collection.methods:
            ours = collection.scores(method, env)
            if method != baseline and len(ours) and len(theirs):
                found = statistics.permutation_test(ours, theirs)
                row: Record = {"env": env, "method": method, "reference": baseline, "runs": len(ours), "others": len(theirs)}
                row |= {"fields": _how_different(collection.of(baseline, env)[0], collection.of(method, env)[0])}
                rows.append(row | found._asdict() | {"verdict": found.verdict})
    return rows


def normalised_scores(collection: Collection, method: str) -> np.ndarray:
    """Normalised scores of a method [runs, environments]; NaN pads environments with fewer runs."""
    columns = []
    for env in collection.envs:
        low, high, _ = scale(collection, env)
        columns.append(statistics.normalised(collection.scores(method, env), low, high))
    return _padded(columns)


def overall(collection: Collection) -> Record:
    """Comparisons over all environments, for the methods that have runs on every one of them."""
    complete = [method for method in collection.methods if all(collection.of(method, env) for env in collection.envs)]
    if not complete:
        return {"methods": []}
    tables = {method: normalised_scores(collection, method) for method in complete}
    baseline = reference(collection) if reference(collection) in complete else complete[0]
    finite = np.concatenate([table[np.isfinite(table)] for table in tables.values()])
    thresholds = np.linspace(min(0.0, float(finite.min())), max(float(finite.max()), 0.01) * 1.02, PROFILE_POINTS)
    found: Record = {"methods": complete, "reference": baseline, "thresholds": thresholds, "rows": [], "profile": {}}
    for method, table in tables.items():
        middle = statistics.interval(table, statistics.iqm, _rng())
        runs = np.isfinite(table).sum(0)
        row = {"method": method, "runs": runs.max(), "iqm": middle.value, "low": middle.low, "high": middle.high}
        row |= {"mean": statistics.mean(table), "median": statistics.median(table)}
        if method != baseline:
            better = statistics.improvement_interval(tables[baseline], table, _rng())
            row |= {"improvement": better.value, "improvement_low": better.low, "improvement_high": better.high}
        found["rows"].append(row)
        found["profile"][method] = statistics.profile_interval(table, thresholds, _rng(), CURVE_RESAMPLES)._asdict()
    return found | efficiency(collection, complete)


def efficiency(collection: Collection, methods: list[str]) -> Record:
    """Sample-efficiency curves: the interquartile mean of normalised returns by the completed fraction of training."""
    last_steps = {env: collection.final_step(env) for env in collection.envs}
    runs = [run for method in methods for env in collection.envs for run in collection.of(method, env)]
    first = max(float(run.evaluations["step"][0]) / last_steps[run.env] for run in runs)
    fractions = np.linspace(min(first, 1.0), 1.0, EFFICIENCY_POINTS) if first < 1 else np.array([1.0])
    found = {}
    for method in methods:
        columns = []
        for env in collection.envs:
            low, high, _ = scale(collection, env)
            values = [_return_at(run, fractions * last_steps[env]) for run in collection.of(method, env)]
            columns.append(statistics.normalised(np.array(values), low, high))
        found[method] = statistics.efficiency_curve(_padded(columns), _rng(), CURVE_RESAMPLES)._asdict()
    return {"fractions": fractions, "efficiency": found}


def cost_rows(collection: Collection) -> list[Record]:
    """Training time and speed of each method on each environment, over all runs that have a progress.csv."""
    rows = []
    for method in collection.methods:
        for env in collection.envs:
            timings = [run.timing for run in collection.runs if (run.method, run.env) == (method, env) and run.timing]
            if timings:
                steps, seconds = (sum(column) for column in zip(*timings, strict=True))
                row: Record = {"method": method, "env": env, "runs": len(timings), "steps": steps, "hours": seconds / 3600}
                rows.append(row | {"speed": steps / seconds, "minutes_each": seconds / len(timings) / 60})
    return rows


def shared_rows(collection: Collection, others: Sequence[Record]) -> list[Record]:
    """A row per external result at a step that our runs cover: both returns, ours interpolated between evaluations."""
    rows = []
    for other in others:
        common = {name: other[name] for name in ("method", "env", "our_env", "source")}
        curves = {name: stacked(group) for name in collection.methods if (group := collection.shown(name, other["our_env"]))}
        for step, value in zip(other["steps"], other["mean"], strict=True):
            ours = {
                name: float(np.interp(step, steps, values.mean(0)))
                for name, (steps, values) in curves.items()
                if steps.size and steps[0] <= step <= steps[-1]
            }
            if ours:
                rows.append({**common, "step": step, "value": value, "ours": ours})
    return rows


def recipe_differences(collection: Collection) -> list[Record]:
    """By method: its one-line summary, and the fields in which it differs from the reference on the same environment."""
    found = []
    for method in collection.methods:
        baseline, env = _baseline(collection, method)
        first, second = collection.shown(baseline, env)[0], collection.shown(method, env)[0]
        algo = str(second.description["algo"])
        record: Record = {
            "method": method,
            "algo": algo,
            "summary": ALGORITHMS[algo].summary if algo in ALGORITHMS else "",
            "reference": baseline,
            "env": env,
        }
        found.append(record | {"fields": _fields(first, second), "by_task": _by_task(collection, method)})
    return found


def _baseline(collection: Collection, method: str) -> tuple[str, str]:
    """The method to compare with, and the environment: the reference, or the first method that shares an environment."""
    for other in (reference(collection), *collection.methods):
        for env in collection.envs:
            if collection.shown(method, env) and collection.shown(other, env):
                return other, env
    raise AssertionError(f"{method} has no runs")


def _fields(first: Run, second: Run) -> list[tuple[str, Any, Any]]:
    """Fields whose values differ, with both; the family first, if it does."""
    sides = []
    for run in (first, second):
        algo = str(run.description["algo"])
        family = {"family": RECIPES[algo].family} if algo in RECIPES else {}
        sides.append(family | run.recipe)
    return [(name, *pair) for name, pair in differences(*sides).items()]


def _how_different(first: Run, second: Run) -> str:
    """In how many fields two recipes differ, or that they are of different families."""
    found = _fields(first, second)
    return "another family" if "family" in {name for name, *_ in found} else counted(len(found), "field")


def _by_task(collection: Collection, method: str) -> list[tuple[str, dict[str, Any]]]:
    """The fields of a method's recipe that differ between environments, with their values."""
    recipes = {env: group[0].recipe for env in collection.envs if (group := collection.shown(method, env))}
    first = next(iter(recipes.values()))
    names = [name for name in first if any(recipe.get(name) != first[name] for recipe in recipes.values())]
    return [(name, {env: recipe.get(name) for env, recipe in recipes.items()}) for name in names]


def _return_at(run: Run, steps: np.ndarray) -> np.ndarray:
    """The return of a run at these steps, interpolated between evaluations."""
    return np.interp(steps, run.evaluations["step"], run.evaluations["return_mean"])


def _padded(columns: list[np.ndarray]) -> np.ndarray:
    """Columns [runs of a task, ...] of different lengths as one array [most runs, tasks, ...], padded with NaN."""
    table = np.full((max(map(len, columns)), len(columns), *columns[0].shape[1:]), np.nan)
    for task, column in enumerate(columns):
        table[: len(column), task] = column
    return table


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)
