"""Figures of the paper, and of any other study, drawn from runs."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gemrl.analysis.figures.curves import draw_curve, format_steps, shade_warm_up
from gemrl.analysis.figures.encoding import encoded
from gemrl.analysis.figures.learning_curve import evaluation_text
from gemrl.analysis.labels import step_label
from gemrl.analysis.palette import GREY, styles
from gemrl.analysis.results.collection import Collection
from gemrl.analysis.results.run import Run, task_name
from gemrl.core.env_names import STICKY
from gemrl.core.exceptions import RunFolderError
from gemrl.core.suggestions import unknown
from gemrl.core.text import counted
from gemrl.experiments.studies.catalog import STUDIES
from gemrl.experiments.studies.study import Study

RETURN, ERROR = "return_mean", "estimation_error"
LABELS = {RETURN: "return", ERROR: "estimation error"}
FORMATS = ("png", "svg", "pdf")


@dataclass(frozen=True)
class Figure:
    """The panels of a figure and the style of its curves."""

    title: str
    tasks: tuple[str, ...]
    methods: tuple[str, ...] = ()
    """The methods that the paper draws; further methods that have runs are added after them."""
    rows: tuple[str, ...] = (RETURN,)
    band: float = 1.0
    """The half-width of the band, in standard deviations over runs."""
    sticky: bool | None = None
    """Restricts the figure to games with (True) or without (False) sticky actions."""


def _of(name: str, title: str, **look: Any) -> Figure:
    """A figure with the tasks and methods of a built-in study."""
    study = STUDIES[name]
    assert isinstance(study, Study)
    return Figure(title, tuple(map(task_name, study.envs)), tuple(entry.label for entry in study.entries), **look)


FIGURES = {
    "mujoco": _of("mujoco", "Learning curves on MuJoCo tasks"),
    "ablation": _of("ablation", "Ablations of GEM: return and estimation error", rows=(RETURN, ERROR)),
    "nstep": _of("nstep", "GEM compared with n-step returns", band=0.5),
    "atari": _of("atari", "Atari games", sticky=False),
    "atari-rollout": _of("atari-rollout", "Rollout lengths of GEM on Atari games", sticky=False),
    "atari-sticky": _of("atari-sticky", "Atari games with sticky actions", sticky=True),
}
"""The figures of the paper, by the name of their study."""

PANEL = 3.4, 2.6
"""Width and height of a panel, in inches."""

LETTER, LINE = 0.08, 0.17
"""Width of a letter and height of a line in a legend, in inches."""


@dataclass(frozen=True)
class Drawing:
    """A drawn figure as files by kind, its caption, and notes on missing runs."""

    files: dict[str, bytes]
    caption: str
    missing: tuple[str, ...]


def chosen(name: str, collection: Collection) -> Figure:
    """The figure of the paper with this name; `all`, or the name of the folder's own study, gives all tasks in the folder."""
    own = collection.study.get("name")
    tasks = tuple(dict.fromkeys(task_name(env) for env in collection.envs))
    if name in FIGURES:
        papers = FIGURES[name].tasks
        # The study may have been run on further tasks.
        others = tuple(task for task in tasks if task not in papers) if name == own else ()
        return replace(FIGURES[name], tasks=papers + others)
    if name not in ("all", own):
        known = [*FIGURES, "all", *([own] if own else [])]
        raise unknown("figure", name, known, f"; known: {', '.join(known)}")
    return Figure(collection.study["title"] if name == own else "All runs", tasks, rows=(RETURN, ERROR))


def draw(figure: Figure, collection: Collection, window: int | None = None, formats: Sequence[str] = FORMATS) -> Drawing:
    """The figure, with a panel per environment that has runs."""
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
        plt.rc_context({"text.parse_math": False}),  # names may contain dollar signs
    ):
        picture = _panels(plt, replace(figure, methods=tuple(methods)), collection, envs, window, caption)
        files = {ending: encoded(picture, ending) for ending in formats}
        plt.close(picture)
    return Drawing(files, caption, tuple(_missing(figure, collection, envs)))


def _sticky(collection: Collection, env: str) -> bool:
    """Whether an environment has sticky actions; all runs on it have the same arguments."""
    return any(run.description["env_args"].get(STICKY) for run in collection.runs if run.env == env)


def usual_window(collection: Collection, envs: Sequence[str]) -> int:
    """The smoothing window: 5 if every run has at least 50 evaluations, otherwise 1."""
    drawn = [run for method in collection.methods for env in envs for run in collection.shown(method, env)]
    return 5 if min(len(run.evaluations["step"]) for run in drawn) >= 50 else 1


def captioned(figure: Figure, collection: Collection, methods: Sequence[str], envs: Sequence[str], window: int) -> str:
    """The caption: what the curves, bands and markers show."""
    seeds = [len(collection.shown(method, env)) for method in methods for env in envs if collection.shown(method, env)]
    runs = f"{min(seeds)}" if min(seeds) == max(seeds) else f"{min(seeds)} to {max(seeds)}"
    band = {1.0: ", band: one standard deviation over runs", 0.5: ", band: half a standard deviation over runs"}[figure.band]
    smooth = f"moving average over {window} evaluations" if window > 1 else "not smoothed"
    drawn = [run for method in methods for env in envs for run in collection.shown(method, env)]
    chances = {run.recipe.get("evaluation_eps", 0.0) for run in drawn}
    evaluations = evaluation_text("evaluations", max(chances), always=0.0 not in chances)
    mean, band = (f"Mean over {runs} runs of", band) if max(seeds) > 1 else ("One run per method:", "")
    text = f"{figure.title}. {mean} {evaluations}{band}, {smooth}."
    text += _warm_up_note([[run for run in drawn if run.env == env] for env in envs])
    if ERROR in figure.rows:
        soft = " The values of sac include the entropy bonus." if any(run.description["algo"] == "sac" for run in drawn) else ""
        text += f" Estimation error: Q(s, a) minus the discounted return that followed, mean over all steps.{soft}"
    return text


def _panels(plt: Any, figure: Figure, collection: Collection, envs: list[str], window: int, caption: str) -> Any:
    """The matplotlib figure: a grid of panels above a caption and a legend."""
    columns = 2 if len(envs) == 4 else min(3, len(envs))
    rows = len(figure.rows) * -(-len(envs) // columns)
    width = PANEL[0] * max(columns, 2)
    names = [textwrap.fill(method, int((width - 0.7) / LETTER)) for method in figure.methods]
    legend_columns = _legend_columns(names, width)
    extra = max(0, sum(name.count("\n") + 1 for name in names) / legend_columns - 2) * LINE  # two lines always fit
    picture = plt.figure(figsize=(width, PANEL[1] * rows + 0.9 + extra), layout="constrained", dpi=150)
    grid = picture.subplots(rows, columns, squeeze=False)
    for panel in grid.flat:
        panel.set_visible(False)
    handles: dict[str, Any] = {}
    for number, env in enumerate(envs):
        for row, column in enumerate(figure.rows):
            panel = grid[number // columns * len(figure.rows) + row, number % columns]
            panel.set_visible(True)
            handles |= _draw_panel(panel, figure, collection, env, column, window)
            if row == 0:
                panel.set_title(textwrap.fill(env, int(width / columns / LETTER)))
            if row == len(figure.rows) - 1:
                panel.set_xlabel(step_label(env))
    text = textwrap.fill(caption, int(14 * width))
    picture.legend(
        [handles[method] for method in figure.methods],
        names,
        loc="outside lower center",
        ncols=legend_columns,
        frameon=False,
        handlelength=3,
        title=text,
        title_fontproperties={"size": 8},
    )
    picture.align_ylabels()
    picture.draw_without_rendering()
    picture.set_layout_engine("none")  # otherwise each file format would be laid out slightly differently
    return picture


def _legend_columns(names: Sequence[str], inches: float) -> int:
    """The number of names that fit next to each other."""
    widest = LETTER * max(len(line) for name in names for line in name.split("\n")) + 0.8
    return max(1, min(len(names), int(inches / widest)))


def _draw_panel(panel: Any, figure: Figure, collection: Collection, env: str, column: str, window: int) -> dict[str, Any]:
    """Draws one quantity on one environment and returns the lines by method."""
    groups = {method: group for method in figure.methods if (group := collection.shown(method, env))}
    style, lines = styles(figure.methods), {}
    for number, (method, group) in enumerate(groups.items()):
        offset = number / len(groups)
        lines[method] = draw_curve(panel, group, column, window, figure.band, style[method], offset=offset)
    runs = [run for group in groups.values() for run in group]
    if column == ERROR:
        panel.axhline(0, color=GREY, linewidth=0.8, zorder=0)
    last, labelled = max(run.last_step for run in runs), column == figure.rows[0]
    shade_warm_up(panel, _common_warm_up(runs), last, width=0.8 * PANEL[0], label=labelled)
    panel.set_ylabel(LABELS[column])
    panel.set_xlim(left=0)
    format_steps(panel.xaxis)
    panel.yaxis.set_major_formatter(lambda y, _: f"{y:,g}")
    panel.grid(alpha=0.3)
    panel.spines[["top", "right"]].set_visible(False)
    return lines


def _warm_up_note(panels: Sequence[Sequence[Run]]) -> str:
    """The sentence of a caption on shading and hollow markers, for the runs of each panel; empty if there are none."""
    shaded = any(_common_warm_up(runs) for runs in panels)
    hollow = any(run.evaluations["step"][0] <= run.learning_starts for runs in panels for run in runs)
    notes = ["shaded: warm-up before training starts"] * shaded + ["hollow markers: evaluations before training starts"] * hollow
    return f" {'; '.join(notes).capitalize()}." if notes else ""


def _common_warm_up(runs: Sequence[Run]) -> int:
    """The number of steps before training starts if it is the same for all runs, otherwise 0."""
    found = {run.learning_starts for run in runs}
    return found.pop() if len(found) == 1 else 0


def _missing(figure: Figure, collection: Collection, envs: Sequence[str]) -> list[str]:
    """Notes on panels, curves and runs that are not in the figure."""
    drawn = {task_name(env) for env in envs}
    tasks = [task for task in figure.tasks if task not in drawn]
    lines = [f"tasks without runs: {', '.join(tasks)}"] if tasks else []
    for env in envs:
        missing = [method for method in figure.methods if not collection.shown(method, env)]
        lines += [f"{env} has no run of {', '.join(missing)}"] if missing else []
    unfinished = [run for run in collection.unfinished() if run.env in envs]
    used = [run for run in unfinished if run in collection.shown(run.method, run.env)]
    if unfinished:
        lines.append(f"not finished: {counted(len(unfinished), 'run')}; left out of them: {len(unfinished) - len(used)}")
    return [*lines, *(f"left out: {reason}" for reason in collection.left_out)]
