"""Shows the progress of training.

This module only prints evaluations. The top level of the package installs the progress bar of the terminal, so that `learn` can
show it without importing the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, TypeAlias

from gemrl.core.text import counted

if TYPE_CHECKING:
    from gemrl.training.evaluation import Evaluation
    from gemrl.training.loop import Event

    Display: TypeAlias = Callable[[Iterator[Event], int, str], Generator[Event]]
    """Shows training events, given the total number of steps and a title, and yields them. Close it to stop early."""


def evaluation_line(step: int, result: Evaluation) -> str:
    """A line of text with the results of an evaluation."""
    capped = f"  ({result.capped} of {counted(len(result.returns), 'episode')} capped)" if result.capped else ""
    return (
        f"step {step:>9,}  return {result.return_mean:10,.1f} ± {result.return_std:,.1f}"
        f"  length {result.length_mean:,.0f}  estimation error {result.estimation_error:+,.2f}{capped}"
    )


def plain_lines(events: Iterator[Event], steps: int, title: str) -> Generator[Event]:
    """Yields the events and prints a line for each evaluation."""
    for event in events:
        if event.evaluation:
            print(evaluation_line(event.step, event.evaluation), flush=True)
        yield event


_display: Display = plain_lines


def use(display: Display) -> None:
    """Makes `display` the progress bar of all later calls of `learn`."""
    global _display
    _display = display


def displayed(events: Iterator[Event], steps: int, title: str) -> Generator[Event]:
    """Yields the events while the current display shows them."""
    return _display(events, steps, title)
