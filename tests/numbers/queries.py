"""Queries: `mujoco/gem/Hopper-v5 score mean, score std` is the mean and the deviation of the scores of three runs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise

import numpy as np
from scipy.special import stdtrit

from tests.numbers.comparisons import COMPARISONS
from tests.numbers.sources import COLUMNS, SCORED, Curve, NoSource, curves


def at(curve: Curve, step: float) -> float:
    """The value at a step."""
    if step not in curve.step:
        raise NoSource(f"no evaluation at step {step:,.0f}")
    return float(curve.value[curve.step == step][0])


def first(curve: Curve, bound: float) -> int:
    """The position of the first value that reaches a bound."""
    reached = curve.value >= bound
    if not reached.any():
        raise NoSource(f"no evaluation reaches {bound}")
    return int(reached.argmax())


def interval(values: np.ndarray) -> tuple[float, float]:
    """Student's 95% interval of the mean of independent values."""
    half = stdtrit(len(values) - 1, 0.975) * values.std(ddof=1) / np.sqrt(len(values))
    return values.mean() - half, values.mean() + half


OF_CURVES: dict[str, Callable[[Curve, float], Curve]] = {
    "from": lambda curve, step: Curve(*(part[curve.step >= step] for part in curve)),
    "to": lambda curve, step: Curve(*(part[curve.step <= step] for part in curve)),
}
"""A part of each curve."""

OF_A_CURVE: dict[str, Callable[[Curve, float], float]] = {
    "at": at,
    "first": lambda curve, bound: float(curve.step[first(curve, bound)]),
    "held": lambda curve, bound: float(100 * (curve.value[first(curve, bound) :] >= bound).mean()),
    "last": lambda curve, _: float(curve.value[-1]),
    "score": lambda curve, _: float(curve.value[-SCORED:].mean()),
}
"""One value of each run: at a step, the step at which a bound is first reached, the percentage of evaluations from then on that
reach it, at the end, the score."""

OF_VALUES: dict[str, Callable[[np.ndarray], float]] = {
    "mean": np.mean,
    "median": np.median,
    "min": np.min,
    "max": np.max,
    "std": lambda values: values.std(ddof=1),
    "low": lambda values: interval(values)[0],
    "high": lambda values: interval(values)[1],
}
"""One value of many: of a curve's, or, once each run has one, of all runs'. `low` and `high` are a 95% interval."""

WORDS = (*COLUMNS, "abs", "averaged", "all", *OF_CURVES, *OF_A_CURVE, *OF_VALUES)
"""All words of a query. `abs` takes away signs, `averaged` makes one curve of all seeds', and `all` keeps every evaluation."""

WITH_NUMBER = {"at", "from", "to", "first", "held"}


@cache
def answer(query: str) -> list[float]:
    """The numbers that a query gives, in order. Several questions to the same runs are separated by commas, and a lone
    `-` or `/` between two queries takes their differences or ratios."""
    try:
        words = shlex.split(query)
        for sign, combine in (("-", np.subtract), ("/", np.divide)):
            if sign in words:
                cut = words.index(sign)
                return list(combine(ask(words[:cut]), ask(words[cut + 1 :])))
        return ask(words)
    except (ValueError, TypeError, LookupError) as error:
        raise NoSource(f"{query!r} is no query ({error})") from None


def ask(words: list[str]) -> list[float]:
    """The numbers that a path, or the name of a comparison, and the words after it give."""
    path, *rest = words
    if path in COMPARISONS:
        return COMPARISONS[path](*rest)
    return [value for group in " ".join(rest).split(",") for value in follow(path, group.split())]


def follow(path: str, words: list[str]) -> list[float]:
    """What words, one after the other, make of the curves of runs."""
    column = words.pop(0) if words and words[0] in COLUMNS else "return"
    kept: list[Curve] = curves(path, column)
    values: np.ndarray | None = None
    left = iter(words)
    for word in left:
        number = amount(left) if word in WITH_NUMBER else 0.0
        if word == "abs":
            kept = [Curve(curve.step, abs(curve.value)) for curve in kept]
            values = None if values is None else abs(values)
        elif word == "averaged":
            kept = [Curve(kept[0].step, np.mean([curve.value for curve in kept], axis=0))]
        elif word in OF_CURVES:
            kept = [OF_CURVES[word](curve, number) for curve in kept]
        elif word == "all":
            values = np.concatenate([curve.value for curve in kept])
        elif word in OF_A_CURVE:
            values = np.array([OF_A_CURVE[word](curve, number) for curve in kept])
        elif word not in OF_VALUES:
            raise NoSource(f"{word!r} is none of: {', '.join(WORDS)}")
        elif values is None:
            values = np.array([OF_VALUES[word](curve.value) for curve in kept])
        else:
            values = np.array([OF_VALUES[word](values)])
    if values is None:
        raise NoSource("a question needs a word that gives one value of each run, such as `last` or `score`")
    return [float(value) for value in values]


def amount(words: Iterator[str]) -> float:
    """The next word as a number; `10k` is 10,000."""
    word = next(words, "")
    match = re.fullmatch(r"(-?\d+(?:\.\d+)?)(k?)", word)
    if match is None:
        raise NoSource(f"{word!r} should be a number")
    return float(match[1]) * (1000 if match[2] else 1)


def amounts(query: str) -> set[float]:
    """The steps and bounds that a query names."""
    words = [word.rstrip(",") for word in shlex.split(query)]
    return {amount(iter([after])) for word, after in pairwise(words) if word in WITH_NUMBER}
