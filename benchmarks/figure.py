"""The figure of docs/performance.md: other libraries in the top row, scaling in the bottom row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.targets import Results, growing
from benchmarks.timing import medians
from gemrl.analysis.figures.encoding import encoded

COLOURS = {"gemrl": "#0072B2", "Stable-Baselines3": "#E69F00", "SBX": "#009E73"}
PARTS = {"round": ("#0072B2", "o"), "refresh": ("#D55E00", "s"), "plan": ("#CC79A7", "^")}
"""Colours of the colour-blind-safe palette of Okabe and Ito, and markers that distinguish lines without colour."""


def draw(results: Results, target: Path) -> None:
    """Draws bars for the libraries and lines for the scaling."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(12, 7), layout="constrained")
    rows = figure.add_gridspec(2, 1)
    top, bottom = rows[0].subgridspec(1, 3, width_ratios=(4, 3, 4)), rows[1].subgridspec(1, 2)
    cells = [*(top[column] for column in range(3)), *(bottom[column] for column in range(2))]
    names = ("vectors", "images", "loop", "rows", "depth")
    axes = {name: figure.add_subplot(cell) for name, cell in zip(names, cells, strict=True)}
    _bars(axes["vectors"], results, "round", ("td3", "sac"), "ms per gradient step (lower is better)")
    _bars(axes["images"], results, "round", ("dqn",), "ms per gradient step (lower is better)")
    _bars(axes["loop"], results, "loop", ("td3", "sac"), "environment steps / s (higher is better)")
    _lines(axes["rows"], results, "rows", "rows of memory")
    _lines(axes["depth"], results, "depth", "rollout cap (depth)")
    axes["vectors"].set_title("Gradient steps, many per call", fontsize=11)
    axes["images"].set_title("DQN on images", fontsize=11)
    axes["loop"].set_title("Whole training loop on HalfCheetah-v5", fontsize=11)
    axes["rows"].set_title("GEM's round by memory size, one thread", fontsize=11)
    axes["depth"].set_title("GEM's round by rollout cap, one thread", fontsize=11)
    for panel in axes.values():
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_axisbelow(True)
    target.write_bytes(encoded(figure))


def _bars(panel: Any, results: Results, task: str, algos: tuple[str, ...], label: str) -> None:
    """Draws a group of bars per algorithm and number of threads, with one bar per library."""
    records = [record for record in results["peers"] if record["task"] == task and record["algo"] in algos]
    for position, (name, colour) in enumerate(COLOURS.items()):
        if any(name not in record["seconds"] for record in records):
            continue
        times = [medians(record["seconds"])[name] / record["count"] for record in records]
        heights = [1 / spent for spent in times] if task == "loop" else [1e3 * spent for spent in times]
        bars = panel.bar(
            [group + 0.27 * (position - 1) for group in range(len(records))], heights, 0.25, color=colour, label=name
        )
        panel.bar_label(bars, fmt="{:,.0f}" if task == "loop" else "{:.1f}", fontsize=8, padding=1)
    names = [f"{record['algo'].upper()}\n{record['threads']} thread{'s' * (record['threads'] > 1)}" for record in records]
    panel.set_xticks(range(len(records)), names)
    panel.set_ylabel(label)
    panel.margins(y=0.22)  # leaves room for the legend above the bars
    panel.grid(axis="y", alpha=0.3)
    if "td3" in algos:
        panel.legend(fontsize=8, frameon=False, ncols=3, loc="upper center")


def _lines(panel: Any, results: Results, name: str, label: str) -> None:
    """Draws a line per part of the round, on logarithmic axes."""
    cases = growing(results, name)
    values = [value for value, _ in cases]
    for part, (colour, marker) in PARTS.items():
        panel.plot(values, [1e3 * times[part] for _, times in cases], color=colour, marker=marker, label=part)
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xticks(values, [f"{value:,}" for value in values])
    panel.minorticks_off()
    panel.yaxis.set_major_formatter("{x:,g}")
    panel.set_xlabel(label)
    panel.set_ylabel("ms (lower is better)")
    panel.grid(alpha=0.3)
    panel.legend(fontsize=8, frameon=False)
