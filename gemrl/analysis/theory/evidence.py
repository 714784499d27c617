"""Helpers of the theory experiments: findings, means with confidence intervals, and the expected maximum of normals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Finding:
    """The outcome of one experiment: a verdict, a one-line summary, and the data of its figure."""

    name: str
    verdict: str
    summary: str
    data: dict[str, Any]

    @property
    def line(self) -> str:
        """Name, verdict and summary in one line."""
        return f"{self.name}: {self.verdict}: {self.summary}"


class Mean(NamedTuple):
    """A mean, its standard error, and the number of samples."""

    value: float
    error: float
    samples: int

    @classmethod
    def of(cls, samples: Array) -> Mean:
        """The mean of independent samples [N], N >= 2."""
        return cls(float(samples.mean()), float(samples.std(ddof=1) / np.sqrt(len(samples))), len(samples))

    def interval(self, comparisons: int = 1) -> tuple[float, float]:
        """The 95% confidence limits, corrected for this many simultaneous comparisons (Bonferroni)."""
        half = quantile(self.samples - 1, comparisons) * self.error
        return self.value - half, self.value + half

    def minus(self, other: Mean) -> Mean:
        """The difference of two independent means, with the smaller of both sample counts."""
        return Mean(self.value - other.value, float(np.hypot(self.error, other.error)), min(self.samples, other.samples))

    def text(self, comparisons: int = 1) -> str:
        """The mean and its confidence limits as text."""
        low, high = self.interval(comparisons)
        return f"{self.value:+.3f} [{low:+.3f}, {high:+.3f}]"


@cache
def quantile(freedom: float = np.inf, comparisons: int = 1) -> float:
    """The half-width of a 95% interval in standard errors: Student's t, corrected for simultaneous comparisons (Bonferroni)."""
    tail = 0.025 / comparisons
    if freedom > 1000:  # t and the normal differ by less than 1% there
        return NormalDist().inv_cdf(1 - tail)
    # With t = sqrt(freedom) tan(angle) the density is a power of a cosine on a bounded interval.
    angle = np.linspace(0, np.pi / 2, 100_001)
    density = np.cos((angle[1:] + angle[:-1]) / 2) ** (freedom - 1)
    beyond = np.append(density[::-1].cumsum()[::-1], 0.0) / (2 * density.sum())
    return float(np.sqrt(freedom) * np.tan(np.interp(-tail, -beyond, angle)))


def share(successes: int, trials: int) -> str:
    """The text "k of n" with Wilson's 95% interval of the success rate."""
    rate, spread = successes / trials, quantile() ** 2 / trials
    centre, half = rate + spread / 2, np.sqrt(spread * (rate * (1 - rate) + spread / 4))
    low, high = (centre - half) / (1 + spread), (centre + half) / (1 + spread)
    return f"{successes} of {trials} (95% interval {100 * low:.0f}-{100 * min(high, 1):.0f}%)"


def expected_maximum(count: int) -> float:
    """The expected maximum of `count` standard normals, by quadrature."""
    edges = np.linspace(-9, 9, 18_001)
    below = np.array([NormalDist().cdf(x) for x in edges]) ** count
    return float(((edges[1:] + edges[:-1]) / 2 * np.diff(below)).sum())
