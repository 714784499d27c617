"""What a person sees: a progress bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from gemrl.evaluation import Evaluation
from gemrl.training import Moment


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


def with_progress(moments: Iterator[Moment], steps: int, title: str) -> Iterator[Moment]:
    """The same moments, shown as they pass by: a live bar on a terminal, a line per evaluation elsewhere."""
    console = Console()
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        _Speed(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[last]}", table_column=Column(no_wrap=True)),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal, speed_estimate_period=20) as progress:
        bar = progress.add_task(title, total=steps, last="")
        shown, compiling = 0.0, None
        for moment in moments:
            if moment.compiling:
                progress.update(bar, description=f"{title} (compiling)", completed=moment.step)
                compiling = monotonic()
            elif compiling is not None:
                if (seconds := monotonic() - compiling) >= 0.1:  # tables have nothing to compile
                    console.print(f"first round: {seconds:.1f} s, most of it compiling", highlight=False)
                compiling = None
            if moment.losses is not None or moment.evaluation or monotonic() - shown > 0.1:
                progress.update(bar, description=title, completed=moment.step)
                shown = monotonic()
            if moment.evaluation:
                result = moment.evaluation
                console.print(evaluation_line(moment.step, result), highlight=False, soft_wrap=True)
                progress.update(bar, last=f"return {result.return_mean:,.1f} error {result.estimation_error:+,.1f}")
            yield moment
