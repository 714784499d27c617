"""Executor that runs a study as processes on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from gemrl.core.exceptions import BadValue
from gemrl.core.links import open_to_append, refuse_links_between
from gemrl.core.reading import exists
from gemrl.core.threads import thread_count
from gemrl.experiments.executors.base import ExecutorOptions, Job

WORKER = "gemrl.cli.worker"
"""The module that a process runs. It is started by name, because the command line is above this layer."""


def command(folder: Path, arguments: Sequence[str]) -> list[str]:
    """The command that starts a run with these arguments of `gemrl train`, or resumes it."""
    started = exists(folder / "run.json")
    return [sys.executable, "-m", WORKER, *(["resume", str(folder)] if started else arguments)]


def open_log(path: Path) -> IO[str]:
    """The log of a job, to append to. Raises RunFolderError if it, or its folder, is a link."""
    refuse_links_between(path.parent.parent, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    return open_to_append(path)


class LocalProcess:
    """A process on this machine."""

    def __init__(self, job: Job, environment: Mapping[str, str] | None = None, cwd: str | None = None) -> None:
        with open_log(job.log) as log:
            self._process = subprocess.Popen(
                command(job.folder, job.arguments),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                cwd=cwd,
                start_new_session=True,  # Ctrl-C reaches only the study, which then stops its runs
            )

    def poll(self) -> int | None:
        """The exit code, or None while it is running."""
        code = self._process.poll()
        if code is not None:
            self.stop()
        return code

    def stop(self) -> None:
        """Closes its standard input, which makes it write a checkpoint and exit."""
        if self._process.stdin and not self._process.stdin.closed:
            self._process.stdin.close()

    def kill(self) -> None:
        """Kills it and any processes its environment has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # it is the leader of its own session
        self._process.wait()
        self.stop()


class Local:
    """Processes on this machine, `workers` at a time."""

    def __init__(self, workers: int) -> None:
        self.slots = self.at_once = workers

    @staticmethod
    def of(options: ExecutorOptions) -> Local:
        """The executor with these options; one worker per core by default."""
        if options.address or options.gpus_per_run:
            raise BadValue(f"{'--address' if options.address else '--gpus-per-run'} needs --executor ray")
        return Local(options.workers or thread_count())

    def start(self, job: Job) -> LocalProcess:
        """Starts a process for the job."""
        return LocalProcess(job)

    def close(self) -> None:
        """Does nothing: there are no resources to release."""
