"""`gemrl memory`: the memory of a run's last checkpoint in a few lines and a figure."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gemrl.analysis.figures.memory import PANELS
from gemrl.cli.arguments import Subcommands, count
from gemrl.core.exceptions import RunFolderError
from gemrl.core.exit_codes import DONE
from gemrl.core.suggestions import unknown

if TYPE_CHECKING:
    from gemrl.analysis.memory_view import MemoryView
    from gemrl.training.model import Model

KINDS = ("png", "pdf", "svg")
"""Kinds of files that a figure can be."""


def add(commands: Subcommands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "memory",
        help="show what a run remembers, as numbers and a picture",
        description="Show the memory of a run: what was planned along its trajectories, and which rollouts were chosen.",
        epilog="docs/how-gem-works.md explains every panel.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "run", type=Path, metavar="RUN", help="a run's folder, of a recipe that plans returns (gem, its ablations)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="the picture: .png, .pdf or .svg (default: RUN/memory.png)")
    parser.add_argument(
        "--episode", type=count, metavar="N", help="the trajectory to draw, 1 being the oldest (default: the newest that ended)"
    )
    parser.add_argument(
        "--step",
        type=count,
        metavar="T",
        help="the step of it to show in detail (default: where the pairs choose most differently)",
    )
    parser.add_argument(
        "--only", action="extend", nargs="+", default=[], metavar="PANEL", help=f"draw only these panels, of {', '.join(PANELS)}"
    )
    parser.set_defaults(command=show_memory)


def show_memory(options: argparse.Namespace) -> int:
    """Loads a run's memory, prints its numbers and draws it; the exit code."""
    from gemrl.analysis.figures.memory import check_panels, draw
    from gemrl.analysis.figures.memory_panels import View, newest_whole
    from gemrl.analysis.memory_view import planner_of, view_memory
    from gemrl.cli.console import working
    from gemrl.core.files import write_bytes
    from gemrl.experiments.description import env_title
    from gemrl.experiments.run_folder import describe, recipe_of

    folder: Path = options.run
    run = describe(folder)
    planner = planner_of(run["algo"], recipe_of(run))
    target: Path = options.out or folder / "memory.png"
    kind = target.suffix.lstrip(".").lower()
    if kind not in KINDS:
        raise unknown("kind of picture", target.suffix or target.name, KINDS, f"; known: {', '.join(KINDS)}")
    check_panels(options.only)
    with working("reading the memory"):
        model = load(folder)
        memory = view_memory(model.memory, planner)
    title = f"{run['algo']} on {env_title(run)}, seed {run['seed']}, step {model.num_timesteps:,}: {planner}"
    view = View(title, memory, options.episode or newest_whole(memory), options.step)
    with working("drawing"):
        picture = draw(view, options.only or PANELS, kind)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(target, picture)
    except OSError as error:
        raise RunFolderError(f"cannot write to {target}: {error.strerror or error}") from None
    for line in (title, *lines(memory), f"picture              {target}"):
        print(line)
    return DONE


def load(folder: Path) -> Model:
    """The model, with its memory, of a run's newest checkpoint that can be read. No environment is made."""
    from gemrl.experiments import checkpoints, loading

    found = checkpoints.newest(folder, lambda one: loading.load(one.model), lambda line: print(f"gemrl: {line}", file=sys.stderr))
    if found is None:
        raise RunFolderError(
            f"{folder} has no checkpoint, and only checkpoints hold the memory: they were removed, or none was written yet"
        )
    return found[1]


def lines(memory: MemoryView) -> list[str]:
    """The numbers of a memory, one line each."""
    from gemrl.analysis.memory_view import Numbers

    numbers, cap = Numbers.of(memory), memory.planner.rollout_cap
    waiting = f"; {memory.waiting:,} newer rows are not planned yet" if memory.waiting else ""
    away = numbers.at_the_cap + numbers.by_choice
    return [
        f"rows                 {numbers.rows:,} in {numbers.trajectories:,} trajectories{waiting}",
        f"chosen rollouts h*   mean {numbers.mean_length:,.2f}, median {numbers.median_length:,g}; 1 in {numbers.one_step:.1%}",
        f"follow to the end    {numbers.to_the_end:.1%}",
        f"leave before it      {away:.1%}: {numbers.at_the_cap:.1%} at the cap of {cap:,}, {numbers.by_choice:.1%} by choice",
        f"planned − observed   {numbers.gap:+,.2f} on average: planned return − Monte-Carlo return",
    ]
