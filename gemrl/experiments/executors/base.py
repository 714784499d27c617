"""The interface of an executor, which runs each job of a study in a separate process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

KILLED = -9
"""Exit code of a process that was killed."""


class Job(NamedTuple):
    """A run to train: its folder, the arguments of `gemrl train`, and the file for the output of its process."""

    folder: Path
    arguments: tuple[str, ...]
    log: Path


@dataclass(frozen=True)
class ExecutorOptions:
    """The options of an executor."""

    workers: int | None = None
    """Runs at a time; None lets the executor decide."""
    address: str | None = None
    gpus_per_run: float = 0.0


class Process(Protocol):
    """A job that was started."""

    def poll(self) -> int | None:
        """The exit code, or None while it is running."""

    def stop(self) -> None:
        """Asks it to write a checkpoint and exit."""

    def kill(self) -> None:
        """Kills it."""


class Executor(Protocol):
    """Starts jobs."""

    slots: int
    """How many jobs may be started at the same time."""
    at_once: int
    """How many of them really run at the same time."""

    def start(self, job: Job) -> Process:
        """Starts a job, or resumes it from its last checkpoint."""

    def close(self) -> None:
        """Releases its resources."""
