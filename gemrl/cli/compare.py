"""`gemrl compare`: compares runs with published results."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from gemrl.analysis.report.comparison import match_results, read_points
from gemrl.analysis.report.markdown import digits
from gemrl.analysis.report.summary import shared_rows
from gemrl.analysis.results.collection import Collection, collect
from gemrl.cli.arguments import path
from gemrl.cli.printing import show
from gemrl.cli.report import add_page_options, publish
from gemrl.cli.text import echo
from gemrl.core.exceptions import BadValue
from gemrl.core.text import counted, printable

MAX_METHODS = 6
"""Methods shown in the terminal; the HTML page shows all of them."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command to its parser."""
    parser.description = (
        "Print the returns of runs next to published returns at the same steps, and write a report with both curves."
    )
    parser.epilog = "FILE has the columns method, env, step, return and optionally source. Environment versions may differ."
    add_page_options(parser, "compare.html")
    parser.add_argument(
        "--csv", type=path, action="append", required=True, metavar="FILE", help="published results; may be given several times"
    )
    parser.set_defaults(command=compare)


def compare(options: argparse.Namespace) -> int:
    """Prints both results and writes the page with both; returns the exit code."""

    collection = collect(options.runs)
    points = [point for file in options.csv for point in read_points(file)]
    others, elsewhere = match_results(collection, points)
    if not others:
        theirs, ours = ", ".join(elsewhere), ", ".join(collection.envs)
        raise BadValue(f"no environment in the CSV files has runs here: the files have {theirs}; the runs have {ours}")
    rows = shared_rows(collection, others)
    if rows:
        show(comparison_table(collection, rows))
    else:
        echo("no step in the CSV files is covered by the runs, so only the page shows both")
    if elsewhere:
        echo(f"no runs here for: {', '.join(elsewhere)}")
    return publish(options, collection, options.out or options.runs / "compare.html", others)


def comparison_table(collection: Collection, rows: Sequence[dict[str, Any]]) -> Table:
    """A table of published returns and ours, for the terminal."""

    every = [name for name in collection.methods if any(name in row["ours"] for row in rows)]
    names, more = every[:MAX_METHODS], len(every) - MAX_METHODS
    table = Table(
        "task",
        "published",
        box=box.SIMPLE_HEAD,
        caption=f"the page shows {counted(more, 'further method')}" if more > 0 else None,
    )
    for title in ("step", "published return", *map(_name, names)):
        table.add_column(title, justify="right")
    for row in sorted(rows, key=lambda row: (row["our_env"], row["step"])):
        ours = (_formatted(row["ours"][name]) if name in row["ours"] else "" for name in names)
        task = row["our_env"] if row["our_env"] == row["env"] else f"{row['our_env']} (published: {row['env']})"
        table.add_row(_name(task), _name(row["method"]), f"{row['step']:,.0f}", _formatted(row["value"]), *ours)
    return table


def _name(text: str) -> str:
    """A name from a file as a cell: neither markup nor an escape sequence."""
    return escape(printable(text))


def _formatted(value: float) -> str:
    return f"{value:,.{digits(value)}f}"
