"""`gemrl algos`: lists the algorithms and their fields."""

from __future__ import annotations

import argparse

from gemrl.cli.printing import show
from gemrl.cli.tables import algorithms_table, fields_tables
from gemrl.core.exit_codes import DONE


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command to its parser."""
    parser.description = "List the algorithms, each with the fields in which it differs from the one it is compared with."
    parser.add_argument("--fields", action="store_true", help="list the fields of the recipes and their values instead")
    parser.set_defaults(command=algos)


def algos(options: argparse.Namespace) -> int:
    """Prints the tables; returns the exit code."""

    show(*(fields_tables() if options.fields else [algorithms_table()]))
    return DONE
