"""`gemrl compare`: other people's results next to runs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemrl.cli.arguments import Subcommands
from gemrl.cli.report import add_page_options, publish
from gemrl.core.exceptions import BadValue

if TYPE_CHECKING:
    from rich.table import Table

    from gemrl.analysis.results.collection import Collection

WIDEST = 6
"""Columns for our methods in the terminal; the page shows all of them."""


def add(commands: Subcommands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "compare",
        help="show other people's results next to runs",
        description="Print our returns next to other people's at the same steps, and write the report with their curves in it.",
        epilog="FILE has the columns method, env, step, return, and optionally source. Versions of environments may differ.",
        allow_abbrev=False,
    )
    add_page_options(parser, "compare.html")
    parser.add_argument(
        "--csv", type=Path, action="append", required=True, metavar="FILE", help="their results; may be given several times"
    )
    parser.set_defaults(command=compare)


def compare(options: argparse.Namespace) -> int:
    """Prints both sides, and writes the page with both in it; the exit code."""
    from gemrl.analysis.report.comparison import match_results, read_points
    from gemrl.analysis.report.summary import shared_rows
    from gemrl.analysis.results.collection import collect
    from gemrl.cli.console import show

    collection = collect(options.runs)
    points = [point for file in options.csv for point in read_points(file)]
    others, elsewhere = match_results(collection, points)
    if not others:
        raise BadValue(f"none of their tasks has runs here: theirs are {', '.join(elsewhere)}; ours {', '.join(collection.envs)}")
    rows = shared_rows(collection, others)
    if rows:
        show(comparison_table(collection, rows))
    else:
        print("none of their steps lies within our runs, so only the page shows both")
    if elsewhere:
        print(f"without runs here: {', '.join(elsewhere)}")
    return publish(options, collection, options.out or options.runs / "compare.html", others)


def comparison_table(collection: Collection, rows: Sequence[dict[str, Any]]) -> Table:
    """Their results and ours, for the terminal."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    every = [name for name in collection.methods if any(name in row["ours"] for row in rows)]
    names, more = every[:WIDEST], len(every) - WIDEST
    table = Table(
        "task", "theirs", box=box.SIMPLE_HEAD, caption=f"{more} more of our methods are in the page" if more > 0 else None
    )
    for title in ("step", "their return", *map(escape, names)):
        table.add_column(title, justify="right")
    for row in sorted(rows, key=lambda row: (row["our_env"], row["step"])):
        ours = (_spelled(row["ours"][name]) if name in row["ours"] else "" for name in names)
        task = row["our_env"] if row["our_env"] == row["env"] else f"{row['our_env']} (theirs: {row['env']})"
        table.add_row(escape(task), escape(row["method"]), f"{row['step']:,.0f}", _spelled(row["value"]), *ours)
    return table


def _spelled(value: float) -> str:
    from gemrl.analysis.report.markdown import digits

    return f"{value:,.{digits(value)}f}"
