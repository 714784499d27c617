"""The display of a running study: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Self

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from gemrl.core.text import counted, printable
from gemrl.experiments.studies.estimates import Estimate, RunProgress, duration_text, makespan, run_progress
from gemrl.experiments.studies.runner import State, StudyRunner, TrackedRun

TABLE_SECONDS, LINE_SECONDS = 1.0, 60.0
"""Seconds between updates of the table, and between lines where there is no table."""

STYLES = {
    State.RUNNING: "cyan",
    State.DONE: "green",
    State.FAILED: "bold red",
    State.ELSEWHERE: "yellow",
    State.STOPPED: "yellow",
    State.ABANDONED: "dim",
}

Running = list[tuple[TrackedRun, RunProgress]]
"""The runs that are running, each with its progress."""


class StudyDisplay:
    """Shows the progress of a study, or of anything else that a StudyRunner runs.

    The last line is that of `summary`; by default it counts the runs of a study.
    """

    def __init__(self, workers: int, summary: Callable[[Running], str] | None = None) -> None:
        self.console = Console()
        self._given_summary = summary
        self._workers = workers
        self._live = Live(console=self.console, auto_refresh=False, vertical_overflow="crop")
        self._updated = monotonic()
        self._estimate: Estimate | None = None
        self.runner: StudyRunner | None = None

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.console.is_terminal:
            self._updated = 0.0
            self.refresh()
            self._live.stop()

    def notify(self, tracked: TrackedRun, message: str) -> None:
        """Prints a message about a run."""
        progress = run_progress(tracked.plan.job.folder)
        if tracked.state is State.DONE:
            self._estimate = None
            message = f"done in {duration_text(progress.elapsed)}" + (
                "" if progress.last_return is None else f", return {progress.last_return:,.1f}"
            )
        if tracked.state is not State.RUNNING or not self.console.is_terminal:  # the table shows runs that start
            self.say(f"{tracked.plan.trial}: {message}")

    def say(self, line: str) -> None:
        """Prints a line, above the table if there is one."""
        self.console.print(printable(line), highlight=False, markup=False, soft_wrap=True)

    def refresh(self) -> None:
        """Updates the table or prints a line, if it is time."""
        wait = TABLE_SECONDS if self.console.is_terminal else LINE_SECONDS
        if monotonic() - self._updated < wait or not self.runner:
            return
        self._updated = monotonic()
        running = [(tracked, run_progress(tracked.plan.job.folder)) for tracked in self.runner.in_state(State.RUNNING)]
        running.sort(key=lambda pair: not pair[1].step)  # on a cluster, some submitted runs have not started yet
        if self.console.is_terminal:
            self._live.update(self._table(self.runner, running), refresh=True)
        else:
            details = ", ".join(
                f"{tracked.plan.trial} at {progress.step:,} ({progress.speed:,.0f}/s)" for tracked, progress in running[:8]
            )
            summary = self._summary(self.runner, running)
            self.say(f"{summary}: {details}" if details else summary)

    def _table(self, runner: StudyRunner, running: Running) -> RenderableType:
        """The table, with as many rows as fit on the terminal: running runs first, then failed, waiting and done ones."""
        table = Table("run", "", "steps", "steps/s", "last return", "", box=box.SIMPLE_HEAD)
        others = runner.in_state(State.FAILED, State.ELSEWHERE, State.STOPPED)
        rest = [*runner.in_state(State.WAITING), *reversed(runner.in_state(State.DONE, State.ABANDONED))]
        rows = [*running, *((tracked, run_progress(tracked.plan.job.folder)) for tracked in others)]
        room = max(3, self.console.size.height - 6)
        rows += [(tracked, run_progress(tracked.plan.job.folder)) for tracked in rest[: max(0, room - len(rows))]]
        for tracked, progress in rows[:room]:
            steps = tracked.plan.facts["steps"]
            table.add_row(
                Text(printable(str(tracked.plan.trial)), no_wrap=True, overflow="ellipsis"),
                ProgressBar(total=steps, completed=progress.step, width=16),
                f"{progress.step:,} of {steps:,}" if progress.step else "",
                f"{progress.speed:,.0f}" if progress.speed and tracked.state is State.RUNNING else "",
                "" if progress.last_return is None else f"{progress.last_return:,.1f}",
                Text(tracked.state.value, style=STYLES.get(tracked.state, "dim")),
            )
        hidden = len(runner.all) - len(rows[:room])
        more = Text(f"  ... and {hidden} more", style="dim") if hidden else Text("")
        return Group(table, more, Text(f"  {self._summary(runner, running)}", style="bold"))

    def _summary(self, runner: StudyRunner, running: Running) -> str:
        """How many runs are done, and an estimate of the time left."""
        if self._given_summary:
            return self._given_summary(running)
        done, failed = (len(runner.in_state(state)) for state in (State.DONE, State.FAILED))
        summary = f"{done} of {counted(len(runner.all), 'run')} done" + (f", {failed} failed" if failed else "")
        waiting = runner.in_state(State.WAITING, State.ELSEWHERE)
        if not running and not waiting:
            return summary
        self._estimate = self._estimate or Estimate([tracked.plan for tracked in runner.in_state(State.DONE)])
        left = [self._estimate.left(tracked.plan, progress) for tracked, progress in running]
        left += [self._estimate.left(tracked.plan, run_progress(tracked.plan.job.folder)) for tracked in waiting]
        return f"{summary}, about {duration_text(makespan(left, self._workers))} left"
