"""What a person sees of a study: a live table of its runs on a terminal, plain lines elsewhere."""

from __future__ import annotations

from time import monotonic
from types import TracebackType
from typing import Self

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from gemrl.experiments.studies.estimates import Estimate, RunProgress, duration_text, makespan, run_progress
from gemrl.experiments.studies.runner import State, StudyRunner, TrackedRun

TABLE_SECONDS, LINE_SECONDS = 1.0, 60.0
"""How often the table, or a line where there is none, is renewed."""

STYLES = {
    State.RUNNING: "cyan",
    State.DONE: "green",
    State.FAILED: "bold red",
    State.ELSEWHERE: "yellow",
    State.STOPPED: "yellow",
}


class Show:
    """Shows a study while it goes on."""

    def __init__(self, workers: int) -> None:
        self.console = Console()
        self._workers = workers
        self._live = Live(console=self.console, auto_refresh=False, vertical_overflow="crop")
        self._renewed = monotonic()
        self._estimate: Estimate | None = None
        self.conductor: StudyRunner | None = None

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.console.is_terminal:
            self._renewed = 0.0
            self()
            self._live.stop()

    def tell(self, tracked: TrackedRun, what: str) -> None:
        """A line on what has happened to a run."""
        seen = run_progress(tracked.plan.job.folder)
        if tracked.state is State.DONE:
            self._estimate = None
            what = f"done in {duration_text(seen.elapsed)}" + (
                "" if seen.last_return is None else f", return {seen.last_return:,.1f}"
            )
        if tracked.state is not State.RUNNING or not self.console.is_terminal:  # the table shows what starts
            self.say(f"{tracked.plan.run}: {what}")

    def say(self, line: str) -> None:
        """A plain line, above the table if there is one."""
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def __call__(self) -> None:
        """Renews the table or says a line, if it is time."""
        wait = TABLE_SECONDS if self.console.is_terminal else LINE_SECONDS
        if monotonic() - self._renewed < wait or not self.conductor:
            return
        self._renewed = monotonic()
        running = [(tracked, run_progress(tracked.plan.job.folder)) for tracked in self.conductor.in_state(State.RUNNING)]
        running.sort(key=lambda one: not one[1].step)  # a cluster is given all runs at once, of which it begins only some
        if self.console.is_terminal:
            self._live.update(self._table(self.conductor, running), refresh=True)
        else:
            told = ", ".join(f"{tracked.plan.run} at {seen.step:,} ({seen.speed:,.0f}/s)" for tracked, seen in running[:8])
            self.say(f"{self._summary(self.conductor, running)}: {told}" if told else self._summary(self.conductor, running))

    def _table(self, conductor: StudyRunner, running: list[tuple[TrackedRun, RunProgress]]) -> RenderableType:
        table = Table("run", "", "steps", "steps/s", "last return", "", box=box.SIMPLE_HEAD)
        others = conductor.in_state(State.FAILED, State.ELSEWHERE, State.STOPPED)
        rest = [*conductor.in_state(State.WAITING), *reversed(conductor.in_state(State.DONE))]
        rows = [*running, *((tracked, run_progress(tracked.plan.job.folder)) for tracked in others)]
        room = max(3, self.console.size.height - 6)
        rows += [(tracked, run_progress(tracked.plan.job.folder)) for tracked in rest[: max(0, room - len(rows))]]
        for tracked, seen in rows[:room]:
            steps = tracked.plan.facts["steps"]
            table.add_row(
                Text(str(tracked.plan.run), no_wrap=True, overflow="ellipsis"),
                ProgressBar(total=steps, completed=seen.step, width=16),
                f"{seen.step:,} of {steps:,}" if seen.step else "",
                f"{seen.speed:,.0f}" if seen.speed and tracked.state is State.RUNNING else "",
                "" if seen.last_return is None else f"{seen.last_return:,.1f}",
                Text(tracked.state.value, style=STYLES.get(tracked.state, "dim")),
            )
        hidden = len(conductor.all) - len(rows[:room])
        more = Text(f"  ... and {hidden} more", style="dim") if hidden else Text("")
        return Group(table, more, Text(f"  {self._summary(conductor, running)}", style="bold"))

    def _summary(self, conductor: StudyRunner, running: list[tuple[TrackedRun, RunProgress]]) -> str:
        done, failed = (len(conductor.in_state(state)) for state in (State.DONE, State.FAILED))
        told = f"{done} of {len(conductor.all)} runs done" + (f", {failed} failed" if failed else "")
        waiting = conductor.in_state(State.WAITING, State.ELSEWHERE)
        if not running and not waiting:
            return told
        self._estimate = self._estimate or Estimate([tracked.plan for tracked in conductor.in_state(State.DONE)])
        left = [self._estimate.left(tracked.plan, seen) for tracked, seen in running]
        left += [self._estimate.left(tracked.plan, run_progress(tracked.plan.job.folder)) for tracked in waiting]
        return f"{told}, about {duration_text(makespan(left, self._workers))} left"
