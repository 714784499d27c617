"""Runs of a study as processes on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from gemrl.core.exceptions import BadValue
from gemrl.core.threads import thread_count
from gemrl.experiments.executors.base import ExecutorOptions, Job

WORKER = "gemrl.cli.worker"
"""The module that is the process of one run. It is started by name: the command line is above this layer."""


def command(folder: Path, words: Sequence[str]) -> list[str]:
    """What starts the run of these words of `gemrl train`, or goes on with it."""
    begun = (folder / "run.json").exists()
    return [sys.executable, "-m", WORKER, *(["resume", str(folder)] if begun else words)]


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

    @staticmethod
    def of(options: ExecutorOptions) -> Local:
        """The executor that these options ask for; one worker per core by default."""
        if options.address or options.gpus_per_run:
            raise BadValue(f"{'--address' if options.address else '--gpus-per-run'} is for --executor ray")
        return Local(options.workers or thread_count())

    def start(self, job: Job) -> LocalProcess:
        """Starts a process for the job."""
        return LocalProcess(job)

    def close(self) -> None:
        """There is nothing to give back."""
