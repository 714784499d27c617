"""The figure of `gemrl memory`: one trajectory and its rollouts, and what the planner chose over the whole memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gemrl.analysis.figures.learning_curve import encoded
from gemrl.analysis.figures.memory_panels import (
    View,
    paint_estimates,
    paint_lengths,
    paint_monte_carlo,
    paint_rewards,
    paint_rollouts,
    paint_step,
    paint_stitches,
)
from gemrl.core.suggestions import unknown

Painter = Callable[[Any, View], None]

WIDE: dict[str, tuple[Painter, float]] = {
    "rewards": (paint_rewards, 0.9),
    "estimates": (paint_estimates, 2.1),
    "rollouts": (paint_rollouts, 2.2),
}
HALF: dict[str, Painter] = {
    "step": paint_step,
    "lengths": paint_lengths,
    "monte-carlo": paint_monte_carlo,
    "stitches": paint_stitches,
}
PANELS = (*WIDE, *HALF)
"""Every panel by name: those of one trajectory, as wide as the figure and with their height in inches, and the others."""

HALF_HEIGHT = 2.5

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "gemrl",
}
"""An SVG keeps its text as text, and the same names inside every time."""


def check_panels(names: Sequence[str]) -> None:
    """Raises if there is no panel of one of these names."""
    for name in names:
        if name not in PANELS:
            raise unknown("panel", name, PANELS, f"; known: {', '.join(PANELS)}")


def draw(view: View, panels: Sequence[str] = PANELS, kind: str = "png") -> bytes:
    """The figure of these panels, as the bytes of a file of that kind."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    wide, half = [name for name in WIDE if name in panels], [name for name in HALF if name in panels]
    heights = [WIDE[name][1] for name in wide] + [HALF_HEIGHT] * -(-len(half) // 2)
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(7.6, sum(heights) + 0.35), layout="constrained", dpi=110)
        figure.suptitle(view.title, fontsize=11)
        grid = figure.add_gridspec(len(heights), 2, height_ratios=heights)
        places = [grid[row, :] for row in range(len(wide))]
        places += [grid[len(wide) + number // 2, number % 2] for number in range(len(half))]
        if len(half) % 2:
            places[-1] = grid[-1, :]
        for name, place in zip(wide + half, places, strict=True):
            axes = figure.add_subplot(place)
            axes.grid(alpha=0.3)
            axes.spines[["top", "right"]].set_visible(False)
            painter = WIDE[name][0] if name in WIDE else HALF[name]
            painter(axes, view)
            if name in wide[:-1]:  # they share the steps of the panel below
                axes.tick_params(labelbottom=False)
            elif name in wide:
                axes.set_xlabel("step t of the trajectory")
        figure.align_ylabels()
        drawn = encoded(figure, kind)
        plt.close(figure)
    return drawn
