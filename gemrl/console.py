"""What a person sees: a progress bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from gemrl.evaluation import Evaluation
from gemrl.training import Moment

LONG = 10.0
"""Seconds from which on a round that refreshes the memory is told."""


class _Title(ProgressColumn):
    """The title, and what has taken long already: it is drawn by another thread while a round computes."""

    def render(self, task: Task) -> Text:
        what, due = task.fields["waiting"] or ("", 0.0)
        return Text(f"{task.description} ({what})" if what and monotonic() >= due else task.description, style="bold")


class _Speed(ProgressColumn):
    """Steps per second over the last seconds."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f}/s" if speed else "", style="progress.data.speed")


def evaluation_line(step: int, result: Evaluation) -> str:
    """One line on an evaluation."""
    capped = f"  ({result.capped} of {len(result.returns)} episodes capped)" if result.capped else ""
    return (
        f"step {step:>9,}  return {result.return_mean:10,.1f} ± {result.return_std:,.1f}"
        f"  length {result.length_mean:,.0f}  estimation error {result.estimation_error:+,.2f}{capped}"
    )


def with_progress(moments: Iterator[Moment], steps: int, title: str) -> Generator[Moment]:
    """The same moments, shown as they pass by: a live bar on a terminal, a line per evaluation elsewhere.

    Close it, if it may be left early: else the bar stays on the screen.
    """
    console = Console()
    columns = (
        _Title(),
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        _Speed(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[last]}", table_column=Column(no_wrap=True)),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal, speed_estimate_period=20) as progress:
        bar = _Bar(progress, steps, title)
        for moment in moments:
            bar.show(moment)
            yield moment


class _Bar:
    """One training in a progress display."""

    def __init__(self, progress: Progress, steps: int, title: str) -> None:
        self._progress = progress
        self._bar = progress.add_task(title, total=steps, last="", waiting=None)
        self._shown = 0.0
        self._waiting: tuple[Moment, float] | None = None
        self._told: set[str] = set()

    def show(self, moment: Moment) -> None:
        """Shows what happens, or what is about to."""
        if self._waiting:
            self._waited(*self._waiting)
            self._waiting = None
        if moment.compiling or moment.refreshing:
            now = monotonic()
            self._waiting = moment, now
            waiting = ("compiling", now) if moment.compiling else ("a round that refreshes the memory", now + LONG)
            self._progress.update(self._bar, waiting=waiting, completed=moment.step)
            return
        if moment.losses is not None or moment.evaluation or monotonic() - self._shown > 0.1:
            self._progress.update(self._bar, waiting=None, completed=moment.step)
            self._shown = monotonic()
        if moment.evaluation:
            result = moment.evaluation
            self._progress.console.print(evaluation_line(moment.step, result), highlight=False, soft_wrap=True)
            last = f"return {result.return_mean:,.1f} error {result.estimation_error:+,.1f}"
            self._progress.update(self._bar, last=last)

    def _waited(self, moment: Moment, since: float) -> None:
        seconds, line = monotonic() - since, ""
        what = "compiling" if moment.compiling else "refreshing"
        if moment.compiling and seconds >= 0.1:  # tables have nothing to compile
            line = f"first round: {seconds:.1f} s, compiling included"
        elif seconds > LONG:
            line = f"step {moment.step:>9,}  a round that refreshed the memory took {seconds:.0f} s, and will from time to time"
        if line and what not in self._told:
            self._told.add(what)
            self._progress.console.print(line, highlight=False, soft_wrap=True)
