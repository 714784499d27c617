"""`gemrl report`: writes one HTML file about a folder of runs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gemrl.analysis.report.markdown import score_table
from gemrl.analysis.report.page import write_page
from gemrl.analysis.results.collection import Collection, collect
from gemrl.cli.arguments import path
from gemrl.cli.console import working
from gemrl.cli.figure import RUNS, first_folder
from gemrl.cli.text import echo
from gemrl.core.exceptions import BadValue
from gemrl.core.exit_codes import DONE
from gemrl.core.text import counted


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command to its parser."""
    parser.description = "Write one self-contained HTML file about all runs below a folder: curves, scores, cost and settings."
    add_page_options(parser, "report.html", required=False)
    parser.add_argument("--table", action="store_true", help="print the scores as a Markdown table instead")
    parser.set_defaults(command=report)


def add_page_options(parser: argparse.ArgumentParser, name: str, *, required: bool = True) -> None:
    """Adds the folder of runs and the options of the page."""
    default = "" if required else " (default: runs, studies or tunes, whichever exists)"
    parser.add_argument("runs", type=path, metavar="DIR", nargs=None if required else "?", help=f"the folder of runs{default}")
    parser.add_argument("--out", type=path, metavar="FILE", help=f"output file (default: DIR/{name})")
    parser.add_argument("--title", metavar="TEXT", help="title of the page (default: that of the study, or the folder's name)")
    parser.add_argument("--no-videos", action="store_true", help="leave videos out of the file")


def report(options: argparse.Namespace) -> int:
    """Writes the page, or prints its scores; returns the exit code."""

    folder = options.runs or first_folder(RUNS, Path("studies"), Path("tunes"))
    if not options.table:
        return publish(options, collect(folder, or_searches=True), options.out or folder / "report.html", [])
    if options.out or options.title:
        raise BadValue(f"--table writes no file, so it cannot be combined with {'--out' if options.out else '--title'}")
    collection = collect(folder)
    echo(score_table(collection))
    _print_missing(collection)
    return DONE


def publish(options: argparse.Namespace, collection: Collection, target: Path, others: Sequence[dict[str, Any]]) -> int:
    """Writes the page about a collection, with published results, and prints a summary; returns the exit code."""

    with working("writing the report"):
        size = write_page(collection, target, title=options.title, videos=not options.no_videos, others=others)
    runs, methods = counted(len(collection.runs), "run"), counted(len(collection.methods), "method")
    found = [f"{runs} of {methods} on {counted(len(collection.envs), 'environment')}"] if collection.runs else []
    found += [f"a search of {counted(len(search.results.trials), 'trial')}" for search in collection.searches]
    echo(f"wrote {target} ({size / 1e6:.1f} MB): {', '.join(found)}")
    _print_missing(collection)
    return DONE


def _print_missing(collection: Collection) -> None:
    """Prints the runs that are not finished or were left out."""
    for run in collection.unfinished():
        echo(f"not finished: {run.folder} is at step {run.last_step:,} of {run.description['steps']:,}")
    for reason in collection.left_out:
        echo(f"left out: {reason}")
