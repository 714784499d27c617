"""The loop that runs a study: it starts waiting runs, watches running ones and handles those that end, on any executor."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path

from gemrl.core.exceptions import ModelFileError
from gemrl.core.exit_codes import INTERRUPTED
from gemrl.core.locking import is_free
from gemrl.core.processes import Interrupts
from gemrl.core.reading import read_limited
from gemrl.experiments import checkpoints
from gemrl.experiments.executors.base import Executor, Process
from gemrl.experiments.studies.folder import Keep, PlannedRun, tidy, tidy_abandoned

MAX_ATTEMPTS = 2
"""How often a run that fails by itself is tried."""

MAX_KILLS = 4
"""How often a run may be killed from outside without writing a new checkpoint before it counts as failed."""

KILLED_CODES = {INTERRUPTED, 137, 143}
"""Exit codes of a process that was ended from outside, in addition to negative ones."""

LOG_BYTES = 64 << 20
"""The largest output of a run that is searched for its last line."""

POLL_SECONDS = 0.2
"""Seconds between two checks of all processes."""


class State(Enum):
    """The state of a run."""

    WAITING = "waiting"
    RUNNING = "running"
    ELSEWHERE = "running elsewhere"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    ABANDONED = "ended early"


class TrackedRun:
    """A run of the study, with its state and process."""

    def __init__(self, plan: PlannedRun) -> None:
        self.plan = plan
        self.state = State.DONE if plan.done else State.WAITING
        self.process: Process | None = None
        self.failures = self.kills = 0
        self.abandoned = False
        self.reached = self.newest
        self.reason = ""

    @property
    def newest(self) -> int:
        """The step of its newest checkpoint, or -1."""
        return checkpoints.newest_step(self.plan.job.folder)

    @property
    def elsewhere(self) -> bool:
        """Whether a process that this study did not start, or has lost, still uses the run folder."""
        return not is_free(self.plan.job.folder)


Notify = Callable[[TrackedRun, str], None]
"""Called with a run and a message about it."""


class StudyRunner:
    """Runs everything that is not done, with as many processes at a time as the executor has slots."""

    def __init__(self, plans: Sequence[PlannedRun], executor: Executor, keep: Keep, notify: Notify) -> None:
        self.all = [TrackedRun(plan) for plan in plans]
        self._executor, self._keep, self._notify = executor, keep, notify
        for tracked in self.in_state(State.DONE):  # a study that was killed may not have tidied them
            tidy(tracked.plan.job.folder, keep)

    def add(self, plan: PlannedRun) -> TrackedRun:
        """Adds a run, which starts when there is a free slot."""
        self.all.append(TrackedRun(plan))
        return self.all[-1]

    def abandon(self, tracked: TrackedRun) -> None:
        """Ends a run early and for good. Only its results are kept."""
        tracked.abandoned = True
        if tracked.process:
            tracked.process.stop()
        elif tracked.state in (State.WAITING, State.ELSEWHERE):
            self._leave(tracked)

    def in_state(self, *states: State) -> list[TrackedRun]:
        """The runs in one of these states."""
        return [tracked for tracked in self.all if tracked.state in states]

    def run(self, interrupts: Interrupts, refresh: Callable[[], None]) -> None:
        """Works until all runs are done or failed, or an interrupt has stopped them; calls `refresh` after each check."""
        stopping = False
        while True:
            for tracked in self.in_state(State.RUNNING):
                self._check(tracked, interrupts.asked)
            if interrupts.asked and not stopping:
                stopping = True
                self.stop()
            elif not interrupts.asked:
                self._start_waiting()
            refresh()
            if not self.in_state(State.WAITING, State.RUNNING, State.ELSEWHERE):
                return
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """Asks all running runs to write a checkpoint and exit; waiting ones are not started."""
        for tracked in self.in_state(State.WAITING, State.ELSEWHERE):
            tracked.state = State.STOPPED
        for tracked in self.in_state(State.RUNNING):
            self._notify(tracked, "asked to write a checkpoint and stop")
            if tracked.process:
                tracked.process.stop()

    def kill(self) -> None:
        """Kills all running runs."""
        for tracked in self.in_state(State.RUNNING):
            if tracked.process:
                tracked.process.kill()

    def _start_waiting(self) -> None:
        """Starts waiting runs while there are free slots."""
        free = self._executor.slots - len(self.in_state(State.RUNNING))
        for tracked in self.in_state(State.WAITING, State.ELSEWHERE):
            if free <= 0:
                return
            if tracked.elsewhere:
                if tracked.state is State.WAITING:
                    self._notify(tracked, "another process is using its folder; waiting for it")
                tracked.state = State.ELSEWHERE
                free -= 1  # it takes a core as well
            elif tracked.plan.done:
                self._finish(tracked)
            else:
                step = tracked.newest
                tracked.process, tracked.state = self._executor.start(tracked.plan.job), State.RUNNING
                self._notify(tracked, "starting" if step < 0 else f"resuming from step {step:,}")
                free -= 1

    def _check(self, tracked: TrackedRun, stopping: bool) -> None:
        """Updates the state of a run whose process has ended."""
        code = tracked.process.poll() if tracked.process else None
        if code is None:
            return
        tracked.process = None
        if code == 0 and tracked.plan.done:
            self._finish(tracked)
        elif tracked.abandoned:
            self._leave(tracked)
        elif stopping:
            tracked.state = State.STOPPED
        elif code < 0 or code in KILLED_CODES:
            self._handle_kill(tracked)
        elif tracked.elsewhere:
            tracked.state = State.WAITING
        else:
            self._handle_failure(tracked, code)

    def _finish(self, tracked: TrackedRun) -> None:
        tidy(tracked.plan.job.folder, self._keep)
        _remove_log(tracked.plan.job.log)
        tracked.state = State.DONE
        self._notify(tracked, "done")

    def _leave(self, tracked: TrackedRun) -> None:
        if not tracked.elsewhere:
            tidy_abandoned(tracked.plan.job.folder)
        _remove_log(tracked.plan.job.log)
        tracked.state = State.ABANDONED

    def _handle_kill(self, tracked: TrackedRun) -> None:
        newest = tracked.newest
        tracked.kills = tracked.kills + 1 if newest <= tracked.reached else 1
        tracked.reached = max(newest, tracked.reached)
        if tracked.kills >= MAX_KILLS:
            self._give_up(tracked, f"killed {MAX_KILLS} times without a new checkpoint; is there enough memory?")
        else:
            tracked.state = State.WAITING
            self._notify(tracked, "was killed; it will be resumed from its last checkpoint")

    def _handle_failure(self, tracked: TrackedRun, code: int) -> None:
        tracked.failures += 1
        no_results = "it exited without an error but left no results here: do all machines share this path?"
        reason = last_line(tracked.plan.job.log) if code else no_results
        if tracked.failures >= MAX_ATTEMPTS:
            self._give_up(tracked, reason)
        else:
            tracked.state = State.WAITING
            self._notify(tracked, f"failed and will be tried once more: {reason}")

    def _give_up(self, tracked: TrackedRun, reason: str) -> None:
        tracked.state, tracked.reason = State.FAILED, reason
        self._notify(tracked, f"failed: {reason}")


def _remove_log(log: Path) -> None:
    """Removes a log, and its folder if no other log is in it."""
    log.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        log.parent.rmdir()


def last_line(log: Path) -> str:
    """The last line that a process printed."""
    try:
        text = read_limited(log, LOG_BYTES, links=False).decode(errors="replace")
    except ModelFileError:
        text = ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix("gemrl: ") if lines else "it printed nothing"
