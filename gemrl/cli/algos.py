"""`gemrl algos`: lists the algorithms and their fields."""

from __future__ import annotations

import argparse

from gemrl.cli.arguments import Subcommands
from gemrl.core.exit_codes import DONE


def add(commands: Subcommands) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "algos",
        help="list the algorithms and how they differ",
        description="List the algorithms, each with the fields in which it differs from the one it is compared with.",
        allow_abbrev=False,
    )
    parser.add_argument("--fields", action="store_true", help="list the fields of the recipes and their values instead")
    parser.set_defaults(command=algos)


def algos(options: argparse.Namespace) -> int:
    """Prints the tables; returns the exit code."""
    from gemrl.cli.console import show
    from gemrl.cli.tables import algorithms_table, fields_tables

    show(*(fields_tables() if options.fields else [algorithms_table()]))
    return DONE
