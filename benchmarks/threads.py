"""How much faster GEM's round and its parts become with more threads."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Any

from benchmarks.round import Case, Round
from benchmarks.timing import alternate, process, seconds

PARTS = ("round", "refresh", "gradient_steps")

_here: list[Round] = []
"""The round of this process."""


def build(case: Case) -> None:
    """Builds the round of this process."""
    _here[:] = [Round(case)]


def timed(part: str) -> float:
    """The seconds that a part of this process's round takes."""
    return seconds(getattr(_here[0], part))


def measure(case: Case, counts: list[int], repeats: int) -> list[dict[str, Any]]:
    """One record per number of threads with the seconds of each part; each has its own process, and they take turns."""
    with ExitStack() as stack:
        workers = {count: stack.enter_context(process(count)) for count in counts}
        for worker in workers.values():
            worker(build, case)
        turns = {(count, part): partial(worker, timed, part) for part in PARTS for count, worker in workers.items()}
        samples = alternate(turns, repeats)
    return [{"threads": count, "seconds": {part: samples[count, part] for part in PARTS}} for count in counts]
