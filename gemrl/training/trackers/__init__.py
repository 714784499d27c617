"""Where the metrics of a training go: CSV, TensorBoard, trackio, Weights & Biases. `gemrl train` and `Model.learn` share them.

A new tracker is one class with `write` and `close`. Listed in `TRACKERS`, it is also a choice of `gemrl train --track`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from gemrl.core.suggestions import unknown
from gemrl.training.trackers.base import Opener, RunInfo, Tracker
from gemrl.training.trackers.services import Trackio, Wandb

TRACKERS: dict[str, Opener] = {"trackio": Trackio, "wandb": Wandb}
"""The trackers that a name opens, for `gemrl train --track NAME` and `model.learn(trackers=[NAME])`."""


def tracker_named(name: str) -> Opener:
    """The class of the tracker of that name."""
    if name not in TRACKERS:
        raise unknown("tracker", name, TRACKERS, f"; known: {', '.join(TRACKERS)}")
    return TRACKERS[name]


@contextmanager
def opened(chosen: Iterable[str | Tracker], info: RunInfo) -> Iterator[list[Tracker]]:
    """Trackers by name or as objects, ready to write; all of them are closed at the end, even if one fails."""
    with ExitStack() as stack:
        trackers: list[Tracker] = []
        for one in chosen:
            tracker = tracker_named(one)(info) if isinstance(one, str) else one
            trackers.append(tracker)
            stack.callback(tracker.close)
        yield trackers
