"""The figures of `gemrl theory`: one per finding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gemrl.analysis.figures.encoding import encoded
from gemrl.analysis.palette import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE
from gemrl.analysis.theory.evidence import Finding, Mean, expected_maximum

STYLE = {
    "Twin": (BLUE, "o"),
    "GEM": (BLUE, "o"),
    "bootstrap": (BLUE, "o"),
    "Single": (ORANGE, "s"),
    "Q-learning": (ORANGE, "s"),
    "as termination": (ORANGE, "s"),
    "TwinReleased": (PURPLE, "D"),
    "double Q": (GREEN, "^"),
    "Twin, shared returns": (GREEN, "^"),
    "5-step Q": (PURPLE, "D"),
    "Stopping": (GREEN, "^"),
    "one step": (GREY, "s"),
}
"""Colour and marker of each line; markers distinguish lines without colour."""


def draw(finding: Finding) -> bytes:
    """The figure of a finding as PNG."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    draw_figure = {
        "Theorem 1": _theorem_1,
        "Theorem 2": _theorem_2,
        "Lemma": _lemma,
        "Theorem 4": _theorem_4,
        "Conditions": _conditions,
        "Luck": _luck,
    }[finding.name]
    with plt.rc_context({"font.size": 9, "axes.titlesize": 10, "legend.fontsize": 8, "legend.frameon": False}):
        figure = draw_figure(plt, finding.data)
        for axes in figure.axes:
            axes.grid(alpha=0.3)
            axes.spines[["top", "right"]].set_visible(False)
        drawn = encoded(figure)
        plt.close(figure)
    return drawn


def _panels(plt: Any, rows: int, columns: int, **shared: Any) -> tuple[Any, Any]:
    """A figure and its panels."""
    return plt.subplots(rows, columns, figsize=(3.7 * columns, 3.3 * rows), layout="constrained", **shared)


def _means(axes: Any, x: Sequence[float], means: list[Mean], name: str) -> None:
    """Draws a line of means with 95% intervals."""
    colour, marker = STYLE[name]
    values, half = [mean.value for mean in means], [mean.interval()[1] - mean.value for mean in means]
    look: dict[str, Any] = {"linewidth": 1.3, "markersize": 4, "zorder": 3}
    if colour == BLUE:  # a wide line with open markers stays visible beneath an overlapping one
        look = {"linewidth": 2.6, "markersize": 8, "markerfacecolor": "white", "zorder": 2}
    axes.errorbar(x, values, half, color=colour, marker=marker, capsize=2, label=name, **look)


def _zero(axes: Any) -> None:
    """Draws a line at 0."""
    axes.axhline(0, color=BLACK, linewidth=0.8, zorder=1)


def _ticks(axes: Any, values: Sequence[float]) -> None:
    """Labels the x axis at these values only."""
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.minorticks_off()


def _theorem_1(plt: Any, data: dict[str, Any]) -> Any:
    figure, (noise, length, rho) = _panels(plt, 1, 3)
    for name in ("Single", "Twin"):
        _means(noise, data["sigmas"], data["noise"][name], name)
        _means(length, data["lengths"], data["length"][name], name)
        _means(rho, data["rhos"], data["rho"][name], name)
    body = [mean.value for mean in data["noise"]["body"]]
    noise.plot(data["sigmas"], body, color=BLUE, linestyle=":", label="Twin, maximum without the full return")
    noise.set(title="random MDPs", xlabel="standard deviation of the noise")
    noise.set_ylabel("bias: E[R] − E[max over h of true values]")
    fine = np.unique(np.geomspace(1, max(data["lengths"]), 40).astype(int))
    theory = {"color": BLACK, "linestyle": "--", "linewidth": 1, "zorder": 5}
    length.plot(fine, [expected_maximum(int(n)) for n in fine], label="expected maximum of n normals", **theory)
    length.set(title="equal true values, unit noise", xlabel="number of rollouts n", xscale="log")
    _ticks(length, data["lengths"])
    rho.plot([0, 1], [0, expected_maximum(5)], label="rho × expected maximum\nof 5 normals", **theory)
    rho.set(title="n = 5, correlated estimates", xlabel="correlation rho of the two estimates")
    for axes in (noise, length, rho):
        _zero(axes)
        axes.legend()
    rho.legend(loc="center left", bbox_to_anchor=(0, 0.76))
    return figure


def _theorem_2(plt: Any, data: dict[str, Any]) -> Any:
    figure, panels = _panels(plt, 1, len(data["curves"]), sharey=True)
    for axes, (problem, curves) in zip(panels, data["curves"].items(), strict=True):
        _convergence(axes, curves, data["tolerance"])
        axes.set(title=problem)
    panels[0].set_ylabel(RELATIVE_ERROR)
    panels[0].legend(loc="lower left", title="median and 10–90% of runs")
    return figure


RELATIVE_ERROR = "largest |Q − Q*| / largest |Q*|"


def _convergence(axes: Any, curves: dict[str, Any], tolerance: float) -> None:
    """Draws the relative error of each method by environment steps."""
    for name, (steps, error) in curves.items():
        colour, marker = STYLE[name]
        low, middle, high = np.quantile(np.maximum(error, 1e-12), (0.1, 0.5, 0.9), axis=1)
        axes.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(steps, middle, color=colour, marker=marker, markersize=3, label=name)
    axes.axhline(tolerance, color=GREY, linestyle="--", linewidth=1)
    axes.set(xlabel="environment steps", xscale="log", yscale="log", ylim=(1e-9, 10))


def _lemma(plt: Any, data: dict[str, Any]) -> Any:
    figure, (position, violation) = _panels(plt, 1, 2)
    position.hist(data["position"], bins=np.linspace(-0.1, 1.1, 37), color=BLUE, alpha=0.8)
    for x, name in ((0, "Q*"), (1, "Q_max")):
        position.axvline(x, color=BLACK, linewidth=1.2)
        position.text(x, 1.01, name, transform=position.get_xaxis_transform(), ha="center")
    position.set(xlabel="position at the end: (Q − Q*) / (Q_max − Q*)", ylabel="number of pairs (s, a)")
    for key, label, colour, marker in (
        ("undershoot", "below Q*", BLUE, "o"),
        ("overshoot", "above Q_max", ORANGE, "s"),
    ):
        violation.plot(data["steps"], data[key], color=colour, marker=marker, markersize=4, label=label)
    violation.set(xlabel="environment steps", ylabel="largest violation of a bound", xscale="log")
    violation.set_ylim(bottom=-0.05 * max(violation.get_ylim()[1], 0.1))
    _zero(violation)
    violation.legend(title="mean over seeds")
    return figure


def _theorem_4(plt: Any, data: dict[str, Any]) -> Any:
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    styles = {"GEM": (BLUE, "o"), "greedy on Q_max": (GREEN, "^"), "worst policy allowed by Q* <= Q <= Q_max": (ORANGE, "s")}
    axes.plot(data["mus"], data["bound"], color=BLACK, label="bound 2 mu / (1 − gamma)")
    for name, (colour, marker) in styles.items():
        loss = data["loss"][name]
        axes.plot(data["mus"], loss.max(1), color=colour, marker=marker, markersize=5, label=f"{name}: largest loss", zorder=3)
        mus = np.broadcast_to(data["mus"][:, None], loss.shape)
        axes.scatter(mus, loss, s=8, color=colour, alpha=0.25, linewidths=0)
    axes.set(xlabel="mu = max (Q_max − Q*)", ylabel="loss of the policy: max (V* − V)", xscale="log")
    axes.set_yscale("symlog", linthresh=0.01)  # many losses are exactly 0
    axes.set_ylim(bottom=-0.002)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return figure


def _conditions(plt: Any, data: dict[str, Any]) -> Any:
    figure, ((costs, pays), (extra, shared)) = _panels(plt, 2, 2)
    for axes, (problem, lines) in zip((costs, pays), data["cut"].items(), strict=True):
        for name, means in lines.items():
            _means(axes, data["limits"], means, name)
        axes.set(title=f"time limits: {problem}", xlabel="time limit (steps)", ylabel="mean of Q − Q*", xscale="log")
        _ticks(axes, data["limits"])
    for name, means in data["extra"].items():
        _means(extra, data["lengths"], means, name)
    extra.set(title="extra max of the released code", xlabel="number of rollouts n", xscale="log")
    extra.set_ylabel("bias of the planned return")
    _ticks(extra, data["lengths"])
    for name, means in data["shared"].items():
        _means(shared, data["alphas"], means, name)
    shared.set(title="shared targets, random bonuses", xlabel="constant step size alpha", ylabel="mean of Q − Q*")
    _ticks(shared, data["alphas"])
    for axes in (costs, pays, extra, shared):
        _zero(axes)
        axes.legend()
    shared.legend(loc="upper left")
    return figure


def _luck(plt: Any, data: dict[str, Any]) -> Any:
    figure, (bias, speed) = _panels(plt, 1, 2)
    for name, means in data["bias"].items():
        _means(bias, data["epsilons"], means, name)
    bias.set(title="stochastic MDPs", xlabel="fraction of random actions (epsilon)", ylabel="mean of Q − Q*")
    _zero(bias)
    bias.legend()
    _convergence(speed, data["curves"], data["tolerance"])
    speed.set(title="deterministic MDPs", ylabel=RELATIVE_ERROR)
    speed.legend(loc="lower left", title="median and 10–90% of runs")
    return figure
