"""How many threads to compute on: it changes rounding, so a run keeps its number. Settled before numpy and JAX are loaded."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

LIBRARIES = ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Where XLA, OpenMP and numpy's matrix multiply look for their number of threads."""


def thread_count() -> int:
    """The number of threads that this process computes on."""
    told = os.environ.get(LIBRARIES[0], "")
    if told.isdecimal() and int(told):
        return int(told)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def settle(words: Sequence[str]) -> None:
    """Sets what the words of a command line ask for: `--threads N`, or for `resume RUN` what that run began with."""
    number = thread_count()
    for word, following in pairwise([*words, ""]):
        name, _, value = word.partition("=")
        if name == "--threads":
            value = value or following
            number = int(value) if value.isdecimal() and int(value) else number
    if words[:1] == ["resume"]:
        number, flags = _recorded(words[1:]) or (number, None)
        if flags is not None:
            os.environ["XLA_FLAGS"] = flags
    for library in LIBRARIES:
        os.environ[library] = str(number)


def _recorded(words: Sequence[str]) -> tuple[int, str] | None:
    """Threads and compiler flags of the first word that is a run's folder."""
    for word in words:
        try:
            run = json.loads(Path(word, "run.json").read_bytes())
            return int(run["threads"]), str(run["xla_flags"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
    return None
