"""The loop that runs a study: starts what waits, looks after what runs, and takes note of what ends. It knows no executor."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path

from gemrl.core.exit_codes import INTERRUPTED
from gemrl.core.locking import is_free
from gemrl.core.processes import Interrupts
from gemrl.experiments import checkpoints
from gemrl.experiments.executors.base import Executor, Process
from gemrl.experiments.studies.folder import Keep, PlannedRun, tidy

TRIES = 2
"""A run that fails by itself is tried so often."""

KILLS = 4
"""A run that is killed from outside is gone on with, unless it was killed so often without a new checkpoint in between."""

KILLED_BY = {INTERRUPTED, 137, 143}
"""Exit codes, beside negative ones, of a process that somebody else ended."""

PAUSE = 0.2
"""Seconds between two looks at all processes."""


class State(Enum):
    """Where a run is."""

    WAITING = "waiting"
    RUNNING = "running"
    ELSEWHERE = "at work elsewhere"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


class TrackedRun:
    """A run on its way through the study."""

    def __init__(self, plan: PlannedRun) -> None:
        self.plan = plan
        self.state = State.DONE if plan.done else State.WAITING
        self.process: Process | None = None
        self.failures = self.kills = 0
        self.reached = self.newest
        self.reason = ""

    @property
    def newest(self) -> int:
        """The step of its newest checkpoint."""
        return checkpoints.newest_step(self.plan.job.folder)

    @property
    def elsewhere(self) -> bool:
        """Whether a process that we did not start, or lost, is still at work in its folder."""
        return not is_free(self.plan.job.folder)


Tell = Callable[[TrackedRun, str], None]


class StudyRunner:
    """Runs what is not done, as many at a time as the executor has room for."""

    def __init__(self, plans: Sequence[PlannedRun], executor: Executor, keep: Keep, tell: Tell) -> None:
        self.all = [TrackedRun(plan) for plan in plans]
        self._executor, self._keep, self._tell = executor, keep, tell
        for tracked in self.in_state(State.DONE):  # of a study that was killed before it could
            tidy(tracked.plan.job.folder, keep)

    def in_state(self, *states: State) -> list[TrackedRun]:
        """The runs in one of these states."""
        return [tracked for tracked in self.all if tracked.state in states]

    def go(self, interrupts: Interrupts, show: Callable[[], None]) -> None:
        """Until all runs are done or failed, or an interrupt has stopped them."""
        stopping = False
        while True:
            for tracked in self.in_state(State.RUNNING):
                self._look_after(tracked, interrupts.asked)
            if interrupts.asked and not stopping:
                stopping = True
                self.stop()
            elif not interrupts.asked:
                self._start_some()
            show()
            if not self.in_state(State.WAITING, State.RUNNING, State.ELSEWHERE):
                return
            time.sleep(PAUSE)

    def stop(self) -> None:
        """Asks all that run to write a checkpoint and end; what waits need not wait any longer."""
        for tracked in self.in_state(State.WAITING, State.ELSEWHERE):
            tracked.state = State.STOPPED
        for tracked in self.in_state(State.RUNNING):
            self._tell(tracked, "asked to write a checkpoint and stop")
            if tracked.process:
                tracked.process.stop()

    def kill(self) -> None:
        """Ends all that run at once."""
        for tracked in self.in_state(State.RUNNING):
            if tracked.process:
                tracked.process.kill()

    def _start_some(self) -> None:
        room = self._executor.slots - len(self.in_state(State.RUNNING))
        for tracked in self.in_state(State.WAITING, State.ELSEWHERE):
            if room <= 0:
                return
            if tracked.elsewhere:
                if tracked.state is State.WAITING:
                    self._tell(tracked, "another process is at work in its folder; waiting for it")
                tracked.state = State.ELSEWHERE
                room -= 1  # it takes a core as well
            elif tracked.plan.done:
                self._done(tracked)
            else:
                begun = tracked.newest
                tracked.process, tracked.state = self._executor.start(tracked.plan.job), State.RUNNING
                self._tell(tracked, "start" if begun < 0 else f"go on from step {begun:,}")
                room -= 1

    def _look_after(self, tracked: TrackedRun, stopping: bool) -> None:
        code = tracked.process.poll() if tracked.process else None
        if code is None:
            return
        tracked.process = None
        if code == 0 and tracked.plan.done:
            self._done(tracked)
        elif stopping:
            tracked.state = State.STOPPED
        elif code < 0 or code in KILLED_BY:
            self._killed(tracked)
        elif tracked.elsewhere:
            tracked.state = State.WAITING
        else:
            self._failed(tracked, code)

    def _done(self, tracked: TrackedRun) -> None:
        tidy(tracked.plan.job.folder, self._keep)
        log = tracked.plan.job.log
        log.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # other logs are in it
            log.parent.rmdir()
        tracked.state = State.DONE
        self._tell(tracked, "done")

    def _killed(self, tracked: TrackedRun) -> None:
        newest = tracked.newest
        tracked.kills = tracked.kills + 1 if newest <= tracked.reached else 1
        tracked.reached = max(newest, tracked.reached)
        if tracked.kills >= KILLS:
            self._give_up(tracked, f"killed {KILLS} times without a new checkpoint; is there enough memory?")
        else:
            tracked.state = State.WAITING
            self._tell(tracked, "was killed; it will go on from its last checkpoint")

    def _failed(self, tracked: TrackedRun, code: int) -> None:
        tracked.failures += 1
        unseen = "it ended well but left nothing here: do all machines share this path?"
        reason = last_line(tracked.plan.job.log) if code else unseen
        if tracked.failures >= TRIES:
            self._give_up(tracked, reason)
        else:
            tracked.state = State.WAITING
            self._tell(tracked, f"failed and will be tried once more: {reason}")

    def _give_up(self, tracked: TrackedRun, reason: str) -> None:
        tracked.state, tracked.reason = State.FAILED, reason
        self._tell(tracked, f"failed: {reason}")


def last_line(log: Path) -> str:
    """The last thing a process said."""
    try:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        lines = []
    return lines[-1].removeprefix("gemrl: ") if lines else "it said nothing"
