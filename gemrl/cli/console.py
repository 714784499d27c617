"""The terminal: progress bars, tables and lines. Where the output is not a terminal, plain lines."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, nullcontext
from time import monotonic
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

from gemrl.training.display import evaluation_line
from gemrl.training.loop import Event

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


def with_progress(events: Iterator[Event], steps: int, title: str) -> Generator[Event]:
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
        for event in events:
            bar.show(event)
            yield event


class _Bar:
    """One training in a progress display."""

    def __init__(self, progress: Progress, steps: int, title: str) -> None:
        self._progress = progress
        self._bar = progress.add_task(title, total=steps, last="", waiting=None)
        self._shown = 0.0
        self._waiting: tuple[Event, float] | None = None
        self._told: set[str] = set()

    def show(self, event: Event) -> None:
        """Shows what happens, or what is about to."""
        if self._waiting:
            self._waited(*self._waiting)
            self._waiting = None
        if event.compiling or event.refreshing:
            now = monotonic()
            self._waiting = event, now
            waiting = ("compiling", now) if event.compiling else ("a round that refreshes the memory", now + LONG)
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

    def _waited(self, event: Event, since: float) -> None:
        seconds, line = monotonic() - since, ""
        what = "compiling" if event.compiling else "refreshing"
        if event.compiling and seconds >= 0.1:  # tables have nothing to compile
            line = f"first round: {seconds:.1f} s, compiling included"
        elif seconds > LONG:
            line = f"step {event.step:>9,}  a round that refreshed the memory took {seconds:.0f} s, and will from time to time"
        if line and what not in self._told:
            self._told.add(what)
            self._progress.console.print(line, highlight=False, soft_wrap=True)


class Terminal:
    """What a run shows on the terminal."""

    def __init__(self) -> None:
        self._console = Console()

    def progress(self, events: Iterator[Event], steps: int, title: str) -> Generator[Event]:
        """The same moments of a training, with a progress bar."""
        return with_progress(events, steps, title)

    def say(self, line: str) -> None:
        """Prints a line."""
        self._console.print(line, highlight=False, soft_wrap=True, markup=False)

    def working(self, words: str) -> AbstractContextManager[Any]:
        """Shows a spinner, while it lasts, with what is being done."""
        return self._console.status(words) if self._console.is_terminal else nullcontext()


def working(words: str) -> AbstractContextManager[Any]:
    """Shows a spinner, while it lasts, with what is being done."""
    return Terminal().working(words)


def show(*tables: Table) -> None:
    """Prints tables; 160 columns wide if the output is not a terminal."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    for table in tables:
        console.print(table, highlight=False)
