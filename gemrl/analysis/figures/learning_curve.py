"""The learning curve of one run, which `gemrl train` draws when it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gemrl.analysis.figures.curves import mark_untrained, shade_warm_up
from gemrl.analysis.figures.encoding import encoded
from gemrl.analysis.labels import step_label
from gemrl.analysis.palette import BLUE, GREY, ORANGE, Style
from gemrl.analysis.results.run import warm_up
from gemrl.core.files import write_bytes
from gemrl.experiments.description import env_title, task_title


def learning_curve(folder: Path) -> Path | None:
    """Draws evaluations.csv as learning_curve.png and returns its path; None if there is no evaluation yet."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from gemrl.experiments.run_folder import describe
    from gemrl.experiments.run_logs import read_evaluations

    run, data = describe(folder), read_evaluations(folder)
    if not data["step"].size:
        return None
    with plt.rc_context({"font.size": 10, "text.parse_math": False}):  # names may contain dollar signs
        figure = _figure(plt, run, data)
        target = folder / "learning_curve.png"
        write_bytes(target, encoded(figure))
        plt.close(figure)
    return target


def _figure(plt: Any, run: dict[str, Any], data: dict[str, np.ndarray]) -> Any:
    """Two panels over the environment steps: return and estimation error."""
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(8, 5), sharex=True, height_ratios=(3, 1), layout="constrained")
    step, mean, std = data["step"], data["return_mean"], data["return_std"]
    before = float(np.clip(warm_up(run), 0, run.get("steps", 0)))
    unit = "gradient steps offline" if run.get("offline") else "steps"
    title = f"{run['algo']} on {env_title(run)}, seed {run['seed']}: return {mean[-1]:,.1f} at {int(step[-1]):,} {unit}"
    figure.suptitle(title, fontsize=12, fontweight="bold", wrap=True)
    top.fill_between(step, mean - std, mean + std, color=BLUE, alpha=0.2, linewidth=0)
    _line(top, step, mean, Style(BLUE, "solid", "o"), before)
    bottom.axhline(0, color=GREY, linewidth=0.8)
    _line(bottom, step, data["estimation_error"], Style(ORANGE, "solid", "s"), before)
    top.set_title(_subtitle(run, untrained=bool((step <= before).any())), fontsize=9, color="#555555")
    top.set_ylabel("return")
    bottom.set_ylabel("estimation\nerror")
    bottom.set_xlabel(step_label(task_title(run)))
    last = max(float(step[-1]), 1)
    for axes in (top, bottom):
        shade_warm_up(axes, before, last, width=7, fontsize=9, label=axes is top)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.yaxis.set_major_formatter(lambda y, _: f"{y:,g}")
        axes.margins(y=0.1)
    bottom.set_xlim(0, 1.015 * last)  # room for the last marker
    bottom.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    figure.align_ylabels()
    return figure


def _line(axes: Any, step: np.ndarray, values: np.ndarray, style: Style, warm_up: float) -> None:
    """Draws one curve, with filled markers at trained evaluations and hollow ones at untrained evaluations."""
    trained = np.flatnonzero(step > warm_up).tolist()
    axes.plot(step, values, color=style.colour, linewidth=1.8, marker=style.marker, markersize=5, markevery=trained)
    mark_untrained(axes, step[step <= warm_up], values[step <= warm_up], style)


def _subtitle(run: dict[str, Any], *, untrained: bool) -> str:
    """The meaning of points, band and markers."""
    chance = run.get("recipe", {}).get("evaluation_eps", 0.0)
    text = f"mean ± std over {run.get('eval_episodes', 10)} {evaluation_text('episodes', chance)}"
    return f"{text}; hollow markers: before training starts" if untrained else text


def evaluation_text(noun: str, chance: float, *, always: bool = True) -> str:
    """`noun` (evaluations or episodes) with the way actions are chosen; if not `always`, only Atari has random actions."""
    if not chance:
        return f"deterministic {noun}"
    random = f"with {100 * chance:g}% random actions"
    return f"{noun} {random}" if always else f"deterministic {noun} (on Atari {random})"
