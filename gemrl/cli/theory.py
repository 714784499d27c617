"""`gemrl theory`: checks the paper's theorems by experiment, with a verdict and a figure for each."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from gemrl.analysis.figures.theory import draw
from gemrl.analysis.theory.evidence import Finding
from gemrl.analysis.theory.experiments import EXPERIMENTS
from gemrl.analysis.theory.theorems import FULL, QUICK, Budget
from gemrl.cli.arguments import path, whole
from gemrl.cli.text import echo
from gemrl.core.exceptions import RunFolderError
from gemrl.core.exit_codes import DONE
from gemrl.core.files import write_bytes, write_json
from gemrl.experiments.versions import versions


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command to its parser."""
    parser.description = "Check the paper's theorems by experiment: a figure and a one-line verdict for each."
    parser.add_argument("--out", type=path, default=Path("theory"), metavar="DIR", help="output folder (default: theory)")
    parser.add_argument(
        "--full", action="store_true", help="more MDPs, seeds and samples for smoother figures; takes much longer"
    )
    parser.add_argument("--seed", type=whole, default=0, metavar="S", help="random seed (default: 0)")
    parser.set_defaults(command=lambda options: show_theory(options.out, full=options.full, seed=options.seed))


def show_theory(folder: Path, *, full: bool = False, seed: int = 0) -> int:
    """Runs every experiment, prints the verdicts and writes the figures and theory.json; returns the exit code."""

    budget, lines = FULL if full else QUICK, []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number, name in enumerate(EXPERIMENTS):
            finding = run(name, budget, np.random.default_rng([seed, number]))
            write_bytes(picture(folder, name), draw(finding))
            echo(finding.line)
            lines.append(finding.line)
        facts = {"seed": seed, "budget": dataclasses.asdict(budget), "verdicts": lines}
        made_with = versions() | {"matplotlib": importlib.metadata.version("matplotlib")}
        write_json(folder / "theory.json", {**facts, "versions": made_with})
    except OSError as error:
        raise RunFolderError(f"cannot write to {folder}: {error.strerror or error}") from None
    echo(f"wrote figures to {folder}")
    return DONE


def picture(folder: Path, name: str) -> Path:
    """The path of an experiment's figure."""
    return folder / f"theory-{name}.png"


def run(name: str, budget: Budget, rng: np.random.Generator) -> Finding:
    """Runs one experiment, with a progress bar on a terminal."""

    experiment, parts = EXPERIMENTS[name]
    console = Console()
    columns = (TextColumn("[bold]{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task(name, total=parts)
        return experiment(budget, rng, lambda: progress.advance(bar))
