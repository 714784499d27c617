"""The panels of `gemrl memory`: each function draws one view of a memory into matplotlib axes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gemrl.analysis.memory_view import MemoryView, rollouts
from gemrl.analysis.palette import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE
from gemrl.core.exceptions import BadValue
from gemrl.core.text import counted

COLOURS, MARKERS = (BLUE, ORANGE, GREEN, PURPLE), "osD^"
"""Colour and marker of each critic pair; markers distinguish pairs without colour."""

SHOWN = 1000
"""The largest number of rows and of lengths that are drawn of one trajectory."""

MAX_LINEAR = 30
"""Axes of lengths are logarithmic if the longest is larger."""


@dataclass(frozen=True)
class View:
    """What is drawn: a memory, one of its trajectories, and one step of it (both counted from 1; None selects a step)."""

    title: str
    memory: MemoryView
    episode: int
    chosen_step: int | None = None

    @cached_property
    def trajectory(self) -> MemoryView:
        """The trajectory that is drawn."""
        return self.memory.trajectory(self.episode)

    @cached_property
    def rows(self) -> int:
        """The number of rows of the trajectory that are drawn."""
        return min(len(self.trajectory), SHOWN)

    @cached_property
    def values(self) -> np.ndarray:
        """The rollouts V[t, h] of these rows [K, rows, H]."""
        lengths = min(len(self.trajectory), self.memory.planner.rollout_cap, SHOWN)
        return rollouts(self.trajectory, self.rows, lengths)

    @cached_property
    def step(self) -> int:
        """The step that is shown in detail: the given one, or the one where the critic pairs choose most differently."""
        if self.chosen_step is None:
            return int(np.ptp(self.trajectory.length[:, : self.rows], axis=0).argmax()) + 1
        if self.chosen_step > self.rows:
            drawn = f", of which {SHOWN:,} are drawn" if self.rows < len(self.trajectory) else ""
            count = f"{counted(len(self.trajectory), 'step')}{drawn}"
            raise BadValue(f"there is no step {self.chosen_step} to draw: episode {self.episode} has {count}")
        return self.chosen_step


def newest_whole(memory: MemoryView) -> int:
    """The number of the newest trajectory that has ended, or of the newest one if none has."""
    ends = np.append(memory.starts[1:], len(memory)) - 1
    whole = np.flatnonzero(memory.last[ends])
    return int(whole[-1] if whole.size else len(ends) - 1) + 1


def draw_rewards(axes: Any, view: View) -> None:
    axes.plot(_steps(view), view.trajectory.reward[: view.rows], color=BLACK, linewidth=0.9)
    axes.set(ylabel="reward r", xlim=_span(view))
    total, ending = view.trajectory.reward.sum(), view.trajectory.ending
    first = f"the first {view.rows:,} of " if view.rows < len(view.trajectory) else ""
    title = (
        f"episode {view.episode} in memory: {first}{counted(len(view.trajectory), 'step')}, total reward {total:,.1f}, {ending}"
    )
    axes.set_title(title)


def draw_estimates(axes: Any, view: View) -> None:
    steps, trajectory = _steps(view), view.trajectory
    axes.plot(steps, trajectory.monte_carlo.mean(axis=0)[: view.rows], color=GREY, linewidth=1.2, label="Monte-Carlo return")
    for pair, name in enumerate(_names(view)):
        colour = COLOURS[pair % len(COLOURS)]
        axes.plot(steps, trajectory.q_next[pair, : view.rows], color=colour, linewidth=0.9, alpha=0.7, linestyle=":")
        axes.plot(
            steps,
            trajectory.planned[pair, : view.rows],
            color=colour,
            linewidth=1.2,
            linestyle="--" if pair else "-",
            label=f"planned return R{name}",
        )
    axes.plot([], [], color=BLACK, linewidth=0.9, linestyle=":", label="value of the next state")
    bootstraps = (steps + trajectory.length[:, : view.rows] - 1)[trajectory.by_choice[:, : view.rows]]
    if bootstraps.size:
        positions, counts = np.unique(bootstraps, return_counts=True)
        heights = 0.02 + 0.13 * counts / counts.max()
        axes.vlines(positions, 0, heights, transform=axes.get_xaxis_transform(), color=BLACK, linewidth=1, zorder=3)
        axes.plot([], [], color=BLACK, marker="|", linestyle="", label="rollouts leave here")
    axes.margins(y=0.15)
    axes.set(ylabel="return", xlim=_span(view))
    axes.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0), borderaxespad=0.2)


def draw_rollouts(axes: Any, view: View) -> None:
    values = view.values[0]
    gain = values - values[:, :1]
    bound = max(float(np.nanpercentile(np.abs(gain), 99)), 1e-9)
    edges = 0.5 + np.arange(values.shape[0] + 1), 0.5 + np.arange(values.shape[1] + 1)
    axes.set_facecolor("#D0D0D0")  # where no rollout exists
    mesh = axes.pcolormesh(*edges, gain.T, cmap="PuOr_r", vmin=-bound, vmax=bound, rasterized=True)
    size = float(np.clip(1600 / view.rows, 2, 14))
    length = view.trajectory.length[0, : view.rows]
    axes.scatter(_steps(view), length, s=size, color=BLACK, linewidths=0)
    axes.set(ylabel="rollout length h", xlim=_span(view), ylim=(0.5, edges[1][-1]))
    _count_lengths(axes.yaxis, values.shape[1])
    axes.grid(visible=False)
    pair = f"V{_names(view)[0]}"
    axes.set_title(f"{pair}[t, h] − {pair}[t, 1]: gain of a rollout of h steps over one step; dots: chosen h*{_names(view)[0]}")
    bar = axes.figure.colorbar(mesh, cax=axes.inset_axes((1.01, 0, 0.015, 1)), extend="both")
    bar.outline.set_visible(False)


def draw_step(axes: Any, view: View) -> None:
    index = view.step - 1
    planner, trajectory = view.memory.planner, view.trajectory
    for pair, name in enumerate(_names(view)):
        colour, marker = COLOURS[pair % len(COLOURS)], MARKERS[pair % len(MARKERS)]
        values, length = view.values[pair, index], int(trajectory.length[pair, index])
        lengths = np.flatnonzero(np.isfinite(values)) + 1
        dots = marker if lengths.size <= MAX_LINEAR else None
        axes.plot(lengths, values[lengths - 1], color=colour, linewidth=1, marker=dots, markersize=3, label=f"V{name}[t, h]")
        planned = float(trajectory.planned[pair, index])
        if not planner.mixes and length <= lengths.size:
            axes.annotate("", (length, planned), (length, values[length - 1]), arrowprops={"arrowstyle": "->", "color": colour})
            axes.plot(length, values[length - 1], color=colour, marker=marker, markersize=7, markerfacecolor="white")
        else:
            length = min(length, lengths.size)
        axes.plot(length, planned, color=colour, marker="*", markersize=11, linestyle="", markeredgecolor=BLACK, zorder=4)
    axes.plot([], [], color=GREY, marker="o", markersize=7, linestyle="", markerfacecolor="white", label="chosen h*")
    axes.plot([], [], color=GREY, marker="*", markersize=9, linestyle="", markeredgecolor=BLACK, label="planned return")
    exchange = ": chosen by one pair, valued by the other" if planner.swaps and trajectory.pairs == 2 else ""
    axes.set(xlabel="rollout length h", ylabel="V[t, h]", title=f"step t = {view.step:,}{exchange}")
    _count_lengths(axes.xaxis, int(np.isfinite(view.values[0, index]).sum()))
    axes.margins(y=0.15)
    axes.legend()


def draw_lengths(axes: Any, view: View) -> None:
    length = view.memory.length
    longest = int(length.max())
    bins = _bins(longest)
    for pair, name in enumerate(_names(view)):
        colour, weights = COLOURS[pair % len(COLOURS)], np.full(length.shape[1], 100 / length.shape[1])
        label = f"h*{name}: mean {length[pair].mean():,.1f}"
        style = {"histtype": "stepfilled", "alpha": 0.35} if pair == 0 else {"histtype": "step", "linewidth": 1.4}
        axes.hist(length[pair], bins, weights=weights, color=colour, label=label, **style)
    axes.set(xlabel="chosen rollout length h*", ylabel="% of all rows", title="lengths of the chosen rollouts")
    _count_lengths(axes.xaxis, longest)
    axes.legend()


def draw_monte_carlo(axes: Any, view: View) -> None:
    observed, planned = view.memory.monte_carlo.mean(axis=0), view.memory.planned.mean(axis=0)
    mesh = axes.hexbin(observed, planned, gridsize=45, bins="log", mincnt=1, cmap="viridis_r", linewidths=0.1)
    ends = min(observed.min(), planned.min()), max(observed.max(), planned.max())
    axes.plot(ends, ends, color=BLACK, linewidth=1, linestyle="--")
    gap = (planned - observed).mean()
    axes.set(xlabel="Monte-Carlo return", ylabel="planned return", title=f"all rows: mean planned − Monte-Carlo = {gap:+,.2f}")
    bar = axes.figure.colorbar(mesh, cax=axes.inset_axes((1.02, 0, 0.03, 1)))
    bar.set_label("rows")
    bar.ax.yaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    bar.ax.yaxis.set_minor_formatter(lambda *_: "")
    bar.outline.set_visible(False)


def draw_stitches(axes: Any, view: View) -> None:
    memory = view.memory
    longest = int(memory.available.max())
    edges = _bins(longest)
    bin_index = np.digitize(memory.available, edges) - 1
    rows = np.maximum(np.bincount(bin_index, minlength=len(edges) - 1), 1)
    floor = np.zeros(len(edges) - 1)
    kinds = (
        ("leave by choice", memory.by_choice, "#F0B58D", "//"),
        ("leave at the cap", memory.at_the_cap, "#C8C8C8", ""),
        ("follow to the end", memory.to_the_end, "#4F9CCB", ""),
    )
    for label, kind, colour, hatch in kinds:
        share = 100 * np.bincount(bin_index, kind.mean(axis=0), minlength=len(edges) - 1) / rows
        name = f"{label} {100 * kind.mean():.1f}%"
        axes.stairs(floor + share, edges, baseline=floor, fill=True, facecolor=colour, edgecolor="white", hatch=hatch, label=name)
        floor = floor + share
    axes.set(xlabel="steps left in the trajectory", ylabel="% of rollouts", ylim=(0, 100))
    _count_lengths(axes.xaxis, longest)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_title("where rollouts leave their trajectory")
    axes.legend(framealpha=0.85, frameon=True, edgecolor="none")


def _bins(longest: int) -> np.ndarray:
    """Bin edges for lengths 1..longest: one bin per length, or logarithmic bins; edges lie between integers."""
    if longest <= MAX_LINEAR:
        return np.arange(longest + 1) + 0.5
    return np.unique(np.floor(np.geomspace(1, longest + 1, MAX_LINEAR + 1))) - 0.5


def _count_lengths(axis: Any, longest: int) -> None:
    """Formats an axis of rollout lengths with integers."""
    if longest <= MAX_LINEAR:
        axis.get_major_locator().set_params(integer=True)
    else:
        axis.axes.set(**{f"{axis.axis_name}scale": "log"})
        axis.set_major_formatter(lambda x, _: f"{x:,.0f}")


def _steps(view: View) -> np.ndarray:
    return np.arange(view.rows) + 1


def _span(view: View) -> tuple[float, float]:
    return 0.5, view.rows + 0.5


def _names(view: View) -> list[str]:
    """The suffixes (1), (2), ... of the critic pairs; empty if there is only one."""
    return [f"({pair + 1})" for pair in range(view.memory.pairs)] if view.memory.pairs > 1 else [""]
