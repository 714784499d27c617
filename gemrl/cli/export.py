"""`gemrl export`: writes runs in the format that the plotting scripts of rl-zoo3 read."""

from __future__ import annotations

import argparse
from pathlib import Path

from gemrl.analysis.report.rl_zoo3 import export_runs
from gemrl.analysis.results.collection import collect
from gemrl.cli.arguments import path
from gemrl.cli.text import echo
from gemrl.core.exit_codes import DONE
from gemrl.core.text import counted


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command to its parser."""
    parser.description = "Write each run below a folder to OUT/<method>/<env>_<n>/evaluations.npz, which rl-zoo3 can plot."
    parser.add_argument("runs", type=path, metavar="DIR", help="the folder of runs")
    parser.add_argument("--out", type=path, default=Path("logs"), metavar="OUT", help="output folder (default: logs)")
    parser.set_defaults(command=export)


def export(options: argparse.Namespace) -> int:
    """Writes evaluations.npz for every run; returns the exit code."""

    collection = collect(options.runs)
    written = export_runs(collection, options.out)
    echo(f"wrote {counted(written, 'run')} to {options.out}, as <method>/<env>_<n>/evaluations.npz")
    for run in collection.unfinished():
        echo(f"not finished, but written: {run.folder} is at step {run.last_step:,} of {run.description['steps']:,}")
    for reason in collection.unreadable:
        echo(f"left out: {reason}")
    return DONE
