"""The picture of docs/performance.md: peers above, growth below."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.targets import Results, growing
from benchmarks.timing import medians

COLOURS = {"gemrl": "#0072B2", "Stable-Baselines3": "#E69F00", "SBX": "#009E73"}
PARTS = {"round": ("#0072B2", "o"), "refresh": ("#D55E00", "s"), "plan": ("#CC79A7", "^")}
"""Colours that survive colour blindness and print (Okabe and Ito), and marks for where even they do not."""


def draw(results: Results, target: Path) -> None:
    """Draws bars of the peers and lines of growth."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    places: list[Any] = [["vectors"] * 4 + ["images"] * 2 + ["loop"] * 4, ["rows"] * 5 + ["depth"] * 5]
    figure, axes = plt.subplot_mosaic(places, figsize=(12, 7), layout="constrained", dpi=130)
    _bars(axes["vectors"], results, "round", ("td3", "sac"), "ms per gradient step (less is better)")
    _bars(axes["images"], results, "round", ("dqn",), "ms per gradient step (less is better)")
    _bars(axes["loop"], results, "loop", ("td3", "sac"), "environment steps / s (more is better)")
    _lines(axes["rows"], results, "rows", "rows of memory")
    _lines(axes["depth"], results, "depth", "greatest length of a rollout (depth)")
    axes["vectors"].set_title("Gradient steps, many in a call", fontsize=11)
    axes["images"].set_title("The same on images", fontsize=11)
    axes["loop"].set_title("Whole training loop on HalfCheetah-v5", fontsize=11)
    axes["rows"].set_title("GEM's round and its memory, one thread", fontsize=11)
    axes["depth"].set_title("GEM's round and its depth, one thread", fontsize=11)
    for panel in axes.values():
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_axisbelow(True)
    figure.savefig(target, metadata={"Software": None})


def _bars(panel: Any, results: Results, task: str, algos: tuple[str, ...], label: str) -> None:
    """A group of bars for each algorithm and number of threads, a bar for each library."""
    records = [record for record in results["peers"] if record["task"] == task and record["algo"] in algos]
    for place, (name, colour) in enumerate(COLOURS.items()):
        if any(name not in record["seconds"] for record in records):
            continue
        times = [medians(record["seconds"])[name] / record["count"] for record in records]
        heights = [1 / spent for spent in times] if task == "loop" else [1e3 * spent for spent in times]
        bars = panel.bar([at + 0.27 * (place - 1) for at in range(len(records))], heights, 0.25, color=colour, label=name)
        panel.bar_label(bars, fmt="{:,.0f}" if task == "loop" else "{:.1f}", fontsize=8, padding=1)
    names = [f"{record['algo'].upper()}\n{record['threads']} thread{'s' * (record['threads'] > 1)}" for record in records]
    panel.set_xticks(range(len(records)), names)
    panel.set_ylabel(label)
    panel.margins(y=0.22)  # room for the legend above the bars
    panel.grid(axis="y", alpha=0.3)
    if "td3" in algos:
        panel.legend(fontsize=8, frameon=False, ncols=3, loc="upper center")


def _lines(panel: Any, results: Results, name: str, label: str) -> None:
    """A line for each part of the round, on logarithmic axes."""
    cases = growing(results, name)
    values = [value for value, _ in cases]
    for part, (colour, mark) in PARTS.items():
        panel.plot(values, [1e3 * times[part] for _, times in cases], color=colour, marker=mark, label=part)
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xticks(values, [f"{value:,}" for value in values])
    panel.minorticks_off()
    panel.yaxis.set_major_formatter("{x:,g}")
    panel.set_xlabel(label)
    panel.set_ylabel("ms (less is better)")
    panel.grid(alpha=0.3)
    panel.legend(fontsize=8, frameon=False)
