"""Clocks and processes: contestants take turns, each in a process of its own, and only one of them works at a time."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

Key = TypeVar("Key")
Samples = dict[str, list[float]]
"""The seconds of every repetition, by contestant."""


def seconds(call: Callable[[], Any]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def alternate(turns: Mapping[Key, Callable[[], float]], repeats: int) -> dict[Key, list[float]]:
    """What each turn measured: A B C A B C ..., so that a slow minute is slow for all. The first time round is not counted."""
    samples: dict[Key, list[float]] = {name: [] for name in turns}
    for repeat in range(repeats + 1):
        for name, turn in turns.items():
            spent = turn()
            if repeat:
                samples[name].append(spent)
    return samples


def medians(samples: Samples) -> dict[str, float]:
    """The median of each contestant's repetitions."""
    return {name: statistics.median(values) for name, values in samples.items()}


def resident() -> int:
    """Bytes of this process that are in memory now; Linux alone tells them."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def processors() -> list[int]:
    """The processors that this process may use."""
    return sorted(os.sched_getaffinity(0))


@contextmanager
def process(threads: int) -> Iterator[Callable[..., Any]]:
    """A child process that sees `threads` processors; calling what is yielded runs a function in it."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        with _confined(threads):
            pool.submit(os.getpid).result()
        yield lambda function, *arguments: pool.submit(function, *arguments).result()


@contextmanager
def _confined(threads: int) -> Iterator[None]:
    """For a moment this thread has what its children inherit: libraries size their thread pools by it when they are loaded."""
    before, allowed = dict(os.environ), processors()
    os.environ.update(OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads), JAX_PLATFORMS="cpu")
    os.sched_setaffinity(0, allowed[:threads])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
        os.environ.clear()
        os.environ.update(before)
