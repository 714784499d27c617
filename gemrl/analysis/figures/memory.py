"""The figure of `gemrl memory`: one trajectory with its rollouts, and the choices of the planner over the whole memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gemrl.analysis.figures.encoding import encoded
from gemrl.analysis.figures.memory_panels import (
    View,
    draw_estimates,
    draw_lengths,
    draw_monte_carlo,
    draw_rewards,
    draw_rollouts,
    draw_step,
    draw_stitches,
)
from gemrl.core.suggestions import unknown

Drawer = Callable[[Any, View], None]

WIDE: dict[str, tuple[Drawer, float]] = {
    "rewards": (draw_rewards, 0.9),
    "estimates": (draw_estimates, 2.1),
    "rollouts": (draw_rollouts, 2.2),
}
HALF: dict[str, Drawer] = {
    "step": draw_step,
    "lengths": draw_lengths,
    "monte-carlo": draw_monte_carlo,
    "stitches": draw_stitches,
}
PANELS = (*WIDE, *HALF)
"""All panels by name: first those of one trajectory, with full width and their height in inches, then those of half width."""

HALF_HEIGHT = 2.5

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "gemrl",
}
"""In SVG files, text stays text and ids are reproducible."""


def check_panels(names: Sequence[str]) -> None:
    """Raises if one of these is not the name of a panel."""
    for name in names:
        if name not in PANELS:
            raise unknown("panel", name, PANELS, f"; known: {', '.join(PANELS)}")


def draw(view: View, panels: Sequence[str] = PANELS, kind: str = "png") -> bytes:
    """The figure with these panels, as the bytes of a file of this kind."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    wide, half = [name for name in WIDE if name in panels], [name for name in HALF if name in panels]
    heights = [WIDE[name][1] for name in wide] + [HALF_HEIGHT] * -(-len(half) // 2)
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(7.6, sum(heights) + 0.35), layout="constrained")
        figure.suptitle(view.title, fontsize=11)
        grid = figure.add_gridspec(len(heights), 2, height_ratios=heights)
        cells = [grid[row, :] for row in range(len(wide))]
        cells += [grid[len(wide) + number // 2, number % 2] for number in range(len(half))]
        if len(half) % 2:
            cells[-1] = grid[-1, :]
        for name, cell in zip(wide + half, cells, strict=True):
            axes = figure.add_subplot(cell)
            axes.grid(alpha=0.3)
            axes.spines[["top", "right"]].set_visible(False)
            draw_panel = WIDE[name][0] if name in WIDE else HALF[name]
            draw_panel(axes, view)
            if name in wide[:-1]:  # the panel below has the same x axis
                axes.tick_params(labelbottom=False)
            elif name in wide:
                axes.set_xlabel("step t of the trajectory")
        figure.align_ylabels()
        drawn = encoded(figure, kind)
        plt.close(figure)
    return drawn
