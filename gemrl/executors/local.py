"""Where the runs of a study execute: each in a process of its own, here or on a cluster."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from gemrl.executors.worker import command

KILLED = -9
"""The exit code of a process that was killed."""


class Job(NamedTuple):
    """A run to be trained: its folder, the words of `gemrl train`, and where its process may talk."""

    folder: Path
    words: tuple[str, ...]
    log: Path


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


class LocalProcess:
    """A process on this machine."""

    def __init__(self, job: Job, environment: Mapping[str, str] | None = None, cwd: str | None = None) -> None:
        job.log.parent.mkdir(parents=True, exist_ok=True)
        with job.log.open("a") as log:
            self._process = subprocess.Popen(
                command(job.folder, job.words),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                cwd=cwd,
                start_new_session=True,  # a terminal's Ctrl-C is for the study alone, which then stops its runs one by one
            )

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        code = self._process.poll()
        if code is not None:
            self.stop()
        return code

    def stop(self) -> None:
        """Closes its pipe, at which it writes a checkpoint and ends."""
        if self._process.stdin and not self._process.stdin.closed:
            self._process.stdin.close()

    def kill(self) -> None:
        """Ends it at once, and what its environment may have started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # it leads a session of its own
        self._process.wait()
        self.stop()


class Local:
    """Processes on this machine, `workers` at a time."""

    def __init__(self, workers: int) -> None:
        self.slots = self.at_once = workers

    def start(self, job: Job) -> LocalProcess:
        """Starts a process for the job."""
        return LocalProcess(job)

    def close(self) -> None:
        """There is nothing to give back."""
