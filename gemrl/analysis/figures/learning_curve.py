"""Pictures of runs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from gemrl.analysis.labels import steps_of
from gemrl.analysis.palette import BLUE, GREY, ORANGE
from gemrl.experiments.description import env_title


def learning_curve(folder: Path) -> Path | None:
    """Draws evaluations.csv as learning_curve.png; None if there is nothing to draw yet."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from gemrl.experiments.run_folder import describe
    from gemrl.experiments.run_logs import read_evaluations

    run, data = describe(folder), read_evaluations(folder)
    if not data["step"].size:
        return None
    figure, (top, bottom) = plt.subplots(
        2, 1, figsize=(6.4, 4.8), sharex=True, height_ratios=(3, 1), layout="constrained", dpi=130
    )
    mean, std, step = data["return_mean"], data["return_std"], data["step"]
    top.fill_between(step, mean - std, mean + std, color=BLUE, alpha=0.2, linewidth=0)
    top.plot(step, mean, color=BLUE, marker="o", markersize=3)
    top.set_ylabel("return")
    episodes = f"{run.get('eval_episodes', 10)} {evaluated('episodes', run.get('recipe', {}).get('evaluation_eps', 0.0))}"
    title = f"{run['algo']} on {env_title(run)}, seed {run['seed']}: {mean[-1]:,.1f} at {int(step[-1]):,} steps"
    top.set_title(title, fontsize=11, wrap=True)
    top.text(0.01, 0.98, f"mean ± std of {episodes}", transform=top.transAxes, va="top", fontsize=8, color=GREY)
    _shade_warm_up(top, run)
    bottom.axhline(0, color=GREY, linewidth=0.8)
    bottom.plot(step, data["estimation_error"], color=ORANGE, marker="o", markersize=3)
    bottom.set_ylabel("estimation\nerror")
    bottom.set_xlabel(steps_of(run["env"]))
    for axes in (top, bottom):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    bottom.set_xlim(0, max(float(step[-1]), 1))
    bottom.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    figure.align_ylabels()
    target = folder / "learning_curve.png"
    target.write_bytes(encoded(figure))
    plt.close(figure)
    return target


def encoded(figure: Any, kind: str = "png") -> bytes:
    """A picture of matplotlib's as a file of that kind, the same bytes each time: no date, no version."""
    target = io.BytesIO()
    dates = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    figure.savefig(target, format=kind, metadata=dates[kind])
    return target.getvalue()


def evaluated(what: str, chance: float, *, always: bool = True) -> str:
    """Evaluations, or their episodes, in words: most act by the policy alone, Atari's (not `always`) now and then by chance."""
    if not chance:
        return f"deterministic {what}"
    lucky = f"with a share of {chance:g} of random actions"
    return f"{what} {lucky}" if always else f"deterministic {what} (Atari's {lucky})"


def _shade_warm_up(axes: Any, run: dict[str, Any]) -> None:
    """Marks the steps of random actions."""
    steps = np.clip(run.get("recipe", {}).get("learning_starts", 0), 0, run.get("steps", 0))
    if steps:
        axes.axvspan(0, steps, color=GREY, alpha=0.1, linewidth=0)
        axes.text(steps / 2, 0.5, "warm-up", transform=axes.get_xaxis_transform(), ha="center", fontsize=8, color=GREY)
