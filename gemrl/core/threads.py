"""The number of compute threads. It affects rounding, so a run keeps its number. It is set before numpy and JAX are imported."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from gemrl.core.validation import MAX_THREADS

LIBRARIES = ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Environment variables that set the number of threads of XLA, OpenMP and numpy's matrix multiplication."""


def thread_count() -> int:
    """The number of threads that this process uses to compute."""
    requested = os.environ.get(LIBRARIES[0], "")
    if requested.isdecimal() and int(requested):
        return int(requested)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def set_threads(arguments: Sequence[str]) -> None:
    """Sets the number of threads from a command line: `--threads N`, or for `resume RUN` the number the run was started with."""
    number = thread_count()
    for argument, next_argument in pairwise([*arguments, ""]):
        name, _, value = argument.partition("=")
        if name == "--threads":
            value = value or next_argument
            number = int(value) if value.isdecimal() and len(value) < 10 else number
    if arguments[:1] == ["resume"]:
        number, flags = _recorded_settings(arguments[1:]) or (number, None)
        if flags is not None:
            os.environ["XLA_FLAGS"] = flags
    if 1 <= number <= MAX_THREADS:  # otherwise the command refuses it, once it can print an error
        for library in LIBRARIES:
            os.environ[library] = str(number)


def _recorded_settings(arguments: Sequence[str]) -> tuple[int, str] | None:
    """Threads and compiler flags of the run in the first argument that is a run folder; None if there is none."""
    for argument in arguments:
        try:
            run = json.loads(Path(argument, "run.json").read_bytes())
            return int(run["threads"]), str(run["xla_flags"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
    return None
