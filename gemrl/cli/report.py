"""`gemrl report`: one HTML file about a folder of runs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemrl.cli.arguments import Subcommands
from gemrl.cli.figure import RUNS, first_folder
from gemrl.core.exceptions import BadValue
from gemrl.core.exit_codes import DONE

if TYPE_CHECKING:
    from gemrl.analysis.results.collection import Collection


def add(commands: Subcommands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "report",
        help="write one HTML file about a folder of runs",
        description="Write one HTML file, which opens offline, about all runs below a folder: curves, scores, cost, settings.",
        allow_abbrev=False,
    )
    add_page_options(parser, "report.html", required=False)
    parser.add_argument("--table", action="store_true", help="print the scores as a Markdown table instead")
    parser.set_defaults(command=report)


def add_page_options(parser: argparse.ArgumentParser, name: str, *, required: bool = True) -> None:
    """The folder of runs, and options of the page that is written about it."""
    usual = "" if required else " (default: runs, or studies if there is no such folder)"
    parser.add_argument("runs", type=Path, metavar="DIR", nargs=None if required else "?", help=f"the folder of runs{usual}")
    parser.add_argument("--out", type=Path, metavar="FILE", help=f"the file to write (default: DIR/{name})")
    parser.add_argument("--title", metavar="TEXT", help="the page's title (default: the study's, or the folder's name)")
    parser.add_argument("--no-videos", action="store_true", help="leave videos out of the file")


def report(options: argparse.Namespace) -> int:
    """Writes the page, or prints its scores; the exit code."""
    from gemrl.analysis.report.markdown import score_table
    from gemrl.analysis.results.collection import collect

    folder = options.runs or first_folder(RUNS, Path("studies"))
    if not options.table:
        return publish(options, collect(folder), options.out or folder / "report.html", [])
    if options.out or options.title:
        raise BadValue(f"--table prints, so it has no {'--out' if options.out else '--title'}")
    collection = collect(folder)
    print(score_table(collection))
    _say_what_is_missing(collection)
    return DONE


def publish(options: argparse.Namespace, collection: Collection, target: Path, others: Sequence[dict[str, Any]]) -> int:
    """Writes the page about a collection, with other people's results in it, and says what it holds; the exit code."""
    from gemrl.analysis.report.page import write_page
    from gemrl.cli.console import working

    with working("writing the report"):
        size = write_page(collection, target, title=options.title, videos=not options.no_videos, others=others)
    count = f"{len(collection.runs)} runs of {len(collection.methods)} methods on {len(collection.envs)} environments"
    print(f"wrote {target} ({size / 1e6:.1f} MB): {count}")
    _say_what_is_missing(collection)
    return DONE


def _say_what_is_missing(collection: Collection) -> None:
    for run in collection.unfinished():
        print(f"not finished: {run.folder} is at step {run.last_step:,} of {run.description['steps']:,}")
    for reason in collection.left_out:
        print(f"left out: {reason}")
