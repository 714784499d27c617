"""The figures of `gemrl theory`: each draws the data of one finding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gemrl.analysis.figures.learning_curve import encoded
from gemrl.analysis.palette import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE
from gemrl.analysis.theory.evidence import Finding, Mean, expected_maximum

STYLE = {
    "Twin": (BLUE, "o"),
    "GEM": (BLUE, "o"),
    "bootstrap": (BLUE, "o"),
    "Single": (ORANGE, "s"),
    "Q-learning": (ORANGE, "s"),
    "taken for death": (ORANGE, "s"),
    "TwinReleased": (PURPLE, "D"),
    "double Q": (GREEN, "^"),
    "Twin, shared returns": (GREEN, "^"),
    "5-step Q": (PURPLE, "D"),
}
"""Colour and marker, so that lines can be told apart without colour too."""


def draw(finding: Finding) -> bytes:
    """The figure of a finding as PNG."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    painter = {
        "Theorem 1": _theorem_1,
        "Theorem 2": _theorem_2,
        "Lemma": _lemma,
        "Theorem 4": _theorem_4,
        "Conditions": _conditions,
    }[finding.name]
    with plt.rc_context({"font.size": 9, "axes.titlesize": 10, "legend.fontsize": 8, "legend.frameon": False}):
        figure = painter(plt, finding.data)
        for axes in figure.axes:
            axes.grid(alpha=0.3)
            axes.spines[["top", "right"]].set_visible(False)
        drawn = encoded(figure)
        plt.close(figure)
    return drawn


def _panels(plt: Any, rows: int, columns: int, **shared: Any) -> tuple[Any, Any]:
    return plt.subplots(rows, columns, figsize=(3.7 * columns, 3.3 * rows), layout="constrained", dpi=130, **shared)


def _means(axes: Any, x: Sequence[float], means: list[Mean], name: str) -> None:
    """A line of means with 95% intervals."""
    colour, marker = STYLE[name]
    values, half = [mean.value for mean in means], [mean.interval()[1] - mean.value for mean in means]
    axes.errorbar(x, values, half, color=colour, marker=marker, markersize=4, capsize=2, linewidth=1.3, label=name)


def _zero(axes: Any) -> None:
    axes.axhline(0, color=BLACK, linewidth=0.8)


def _ticks(axes: Any, places: Sequence[float]) -> None:
    axes.set_xticks(places, [f"{place:g}" for place in places])
    axes.minorticks_off()


def _theorem_1(plt: Any, data: dict[str, Any]) -> Any:
    figure, (noise, length, rho) = _panels(plt, 1, 3)
    for name in ("Single", "Twin"):
        _means(noise, data["sigmas"], data["noise"][name], name)
        _means(length, data["lengths"], data["length"][name], name)
        _means(rho, data["rhos"], data["rho"][name], name)
    body = [mean.value for mean in data["noise"]["body"]]
    noise.plot(data["sigmas"], body, color=BLUE, linestyle=":", label="Twin, full return not counted")
    noise.set(title="trajectories of random MDPs", xlabel="noise of the estimates (standard deviation)")
    noise.set_ylabel("bias: E[R] − E[max over h of true values]")
    fine = np.unique(np.geomspace(1, max(data["lengths"]), 40).astype(int))
    theory = {"color": BLACK, "linestyle": "--", "linewidth": 1, "zorder": 5}
    length.plot(fine, [expected_maximum(int(n)) for n in fine], label="E max of n normals", **theory)
    length.set(title="equal true values, unit noise", xlabel="rollouts to choose from (n)", xscale="log")
    _ticks(length, data["lengths"])
    rho.plot([0, 1], [0, expected_maximum(5)], label="rho times E max of 5 normals", **theory)
    rho.set(title="n = 5: estimates that depend on each other", xlabel="correlation rho of the two estimates")
    for axes in (noise, length, rho):
        _zero(axes)
        axes.legend()
    rho.legend(loc="center left", bbox_to_anchor=(0, 0.75))
    return figure


def _theorem_2(plt: Any, data: dict[str, Any]) -> Any:
    figure, panels = _panels(plt, 1, len(data["curves"]), sharey=True)
    for axes, (world, curves) in zip(panels, data["curves"].items(), strict=True):
        for name, (steps, error) in curves.items():
            colour, marker = STYLE[name]
            low, middle, high = np.quantile(np.maximum(error, 1e-12), (0.1, 0.5, 0.9), axis=1)
            axes.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)
            axes.plot(steps, middle, color=colour, marker=marker, markersize=3, label=name)
        axes.axhline(data["tolerance"], color=GREY, linestyle="--", linewidth=1)
        axes.set(title=world, xlabel="environment steps", xscale="log", yscale="log", ylim=(1e-9, 10))
    panels[0].set_ylabel("largest |Q − Q*| / largest |Q*|")
    panels[0].legend(loc="lower left", title="median, 10-90% of runs")
    return figure


def _lemma(plt: Any, data: dict[str, Any]) -> Any:
    figure, (place, violation) = _panels(plt, 1, 2)
    place.hist(data["place"], bins=np.linspace(-0.1, 1.1, 37), color=BLUE, alpha=0.8)
    for x, name in ((0, "Q*"), (1, "Q_max")):
        place.axvline(x, color=BLACK, linewidth=1.2)
        place.text(x, 1.01, name, transform=place.get_xaxis_transform(), ha="center")
    place.set(xlabel="where Q ends: (Q − Q*) / (Q_max − Q*)", ylabel="pairs (s, a)")
    for key, label, colour, marker in (
        ("undershoot", "below Q*", BLUE, "o"),
        ("overshoot", "above Q_max", ORANGE, "s"),
    ):
        violation.plot(data["steps"], data[key], color=colour, marker=marker, markersize=4, label=label)
    violation.set(xlabel="environment steps", ylabel="largest violation over all pairs", xscale="log")
    violation.set_ylim(bottom=-0.05 * max(violation.get_ylim()[1], 0.1))
    _zero(violation)
    violation.legend(title="mean of the seeds")
    return figure


def _theorem_4(plt: Any, data: dict[str, Any]) -> Any:
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained", dpi=130)
    styles = {"GEM": (BLUE, "o"), "greedy on Q_max": (GREEN, "^"), "worst that Q* <= Q <= Q_max admits": (ORANGE, "s")}
    axes.plot(data["mus"], data["bound"], color=BLACK, label="bound 2 mu / (1 − gamma)")
    for name, (colour, marker) in styles.items():
        loss = data["loss"][name]
        axes.plot(data["mus"], loss.max(1), color=colour, marker=marker, markersize=5, label=f"{name}: largest loss", zorder=3)
        places = np.broadcast_to(data["mus"][:, None], loss.shape)
        axes.scatter(places, loss, s=8, color=colour, alpha=0.25, linewidths=0)
    axes.set(xlabel="mu = max (Q_max − Q*)", ylabel="largest V* − V of the policy", xscale="log")
    axes.set_yscale("symlog", linthresh=0.01)  # many losses are 0
    axes.set_ylim(bottom=-0.002)
    axes.legend()
    return figure


def _conditions(plt: Any, data: dict[str, Any]) -> Any:
    figure, ((costs, pays), (extra, shared)) = _panels(plt, 2, 2)
    for axes, (world, lines) in zip((costs, pays), data["cut"].items(), strict=True):
        for name, means in lines.items():
            _means(axes, data["limits"], means, name)
        axes.set(title=f"time limits: {world}", xlabel="time limit (steps)", ylabel="mean of Q − Q*", xscale="log")
        _ticks(axes, data["limits"])
    for name, means in data["extra"].items():
        _means(extra, data["lengths"], means, name)
    extra.set(title="the released extra max: equal true values", xlabel="rollouts to choose from (n)", xscale="log")
    extra.set_ylabel("bias of the planned return")
    _ticks(extra, data["lengths"])
    for name, means in data["shared"].items():
        _means(shared, data["alphas"], means, name)
    shared.set(title="shared targets: tables under luck", xlabel="constant step size alpha", ylabel="mean of Q − Q*")
    _ticks(shared, data["alphas"])
    for axes in (costs, pays, extra, shared):
        _zero(axes)
        axes.legend()
    shared.legend(loc="upper left")
    return figure
