"""The interface of a tracker, and what it is told about the run."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from gemrl.core.exceptions import MissingExtra


class Tracker(Protocol):
    """Receives the metrics of a training."""

    def write(self, metrics: Mapping[str, float], step: int) -> None:
        """Logs metrics by name, as they are at an environment step."""

    def close(self) -> None:
        """Flushes everything to where it is kept."""


@dataclass(frozen=True)
class RunInfo:
    """What a tracker may want to know about the run it logs."""

    name: str
    group: str
    """Runs that differ only in their seed belong to one group."""
    id: str
    """Unique, and kept when a run is resumed."""
    folder: Path = Path()
    config: Mapping[str, Any] = field(default_factory=dict)
    logged_until: int = 0
    """The last step that was logged before the run was resumed."""


class Opener(Protocol):
    """A tracker class that a name in TRACKERS stands for."""

    package: str
    """The Python package that it needs; the extra of gemrl has the same name."""

    def __call__(self, info: RunInfo) -> Tracker:
        """A tracker that logs this run."""

    @staticmethod
    def location(info: RunInfo) -> str:
        """How to look at the run, in a few words."""


def check_installed(module: str, extra: str) -> None:
    """Raises if a package that a tracker needs is not installed."""
    try:
        importlib.import_module(module)
    except ImportError:
        raise MissingExtra(f"{module} is not installed: pip install 'gemrl[{extra}]'") from None
