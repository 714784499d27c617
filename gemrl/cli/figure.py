"""`gemrl figure`: draws a figure of the paper, or of any study, from runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from gemrl.analysis.figures.paper import chosen, draw
from gemrl.analysis.results.collection import collect
from gemrl.cli.arguments import path
from gemrl.cli.console import working
from gemrl.cli.text import echo
from gemrl.core.exceptions import RunFolderError
from gemrl.core.exit_codes import DONE
from gemrl.core.files import write_bytes

FORMATS = ("png", "svg", "pdf")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command to its parser."""
    parser.description = "Draw a figure of the paper from a study's runs, as PNG, SVG and PDF. Panels without runs are left out."
    parser.epilog = "NAME is mujoco, ablation, nstep, atari, atari-rollout or atari-sticky, the name of the study in DIR, or all."
    parser.add_argument("name", metavar="NAME", help="name of a study, or `all` for every task that has runs")
    parser.add_argument(
        "--runs", type=path, metavar="DIR", help="the folder of runs (default: studies/NAME if it exists, else runs)"
    )
    parser.add_argument("--out", type=path, metavar="DIR", help="output folder (default: the folder of runs)")
    parser.add_argument(
        "--smooth",
        type=_window,
        metavar="N",
        help="window of the moving average in evaluations, an odd number (default: 5 with 50 or more evaluations, else 1)",
    )
    parser.add_argument("--format", action="extend", nargs="+", choices=FORMATS, help="file formats (default: all three)")
    parser.set_defaults(command=figure)


def _window(text: str) -> int:
    if not text.isdecimal() or len(text) > 4 or int(text) % 2 == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not an odd number such as 1 or 5")
    return int(text)


def figure(options: argparse.Namespace) -> int:
    """Draws a figure, writes its files and prints what is missing in it; returns the exit code."""

    collection = collect(options.runs or first_folder(Path("studies", options.name)))
    with working("drawing"):
        drawing = draw(chosen(options.name, collection), collection, options.smooth, options.format or FORMATS)
    folder = options.out or collection.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for ending, content in drawing.files.items():
            path = folder / f"{options.name}.{ending}"
            write_bytes(path, content)
            echo(f"wrote {path}")
    except OSError as error:
        raise RunFolderError(f"cannot write to {folder}: {error.strerror or error}") from None
    for line in drawing.missing:
        echo(line)
    return DONE


RUNS = Path("runs")


def first_folder(*candidates: Path) -> Path:
    """The first of these folders that exists; otherwise `runs`, the default of `gemrl train`."""
    return next((folder for folder in candidates if folder.is_dir()), RUNS)
