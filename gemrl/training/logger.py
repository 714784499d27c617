"""The logger collects values by name and writes them to every tracker. Its methods are those of Stable-Baselines3."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any

from gemrl.training.trackers.base import Tracker


class Logger:
    """Collects values by name; `dump` writes them to all trackers."""

    def __init__(self, trackers: Sequence[Tracker] = ()) -> None:
        self.name_to_value: dict[str, Any] = {}
        self.name_to_count: dict[str, int] = {}
        self._trackers = tuple(trackers)

    def record(self, key: str, value: Any, exclude: Any = None) -> None:
        """Sets a value."""
        self.name_to_value[key] = value

    def record_mean(self, key: str, value: Any, exclude: Any = None) -> None:
        """Updates the mean of the values recorded under this name."""
        count = self.name_to_count[key] = self.name_to_count.get(key, 0) + 1
        mean = self.name_to_value.get(key, 0.0)
        self.record(key, mean + (value - mean) / count)

    def dump(self, step: int = 0) -> None:
        """Writes the numbers to every tracker, then clears all values."""
        metrics = {key: float(value) for key, value in self.name_to_value.items() if isinstance(value, numbers.Real)}
        for tracker in self._trackers:
            tracker.write(metrics, step)
        self.name_to_value, self.name_to_count = {}, {}


def log(logger: Any, metrics: Mapping[str, float], step: int, verbose: int = 0) -> None:
    """Writes metrics, and values that callbacks recorded, to gemrl's or Stable-Baselines3's logger; prints them if verbose."""
    for name, value in metrics.items():
        logger.record(name, value)
    if verbose and isinstance(logger, Logger):  # other loggers print as they were configured
        print(", ".join(f"{name} {_formatted(value)}" for name, value in logger.name_to_value.items()))
    logger.dump(step)


def _formatted(value: Any) -> str:
    """A number with six significant digits; anything else as text."""
    return f"{value:,.6g}" if isinstance(value, numbers.Real) else str(value)
