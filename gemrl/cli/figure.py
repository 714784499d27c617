"""`gemrl figure`: draw a figure of the paper, or of any study, from runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from gemrl.cli.arguments import Subcommands
from gemrl.core.exceptions import RunFolderError
from gemrl.core.exit_codes import DONE

FORMATS = ("png", "svg", "pdf")


def add(commands: Subcommands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "figure",
        help="draw a figure of the paper from runs",
        description="Draw a figure of the paper from a study's runs, as PNG, SVG and PDF. Panels without runs are left out.",
        epilog="NAME: mujoco, ablation, nstep, atari, atari-rollout, atari-sticky; the name of DIR's study; or all",
        allow_abbrev=False,
    )
    parser.add_argument("name", metavar="NAME", help="the figure: a study's name, or all for every task that has runs")
    parser.add_argument(
        "--runs", type=Path, metavar="DIR", help="the folder of runs (default: studies/NAME if it exists, else runs)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the files go (default: the folder of runs)")
    parser.add_argument(
        "--smooth", type=_window, metavar="N", help="evaluations averaged, odd (default: 5 if there are 50 or more, else 1)"
    )
    parser.add_argument("--format", action="extend", nargs="+", choices=FORMATS, help="kinds of files (default: all three)")
    parser.set_defaults(command=figure)


def _window(text: str) -> int:
    if not text.isdecimal() or len(text) > 4 or int(text) % 2 == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not an odd number such as 1 or 5")
    return int(text)


def figure(options: argparse.Namespace) -> int:
    """Draws a figure into files and says what is missing in it; the exit code."""
    from gemrl.analysis.figures.paper import chosen, draw
    from gemrl.analysis.results.collection import collect
    from gemrl.cli.console import working
    from gemrl.core.files import write_bytes

    collection = collect(options.runs or first_folder(Path("studies", options.name)))
    with working("drawing"):
        drawing = draw(chosen(options.name, collection), collection, options.smooth, options.format or FORMATS)
    folder = options.out or collection.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for ending, content in drawing.files.items():
            path = folder / f"{options.name}.{ending}"
            write_bytes(path, content)
            print(f"wrote {path}")
    except OSError as error:
        raise RunFolderError(f"cannot write to {folder}: {error.strerror or error}") from None
    for line in drawing.missing:
        print(line)
    return DONE


RUNS = Path("runs")


def first_folder(*candidates: Path) -> Path:
    """The first of these folders that exists; else `runs`, where `gemrl train` puts its runs."""
    return next((folder for folder in candidates if folder.is_dir()), RUNS)
