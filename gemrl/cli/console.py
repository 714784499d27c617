"""Terminal output: progress bars, tables and lines. Plain lines if the output is not a terminal."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from time import monotonic
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from gemrl.cli.notebook import NotebookBar
from gemrl.core.text import printable
from gemrl.training.display import evaluation_line
from gemrl.training.loop import Event

LONG = 10.0
"""A round that refreshes the memory is mentioned if it takes longer than this many seconds."""


class _Title(ProgressColumn):
    """The title, and the activity that training waits for. Another thread draws it while a round computes."""

    def render(self, task: Task) -> Text:
        activity, due = task.fields["waiting"] or ("", 0.0)
        visible = activity and monotonic() >= due
        return Text(f"{task.description} ({activity})" if visible else task.description, style="bold")


class _Speed(ProgressColumn):
    """Steps per second, averaged over the last seconds."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f}/s" if speed else "", style="progress.data.speed")


def with_progress(events: Iterator[Event], steps: int, title: str) -> Generator[Event]:
    """Passes on the events and shows progress: a live bar on a terminal or in a notebook, and a line per evaluation.

    Close the generator if you leave it early. Otherwise the bar stays on the screen.
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
    with (
        Progress(*columns, console=console, disable=not console.is_terminal, speed_estimate_period=20) as progress,
        closing(NotebookBar(steps, title)) if console.is_jupyter else nullcontext() as notebook,
    ):
        bar = _Bar(progress, steps, title)
        for event in events:
            bar.show(event)
            if notebook:
                notebook.show(event)
            yield event


class _Bar:
    """The progress bar of one training."""

    def __init__(self, progress: Progress, steps: int, title: str) -> None:
        self._progress = progress
        self._bar = progress.add_task(title, total=steps, last="", waiting=None)
        self._shown = 0.0
        self._waiting: tuple[Event, float] | None = None
        self._mentioned: set[str] = set()

    def show(self, event: Event) -> None:
        """Shows an event: a finished step or evaluation, or a slow activity that is about to start."""
        if self._waiting:
            self._report_wait(*self._waiting)
            self._waiting = None
        if event.compiling or event.refreshing:
            now = monotonic()
            self._waiting = event, now
            if event.compiling and not self._progress.console.is_terminal and "compiling" not in self._mentioned:
                self._progress.console.print(f"step {event.step:>9,}  compiling the first round of training", highlight=False)
            waiting = ("compiling", now) if event.compiling else ("refreshing the memory", now + LONG)
            self._progress.update(self._bar, waiting=waiting, completed=event.step)
            return
        if event.losses is not None or event.evaluation or monotonic() - self._shown > 0.1:
            self._progress.update(self._bar, waiting=None, completed=event.step)
            self._shown = monotonic()
        if event.evaluation:
            result = event.evaluation
            self._progress.console.print(evaluation_line(event.step, result), highlight=False, soft_wrap=True)
            last = f"return {result.return_mean:,.1f} error {result.estimation_error:+,.1f}"
            self._progress.update(self._bar, last=last)

    def _report_wait(self, event: Event, since: float) -> None:
        """Prints, once per activity, how long compiling or a long refresh took."""
        seconds, line = monotonic() - since, ""
        activity = "compiling" if event.compiling else "refreshing"
        if event.compiling:
            line = f"first round: {seconds:.1f} s, including compilation"
        elif seconds > LONG:
            line = f"step {event.step:>9,}  a round with a memory refresh took {seconds:.0f} s; this will happen again"
        if line and activity not in self._mentioned:
            self._mentioned.add(activity)
            self._progress.console.print(line, highlight=False, soft_wrap=True)


class Terminal:
    """Shows the progress and messages of a run on the terminal."""

    def __init__(self) -> None:
        self._console = Console()

    def progress(self, events: Iterator[Event], steps: int, title: str) -> Generator[Event]:
        """Passes on the events of training and shows a progress bar."""
        return with_progress(events, steps, title)

    def say(self, line: str) -> None:
        """Prints a line."""
        self._console.print(printable(line), highlight=False, soft_wrap=True, markup=False)

    def working(self, activity: str) -> AbstractContextManager[Any]:
        """Shows an activity with a spinner until the context ends."""
        return self._console.status(activity) if self._console.is_terminal else nullcontext()


def working(activity: str) -> AbstractContextManager[Any]:
    """Shows an activity with a spinner until the context ends."""
    return Terminal().working(activity)
