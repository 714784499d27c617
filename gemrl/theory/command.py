"""What `gemrl theory` does: the experiments on the paper's theorems, a line of verdict and a figure for each."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from gemrl.errors import DONE, RunFolderError
from gemrl.figures.theory import draw
from gemrl.files import write_bytes, write_json
from gemrl.runs import versions
from gemrl.theory.conditions import conditions
from gemrl.theory.evidence import Finding
from gemrl.theory.theorems import FULL, QUICK, Advance, Budget, lemma, theorem_1, theorem_2, theorem_4

Experiment = Callable[[Budget, np.random.Generator, Advance], Finding]

EXPERIMENTS: dict[str, tuple[Experiment, int]] = {
    "theorem-1": (theorem_1, 7),
    "theorem-2": (theorem_2, 8),
    "lemma": (lemma, 15),
    "theorem-4": (theorem_4, 2),
    "conditions": (conditions, 11),
}
"""By the name of its figure: what runs, and how many times it tells that it got on."""


def show_theory(options: argparse.Namespace) -> int:
    """Runs every experiment, prints its verdict and writes its figure and theory.json."""
    folder, budget = options.out, FULL if options.full else QUICK
    lines = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number, name in enumerate(EXPERIMENTS):
            finding = run(name, budget, np.random.default_rng([options.seed, number]))
            write_bytes(picture(folder, name), draw(finding))
            print(finding.line, flush=True)
            lines.append(finding.line)
        facts = {"seed": options.seed, "budget": dataclasses.asdict(budget), "verdicts": lines}
        made_with = versions() | {"matplotlib": importlib.metadata.version("matplotlib")}
        write_json(folder / "theory.json", {**facts, "versions": made_with})
    except OSError as error:
        raise RunFolderError(f"cannot write to {folder}: {error.strerror or error}") from None
    print(f"figures in {folder}")
    return DONE


def picture(folder: Path, name: str) -> Path:
    """The figure's file of an experiment."""
    return folder / f"theory-{name}.png"


def run(name: str, budget: Budget, rng: np.random.Generator) -> Finding:
    """One experiment, with a live bar on a terminal."""
    experiment, parts = EXPERIMENTS[name]
    console = Console()
    columns = (TextColumn("[bold]{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task(name, total=parts)
        return experiment(budget, rng, lambda: progress.advance(bar))
