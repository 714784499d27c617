"""Numbers that compare methods, for queries that begin with their names: p-values, and statistics over all tasks of a study."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from gemrl.analysis.report.summary import overall
from gemrl.analysis.results.collection import collect
from gemrl.analysis.results.scales import REFERENCES
from gemrl.analysis.statistics import LIKELY, permutation_test
from tests.numbers.sources import ROOT, SCORED, NoSource, curves


def scores(path: str) -> np.ndarray:
    """The score of each run at a path."""
    return np.array([curve.value[-SCORED:].mean() for curve in curves(path, "return")])


def p(first: str, second: str) -> list[float]:
    """The p-value of the difference between the scores of two groups of runs."""
    return [permutation_test(scores(first), scores(second)).p]


def likely(study: str, method: str) -> list[float]:
    """In how many comparisons with another method on a task a method is likely better, and how many there are."""
    folder = ROOT / "results" / study
    pairs = [(task.name, other.name) for task in (folder / method).iterdir() for other in folder.iterdir() if other.is_dir()]
    tests = [
        permutation_test(scores(f"{study}/{method}/{task}"), scores(f"{study}/{other}/{task}"))
        for task, other in pairs
        if other != method
    ]
    return [sum(test.value > 0 and test.p <= LIKELY for test in tests), len(tests)]


@cache
def report(study: str) -> dict[str, dict[str, Any]]:
    """The numbers over all tasks of a study, by method, as `gemrl report` has them."""
    return {row["method"]: row for row in overall(collect(ROOT / "results" / study))["rows"]}


def iqm(study: str, method: str) -> list[float]:
    """The interquartile mean of a method's normalized scores, and the bounds of its interval."""
    return [float(report(study)[method][name]) for name in ("iqm", "low", "high")]


def improvement(study: str, method: str) -> list[float]:
    """The probability that a run of the reference beats one of this method."""
    return [float(report(study)[method]["improvement"])]


def lapses(path: str, bound: str) -> list[float]:
    """The percentage of evaluations below a bound, of all those of all runs that came after the first that reached it."""
    reached = [curve.value >= float(bound) for curve in curves(path, "return")]
    later = np.concatenate([run[int(run.argmax()) + 1 :] for run in reached if run.any()])
    return [100 * float((~later).mean())]


def random(task: str) -> list[float]:
    """The return of random play."""
    return [REFERENCES[task][0]]


def normalized(*pairs: str) -> list[float]:
    """The mean over tasks of (return - random play) / (TD3 at a million steps - random play); each is `Task=return` or
    `Task=path`, which stands for the mean score of these runs."""
    found = []
    for pair in pairs:
        task, sign, value = pair.partition("=")
        if not sign or task not in REFERENCES:
            raise NoSource(f"{pair!r} should be a task and its return, as in Hopper=1,386")
        result = scores(value).mean() if "/" in value else float(value.replace(",", ""))
        low, high, _ = REFERENCES[task]
        found.append((result - low) / (high - low))
    return [float(np.mean(found))]


COMPARISONS: dict[str, Callable[..., list[float]]] = {
    "p": p,
    "likely": likely,
    "iqm": iqm,
    "improvement": improvement,
    "lapses": lapses,
    "random": random,
    "normalized": normalized,
}
