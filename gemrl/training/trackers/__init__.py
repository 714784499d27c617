"""Trackers, which write training metrics: CSV, TensorBoard, trackio, W&B. `gemrl train` and `Model.learn` share them.

A new tracker is one class with `write` and `close`. If it is listed in `TRACKERS`, `gemrl train --track` offers it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from gemrl.core.suggestions import unknown
from gemrl.training.trackers.base import Opener, RunInfo, Tracker
from gemrl.training.trackers.services import Trackio, Wandb

TRACKERS: dict[str, Opener] = {"trackio": Trackio, "wandb": Wandb}
"""Trackers that can be chosen by name, in `gemrl train --track NAME` and `model.learn(trackers=[NAME])`."""


def tracker_named(name: str) -> Opener:
    """The tracker class with this name."""
    if name not in TRACKERS:
        raise unknown("tracker", name, TRACKERS, f"; known: {', '.join(TRACKERS)}")
    return TRACKERS[name]


@contextmanager
def opened(chosen: Iterable[str | Tracker], info: RunInfo) -> Iterator[list[Tracker]]:
    """Opens trackers given by name or as objects; all of them are closed at the end, even if one fails."""
    with ExitStack() as stack:
        trackers: list[Tracker] = []
        for one in chosen:
            tracker = tracker_named(one)(info) if isinstance(one, str) else one
            trackers.append(tracker)
            stack.callback(tracker.close)
        yield trackers
