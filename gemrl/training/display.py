"""How a training is shown while it runs.

This layer only prints evaluations. The package's top level installs the terminal's progress bar, so that `learn` has it without
knowing the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from gemrl.training.evaluation import Evaluation
    from gemrl.training.loop import Event

    Display: TypeAlias = Callable[[Iterator[Event], int, str], Generator[Event]]
    """Passes on the moments of a training of so many steps, under a title, and shows them. Close it if you leave it early."""


def evaluation_line(step: int, result: Evaluation) -> str:
    """One line about an evaluation."""
    capped = f"  ({result.capped} of {len(result.returns)} episodes capped)" if result.capped else ""
    return (
        f"step {step:>9,}  return {result.return_mean:10,.1f} ± {result.return_std:,.1f}"
        f"  length {result.length_mean:,.0f}  estimation error {result.estimation_error:+,.2f}{capped}"
    )


def plain_lines(events: Iterator[Event], steps: int, title: str) -> Generator[Event]:
    """The same moments; a line is printed for each evaluation."""
    for event in events:
        if event.evaluation:
            print(evaluation_line(event.step, event.evaluation), flush=True)
        yield event


_display: Display = plain_lines


def use(display: Display) -> None:
    """Has every later training with a progress bar shown by `display`."""
    global _display
    _display = display


def displayed(events: Iterator[Event], steps: int, title: str) -> Generator[Event]:
    """The same moments, shown by the display in use."""
    return _display(events, steps, title)
