"""Curves over environment steps: means with bands, markers of untrained evaluations, and the warm-up period."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gemrl.analysis.palette import BLUE, GREY, Style
from gemrl.analysis.results.run import Run, stacked
from gemrl.analysis.statistics import smoothed

LINES: dict[str, Any] = {"solid": "-", "dash": (0, (5, 1.5)), "dot": (0, (1.6, 1.2)), "dashdot": (0, (6, 1.4, 1.6, 1.4))}
"""The matplotlib line style of each dash of the palette."""

MARKERS_PER_CURVE = 10
LETTERS = 0.07
"""The width of the label of the warm-up period, in inches per point of its font size."""


def draw_curve(
    panel: Any, group: Sequence[Run], column: str, window: int, band: float, style: Style, *, offset: float = 0.5
) -> Any:
    """Draws the mean over runs with its band and returns the line, for a legend.

    `offset`, from 0 to 1, shifts the markers along the curve, so that the markers of overlapping curves do not coincide.
    """
    smooth = [replace(run, evaluations=run.evaluations | {column: smoothed(run.evaluations[column], window)}) for run in group]
    steps, values = stacked(smooth, column)
    mean, spread = values.mean(0), band * values.std(0)
    panel.fill_between(steps, mean - spread, mean + spread, color=style.colour, alpha=0.12, linewidth=0)
    if len(steps) == 1:  # a band needs two points
        panel.errorbar(steps, mean, spread, color=style.colour, alpha=0.5, capsize=3)
    untrained = steps <= group[0].learning_starts
    stride = max(round(len(steps) / MARKERS_PER_CURVE), 1)
    marked = [index for index in range(int(offset * stride), len(steps), stride) if not untrained[index]]
    emphasis = (style.colour, style.dash) == (BLUE, "solid")  # the palette reserves it for gem
    (line,) = panel.plot(
        steps,
        mean,
        color=style.colour,
        linestyle=LINES[style.dash],
        linewidth=2.2 if emphasis else 1.5,
        marker=style.marker,
        markersize=5.5 if emphasis else 5,
        markeredgecolor="white",
        markeredgewidth=0.4,
        markevery=marked,
        zorder=3 if emphasis else 2.5,
    )
    mark_untrained(panel, steps[untrained], mean[untrained], style)
    return line


def mark_untrained(panel: Any, steps: np.ndarray, values: np.ndarray, style: Style) -> None:
    """Draws hollow markers at evaluations before the first gradient step."""
    if steps.size:
        hollow = {"facecolors": "white", "edgecolors": style.colour, "linewidths": 1}
        panel.scatter(steps, values, s=18, marker=style.marker, zorder=3.5, **hollow)


def shade_warm_up(panel: Any, warm_up: float, last_step: float, *, width: float, fontsize: float = 7, label: bool = True) -> None:
    """Shades the steps before training starts; labels them if there is room in a panel of this width, in inches."""
    fraction = min(warm_up / last_step, 1.0) if last_step else 0.0
    if fraction <= 0:
        return
    end = min(warm_up, last_step)
    panel.axvspan(0, end, color=GREY, alpha=0.12, linewidth=0, zorder=0)
    room = fraction * width / fontsize
    if label and room >= LETTERS / 4:
        panel.text(
            end / 2,
            0.97,
            "warm-up",
            transform=panel.get_xaxis_transform(),
            rotation=0 if room >= LETTERS else 90,
            ha="center",
            va="top",
            fontsize=fontsize,
            color="#555555",
        )


def format_steps(axis: Any) -> None:
    """Labels an axis of environment steps as 500, 5k or 2.5M."""
    axis.set_major_formatter(lambda x, _: f"{x / 1e6:g}M" if x >= 1e6 else f"{x / 1e3:g}k" if x >= 1e3 else f"{x:g}")
