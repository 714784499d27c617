"""Timing: contestants run in separate processes and take turns, so that only one of them works at a time."""

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
    """The measurements in the order A B C A B C ..., so that a slow minute affects all. The first round is not counted."""
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
    """The resident memory of this process in bytes (Linux only)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def processors() -> list[int]:
    """The processors that this process may use."""
    return sorted(os.sched_getaffinity(0))


@contextmanager
def process(threads: int) -> Iterator[Callable[..., Any]]:
    """A child process limited to `threads` processors; yields a function that runs calls in it."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        with _confined(threads):
            pool.submit(os.getpid).result()
        yield lambda function, *arguments: pool.submit(function, *arguments).result()


@contextmanager
def _confined(threads: int) -> Iterator[None]:
    """Temporarily sets the affinity and variables that children inherit and by which libraries size their thread pools."""
    before, allowed = dict(os.environ), processors()
    os.environ.update(OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads), JAX_PLATFORMS="cpu")
    os.sched_setaffinity(0, allowed[:threads])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
        os.environ.clear()
        os.environ.update(before)
