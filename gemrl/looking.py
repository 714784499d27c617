"""What `gemrl memory` does: the memory of a run's last checkpoint in a few lines and a figure."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gemrl.arguments import count
from gemrl.env_args import env_title
from gemrl.errors import DONE, BadValue, RunFolderError, unknown
from gemrl.figures.memory import PANELS, check_panels, draw
from gemrl.figures.memory_panels import View, newest_whole
from gemrl.planning import Planner
from gemrl.recipes import AnyRecipe, TabularRecipe
from gemrl.recollection import Numbers, Recollection, recollect
from gemrl.tables import working
from gemrl.targets import Planned

if TYPE_CHECKING:
    from gemrl.model import Model

KINDS = ("png", "pdf", "svg")
"""Of files that a figure can be."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The words of the command."""
    parser.description = "Show the memory of a run: what was planned along its trajectories, and which rollouts were chosen."
    parser.epilog = "docs/algorithm.md explains every panel."
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
        help="the step of it to look at closely (default: where the pairs choose most differently)",
    )
    parser.add_argument(
        "--only", action="extend", nargs="+", default=[], metavar="PANEL", help=f"draw only these panels, of {', '.join(PANELS)}"
    )


def show_memory(options: argparse.Namespace) -> int:
    """Loads a run's memory, prints its numbers and draws it."""
    from gemrl import runs
    from gemrl.files import write_bytes

    folder: Path = options.run
    run = runs.describe(folder)
    planner = planner_of(run["algo"], runs.recipe_of(run))
    target: Path = options.out or folder / "memory.png"
    kind = target.suffix.lstrip(".").lower()
    if kind not in KINDS:
        raise unknown("kind of picture", target.suffix or target.name, KINDS, f"; known: {', '.join(KINDS)}")
    check_panels(options.only)
    with working("reading the memory"):
        model = load(folder)
        memory = recollect(model.memory, planner)
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


def planner_of(algo: str, chosen: AnyRecipe) -> Planner:
    """What plans the returns in the memory of a recipe; raises if nothing does."""
    targets = vars(chosen).get("targets")
    if not isinstance(targets, Planned):
        if isinstance(chosen, TabularRecipe):
            raise BadValue(f"{algo} keeps its values in tables, which gemrl memory does not draw: model.agent.learner.q has them")
        raise BadValue(f"{algo} plans no returns in its memory, so there is nothing to show; gem and its relatives do")
    return targets.planner


def load(folder: Path) -> Model:
    """The model, with its memory, of a run's newest checkpoint that can be read. No environment is made."""
    from gemrl import checkpoint, runs

    found = checkpoint.newest(folder, lambda one: runs.load(one.model), lambda line: print(f"gemrl: {line}", file=sys.stderr))
    if found is None:
        raise RunFolderError(
            f"{folder} has no checkpoint, and only checkpoints hold the memory: they were removed, or none was written yet"
        )
    return found[1]


def lines(memory: Recollection) -> list[str]:
    """The numbers of a memory, as a person reads them."""
    numbers, cap = Numbers.of(memory), memory.planner.rollout_cap
    waiting = f"; {memory.waiting:,} newer rows wait for their plan" if memory.waiting else ""
    away = numbers.at_the_cap + numbers.by_choice
    return [
        f"rows                 {numbers.rows:,} in {numbers.trajectories:,} trajectories{waiting}",
        f"chosen rollouts h*   mean {numbers.mean_length:,.2f}, median {numbers.median_length:,g}; 1 in {numbers.one_step:.1%}",
        f"follow to the end    {numbers.to_the_end:.1%}",
        f"leave before it      {away:.1%}: {numbers.at_the_cap:.1%} at the cap of {cap:,}, {numbers.by_choice:.1%} by choice",
        f"planned beyond lived {numbers.gap:+,.2f} on average: planned return − Monte-Carlo return",
    ]
