"""The interface of an executor: something that runs the jobs of a study, each in a process of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

KILLED = -9
"""The exit code of a process that was killed."""


class Job(NamedTuple):
    """A run to be trained: its folder, the words of `gemrl train`, and where its process may talk."""

    folder: Path
    words: tuple[str, ...]
    log: Path


@dataclass(frozen=True)
class ExecutorOptions:
    """What a user asks of an executor."""

    workers: int | None = None
    """Runs at a time; None leaves it to the executor."""
    address: str | None = None
    gpus_per_run: float = 0.0


class Process(Protocol):
    """A job that executes somewhere."""

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""

    def stop(self) -> None:
        """Asks it to write a checkpoint and end."""

    def kill(self) -> None:
        """Ends it at once."""


class Executor(Protocol):
    """Something that can start jobs."""

    slots: int
    """How many jobs it may be given."""
    at_once: int
    """How many of them execute at a time."""

    def start(self, job: Job) -> Process:
        """Starts a job, or goes on with it from its last checkpoint."""

    def close(self) -> None:
        """Gives back what it holds."""
