"""`gemrl memory`: shows the memory in a run's last checkpoint as statistics and a figure."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from gemrl.analysis.figures.memory import PANELS, check_panels, draw
from gemrl.analysis.figures.memory_panels import View, newest_whole
from gemrl.analysis.memory_view import MemoryView, Numbers, planner_of, view_memory
from gemrl.cli.arguments import count, path
from gemrl.cli.console import working
from gemrl.cli.text import echo
from gemrl.core.exceptions import RunFolderError
from gemrl.core.exit_codes import DONE
from gemrl.core.files import write_bytes
from gemrl.core.suggestions import unknown
from gemrl.core.text import counted
from gemrl.experiments.description import env_title
from gemrl.experiments.run_folder import describe, recipe_of

if TYPE_CHECKING:
    from gemrl.training.model import Model

FORMATS = ("png", "pdf", "svg")
"""File formats of the figure."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command to its parser."""
    parser.description = "Show the memory of a run: planned returns along its trajectories, and the rollouts that were chosen."
    parser.epilog = "docs/how-gem-works.md explains every panel."
    parser.add_argument(
        "run",
        type=path,
        metavar="RUN",
        help="the run folder; its recipe must plan over its memory (gem, its ablations, gem2, ebu, emdqn, emac and nec do)",
    )
    parser.add_argument("--out", type=path, metavar="FILE", help="output file: .png, .pdf or .svg (default: RUN/memory.png)")
    parser.add_argument(
        "--episode", type=count, metavar="N", help="trajectory to draw, where 1 is the oldest (default: the newest complete one)"
    )
    parser.add_argument(
        "--step",
        type=count,
        metavar="T",
        help="step of the trajectory to show in detail (default: where the critic pairs disagree most)",
    )
    parser.add_argument(
        "--only", action="extend", nargs="+", default=[], metavar="PANEL", help=f"draw only these panels: {', '.join(PANELS)}"
    )
    parser.set_defaults(command=show_memory)


def show_memory(options: argparse.Namespace) -> int:
    """Loads the memory of a run, prints statistics and draws it; returns the exit code."""

    folder: Path = options.run
    run = describe(folder)
    planner = planner_of(run["algo"], recipe_of(run))
    target: Path = options.out or folder / "memory.png"
    file_format = target.suffix.lstrip(".").lower()
    if file_format not in FORMATS:
        raise unknown("image format", target.suffix or target.name, FORMATS, f"; known: {', '.join(FORMATS)}")
    check_panels(options.only)
    with working("reading the memory"):
        model = load(folder)
        memory = view_memory(model.memory, planner)
    title = f"{run['algo']} on {env_title(run)}, seed {run['seed']}, step {model.num_timesteps:,}: {planner}"
    view = View(title, memory, options.episode or newest_whole(memory), options.step)
    with working("drawing"):
        picture = draw(view, options.only or PANELS, file_format)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(target, picture)
    except OSError as error:
        raise RunFolderError(f"cannot write to {target}: {error.strerror or error}") from None
    notes = (f"{name:<20} {text}" for name, text in model.agent.notes.items())
    for line in (title, *lines(memory), *notes, f"figure               {target}"):
        echo(line)
    return DONE


def load(folder: Path) -> Model:
    """The model and memory in the newest readable checkpoint of a run. No environment is created."""
    from gemrl.experiments import checkpoints, loading

    found = checkpoints.newest(
        folder, lambda checkpoint: loading.load(checkpoint.model), lambda line: echo(f"gemrl: {line}", error=True)
    )
    if found is None:
        raise RunFolderError(
            f"{folder} has no checkpoint, and only checkpoints contain the memory: none was written yet, or they were removed"
        )
    return found[1]


def lines(memory: MemoryView) -> list[str]:
    """Statistics of a memory, one line each."""

    numbers, cap = Numbers.of(memory), memory.planner.rollout_cap
    waiting = f"; without a planned return yet: {counted(memory.waiting, 'newer row')}" if memory.waiting else ""
    earlier = numbers.at_the_cap + numbers.by_choice
    lengths = f"mean {numbers.mean_length:,.2f}, median {numbers.median_length:,g}; {numbers.one_step:.1%} have length 1"
    return [
        f"rows                 {numbers.rows:,} in {counted(numbers.trajectories, 'trajectory')}{waiting}",
        f"chosen rollouts h*   {lengths}",
        f"reach the end        {numbers.to_the_end:.1%}",
        f"stop earlier         {earlier:.1%}: {numbers.at_the_cap:.1%} at the cap of {cap:,}, {numbers.by_choice:.1%} by choice",
        f"planned − observed   {numbers.gap:+,.2f} on average (planned return minus Monte Carlo return)",
    ]
