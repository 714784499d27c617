"""The interface of a tracker, and the description of a run that it gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


class Tracker(Protocol):
    """Receives training metrics."""

    def write(self, metrics: Mapping[str, float], step: int) -> None:
        """Logs the metrics at an environment step."""

    def close(self) -> None:
        """Writes everything that is still buffered and ends the tracking."""


@dataclass(frozen=True)
class RunInfo:
    """The description of a run for trackers."""

    name: str
    group: str
    """The same for runs that differ only in their seed."""
    id: str
    """Unique; a resumed run keeps it."""
    folder: Path = Path()
    config: Mapping[str, Any] = field(default_factory=dict)
    logged_until: int = 0
    """The last step that was logged before the run was resumed."""


class Opener(Protocol):
    """A tracker class that is listed in TRACKERS."""

    package: str
    """The Python package that it needs; the extra of gemrl has the same name."""

    def __call__(self, info: RunInfo) -> Tracker:
        """A tracker that logs this run."""

    @staticmethod
    def location(info: RunInfo) -> str:
        """Where to find the run, in a few words."""
