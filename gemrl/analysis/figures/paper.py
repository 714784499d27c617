"""The figures of the paper, and of any other study, drawn from runs."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gemrl.analysis.figures.learning_curve import encoded, evaluated
from gemrl.analysis.labels import steps_of
from gemrl.analysis.palette import GREY, Style, styles
from gemrl.analysis.results.collection import Collection
from gemrl.analysis.results.run import Run, stacked, task_name
from gemrl.analysis.statistics import smoothed
from gemrl.core.env_names import STICKY
from gemrl.core.exceptions import RunFolderError
from gemrl.core.suggestions import unknown
from gemrl.experiments.studies.catalog import STUDIES
from gemrl.experiments.studies.study import Study

RETURN, ERROR = "return_mean", "estimation_error"
LABELS = {RETURN: "return", ERROR: "estimation error"}
LINES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
FORMATS = ("png", "svg", "pdf")


@dataclass(frozen=True)
class Figure:
    """Which panels a figure has, and how its curves are drawn."""

    title: str
    tasks: tuple[str, ...]
    methods: tuple[str, ...] = ()
    """Those the paper draws; others that have runs are drawn behind them."""
    rows: tuple[str, ...] = (RETURN,)
    band: float = 1.0
    """Standard deviations of runs on each side of their mean."""
    sticky: bool | None = None
    """Whether its games have sticky actions, if it matters."""


def _of(name: str, title: str, **look: Any) -> Figure:
    """A figure with the tasks and methods of the study of that name."""
    study = STUDIES[name]
    assert isinstance(study, Study)
    return Figure(title, tuple(map(task_name, study.envs)), tuple(entry.label for entry in study.entries), **look)


FIGURES = {
    "mujoco": _of("mujoco", "Learning curves on MuJoCo tasks"),
    "ablation": _of("ablation", "Ablations of GEM, and how far values are from returns", rows=(RETURN, ERROR)),
    "nstep": _of("nstep", "GEM beside n-step learning", band=0.5),
    "atari": _of("atari", "Atari games", sticky=False),
    "atari-rollout": _of("atari-rollout", "Rollout lengths of GEM on Atari games", sticky=False),
    "atari-sticky": _of("atari-sticky", "Atari games with sticky actions", sticky=True),
}
"""The paper's figures, by the name of the study that runs them."""


LETTER, LINE = 0.08, 0.17
"""Inches of a letter and of a line in a legend."""


@dataclass(frozen=True)
class Drawing:
    """A drawn figure, its caption, and what is missing in it."""

    files: dict[str, bytes]
    caption: str
    missing: tuple[str, ...]


def chosen(name: str, collection: Collection) -> Figure:
    """The paper's figure of that name, or `all` tasks of the folder, which the name of its study means too."""
    own = collection.study.get("name")
    tasks = tuple(dict.fromkeys(task_name(env) for env in collection.envs))
    if name in FIGURES:
        papers = FIGURES[name].tasks
        others = tuple(task for task in tasks if task not in papers) if name == own else ()  # a study may be given others
        return replace(FIGURES[name], tasks=papers + others)
    if name not in ("all", own):
        known = [*FIGURES, "all", *([own] if own else [])]
        raise unknown("figure", name, known, f"; known: {', '.join(known)}")
    return Figure(collection.study["title"] if name == own else "All runs", tasks, rows=(RETURN, ERROR))


def draw(figure: Figure, collection: Collection, window: int | None = None, formats: Sequence[str] = FORMATS) -> Drawing:
    """The figure with a panel for each environment that has runs."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    envs = [env for task in figure.tasks for env in collection.envs if task_name(env) == task]
    if figure.sticky is not None:
        envs = [env for env in envs if _sticky(collection, env) == figure.sticky]
    if not envs:
        which = {None: "", True: " with sticky actions", False: " without sticky actions"}[figure.sticky]
        raise RunFolderError(f"{collection.folder} has no run on {', '.join(figure.tasks)}{which}")
    found = {method for method in collection.methods if any(collection.shown(method, env) for env in envs)}
    methods = [*(method for method in figure.methods if method in found)]
    methods += [method for method in collection.methods if method in found and method not in methods]
    window = window or usual_window(collection, envs)
    caption = captioned(figure, collection, methods, envs, window)
    with (
        plt.rc_context({"font.size": 9, "axes.titlesize": 10, "svg.hashsalt": "gemrl", "pdf.fonttype": 42}),
        plt.rc_context({"text.parse_math": False}),  # a dollar in a name begins no formula
    ):
        picture = _panels(plt, replace(figure, methods=tuple(methods)), collection, envs, window, caption)
        files = {ending: encoded(picture, ending) for ending in formats}
        plt.close(picture)
    return Drawing(files, caption, tuple(_missing(figure, collection, envs)))


def _sticky(collection: Collection, env: str) -> bool:
    """Whether actions are sticky there; runs of one environment have the same arguments."""
    return any(run.description["env_args"].get(STICKY) for run in collection.runs if run.env == env)


def usual_window(collection: Collection, envs: Sequence[str]) -> int:
    """Evaluations averaged around each: five in runs of fifty and more, else none."""
    drawn = [run for method in collection.methods for env in envs for run in collection.shown(method, env)]
    return 5 if min(len(run.evaluations["step"]) for run in drawn) >= 50 else 1


def captioned(figure: Figure, collection: Collection, methods: Sequence[str], envs: Sequence[str], window: int) -> str:
    """What the curves and bands are, in words."""
    seeds = [len(collection.shown(method, env)) for method in methods for env in envs if collection.shown(method, env)]
    runs = f"{min(seeds)}" if min(seeds) == max(seeds) else f"{min(seeds)} to {max(seeds)}"
    band = {1.0: ", band: one standard deviation of runs", 0.5: ", band: half a standard deviation of runs"}[figure.band]
    smooth = f"moving average over {window} evaluations" if window > 1 else "not smoothed"
    drawn = [run for method in methods for env in envs for run in collection.shown(method, env)]
    lucky = {run.recipe.get("evaluation_eps", 0.0) for run in drawn}
    evaluations = evaluated("evaluations", max(lucky), always=0.0 not in lucky)
    mean, band = (f"Mean over {runs} runs of", band) if max(seeds) > 1 else ("One run each:", "")
    words = f"{figure.title}. {mean} {evaluations}{band}, {smooth}."
    if ERROR in figure.rows:
        soft = " The values of sac have entropy in them." if any(run.description["algo"] == "sac" for run in drawn) else ""
        words += f" Estimation error: Q(s, a) minus the discounted return that followed, mean over visited steps.{soft}"
    return words


def _panels(plt: Any, figure: Figure, collection: Collection, envs: list[str], window: int, caption: str) -> Any:
    across = 2 if len(envs) == 4 else min(3, len(envs))
    tall = len(figure.rows) * -(-len(envs) // across)
    wide = 3.4 * max(across, 1.6)
    names = [textwrap.fill(method, int((wide - 0.7) / LETTER)) for method in figure.methods]
    columns = _columns(names, wide)
    legend = max(0, sum(name.count("\n") + 1 for name in names) / columns - 2) * LINE  # there is room for two lines anyway
    picture = plt.figure(figsize=(wide, 2.6 * tall + 0.9 + legend), layout="constrained", dpi=150)
    grid = picture.subplots(tall, across, squeeze=False)
    for panel in grid.flat:
        panel.set_visible(False)
    look = styles(figure.methods)
    handles: dict[str, Any] = {}
    for number, env in enumerate(envs):
        for row, column in enumerate(figure.rows):
            panel = grid[number // across * len(figure.rows) + row, number % across]
            panel.set_visible(True)
            for method in figure.methods:
                group = collection.shown(method, env)
                if group:
                    handles[method] = _curve(panel, group, column, window, figure.band, look[method])
            _dress(panel, textwrap.fill(env, int(wide / across / LETTER)), column)
            panel.set_xlabel(steps_of(env))
    text = textwrap.fill(caption, int(38 * max(across, 1.6)))
    picture.legend(
        [handles[method] for method in figure.methods],
        names,
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        title=text,
        title_fontproperties={"size": 8},
    )
    picture.draw_without_rendering()
    picture.set_layout_engine("none")  # else each file is laid out anew, a hair beside the last one
    return picture


def _columns(names: Sequence[str], inches: float) -> int:
    """How many names fit beside each other."""
    widest = LETTER * max(len(line) for name in names for line in name.split("\n")) + 0.7
    return max(1, min(len(names), int(inches / widest)))


def _curve(panel: Any, group: list[Run], column: str, window: int, band: float, style: Style) -> Any:
    """Draws the mean of runs with its band; the line, for the legend."""
    smooth = [replace(run, evaluations=run.evaluations | {column: smoothed(run.evaluations[column], window)}) for run in group]
    steps, values = stacked(smooth, column)
    middle, spread = values.mean(0), band * values.std(0)
    panel.fill_between(steps, middle - spread, middle + spread, color=style.colour, alpha=0.15, linewidth=0)
    if len(steps) == 1:  # a band needs two
        panel.errorbar(steps, middle, spread, color=style.colour, alpha=0.5, capsize=3)
    places = max(len(steps) // 8, 1)
    mark = {"marker": style.mark, "markersize": 3.5, "markevery": (places // 2, places)}
    (line,) = panel.plot(steps, middle, color=style.colour, linestyle=LINES[style.dash], linewidth=1.3, **mark)
    return line


def _dress(panel: Any, title: str, column: str) -> None:
    """Titles, axes and grid of a panel."""
    if column == ERROR:
        panel.axhline(0, color=GREY, linewidth=0.8, zorder=0)
    panel.set_title(title)
    panel.set_ylabel(LABELS[column])
    panel.set_xlim(left=0)
    panel.xaxis.set_major_formatter(lambda x, _: f"{x / 1e6:g}M" if x >= 1e6 else f"{x / 1e3:g}k" if x >= 1e3 else f"{x:g}")
    panel.yaxis.set_major_formatter(lambda y, _: f"{y:,g}")
    panel.grid(alpha=0.3)
    panel.spines[["top", "right"]].set_visible(False)


def _missing(figure: Figure, collection: Collection, envs: Sequence[str]) -> list[str]:
    """Lines on panels, curves and runs that are not in the figure."""
    drawn = {task_name(env) for env in envs}
    tasks = [task for task in figure.tasks if task not in drawn]
    lines = [f"left out, for want of runs: {', '.join(tasks)}"] if tasks else []
    for env in envs:
        absent = [method for method in figure.methods if not collection.shown(method, env)]
        lines += [f"{env} has no run of {', '.join(absent)}"] if absent else []
    unfinished = [run for run in collection.unfinished() if run.env in envs]
    used = [run for run in unfinished if run in collection.shown(run.method, run.env)]
    if unfinished:
        lines.append(f"{len(unfinished)} of the runs are not finished; {len(unfinished) - len(used)} of them are left out")
    return [*lines, *(f"left out: {reason}" for reason in collection.left_out)]
