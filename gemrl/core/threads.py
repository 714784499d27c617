"""The number of compute threads and the compiler flags. Both affect rounding, so a run keeps them.

They are set before numpy and JAX are imported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from gemrl.core.exceptions import ModelFileError, RunFolderError
from gemrl.core.reading import JSON_BYTES, parse_json, read_limited
from gemrl.core.validation import MAX_THREADS

LIBRARIES = ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Environment variables that set the number of threads of XLA, OpenMP and numpy's matrix multiplication."""

KEPT_FLAGS = {
    "xla_backend_optimization_level": "[0-3]",
    "xla_cpu_use_fusion_emitters": "true|false",
    "xla_cpu_enable_fast_math": "true|false",
    "xla_cpu_multi_thread_eigen": "true|false",
    "xla_gpu_deterministic_ops": "true|false",
}
"""The flags of XLA that a run keeps, because they change results, with their values.

A run.json may come from a stranger, and other flags write files (xla_dump_to) or end the process.
"""


def thread_count() -> int:
    """The number of threads that this process uses to compute."""
    requested = os.environ.get(LIBRARIES[0], "")
    if requested.isdecimal() and int(requested):
        return int(requested)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def kept_flags() -> str:
    """Those of the flags in XLA_FLAGS that a run keeps."""
    return " ".join(flag for flag in os.environ.get("XLA_FLAGS", "").split() if _is_kept(flag))


def check_flags(flags: str) -> None:
    """Raises RunFolderError if the flags in a run.json contain one that a run does not keep."""
    for flag in flags.split():
        if not _is_kept(flag):
            name = flag.partition("=")[0][:60]
            raise RunFolderError(
                f"xla_flags in run.json contains {name!r}, which gemrl does not take from a file: "
                "remove it there, and set XLA_FLAGS yourself if you want it"
            )


def _is_kept(flag: str) -> bool:
    name, _, value = flag.removeprefix("--").partition("=")
    return flag.startswith("--") and name in KEPT_FLAGS and re.fullmatch(KEPT_FLAGS[name], value) is not None


def set_threads(arguments: Sequence[str]) -> None:
    """Sets the number of threads from a command line: `--threads N`, or for `resume RUN` the number the run was started with."""
    number = thread_count()
    for argument, next_argument in pairwise([*arguments, ""]):
        name, _, value = argument.partition("=")
        if name == "--threads":
            value = value or next_argument
            number = int(value) if value.isdecimal() and len(value) < 10 else number
    if arguments[:1] == ["resume"]:
        number, flags = _recorded_settings(arguments[1:]) or (number, kept_flags())
        own = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if not _is_kept(flag)]
        os.environ["XLA_FLAGS"] = " ".join([*flags.split(), *own])
    if 1 <= number <= MAX_THREADS:  # otherwise the command refuses it, once it can print an error
        for library in LIBRARIES:
            os.environ[library] = str(number)


def _recorded_settings(arguments: Sequence[str]) -> tuple[int, str] | None:
    """Threads and compiler flags of the run in the first argument that is a run folder; None if there is none.

    What is wrong with a run.json is reported later, by whoever reads all of it.
    """
    for argument in arguments:
        try:
            file = Path(argument, "run.json")
            run = parse_json(read_limited(file, JSON_BYTES), file)
            threads, flags = run["threads"], str(run["xla_flags"])
            check_flags(flags)
        except (ModelFileError, RunFolderError, KeyError):
            continue
        if type(threads) is int and 1 <= threads <= MAX_THREADS:
            return threads, flags
    return None
