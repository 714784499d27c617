"""`gemrl export`: runs in the files that rl-zoo3's plots read."""

from __future__ import annotations

import argparse
from pathlib import Path

from gemrl.cli.arguments import Subcommands
from gemrl.core.exit_codes import DONE


def add(commands: Subcommands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "export",
        help="write runs as rl-zoo3's evaluations.npz",
        description="Write each run below a folder as OUT/<method>/<env>_<n>/evaluations.npz, which rl-zoo3's plots read.",
        allow_abbrev=False,
    )
    parser.add_argument("runs", type=Path, metavar="DIR", help="the folder of runs")
    parser.add_argument("--out", type=Path, default=Path("logs"), metavar="OUT", help="where they go (default: logs)")
    parser.set_defaults(command=export)


def export(options: argparse.Namespace) -> int:
    """Writes every run's evaluations.npz; the exit code."""
    from gemrl.analysis.report.rl_zoo3 import export_runs
    from gemrl.analysis.results.collection import collect

    collection = collect(options.runs)
    count = export_runs(collection, options.out)
    print(f"wrote {count} runs to {options.out}, as <method>/<env>_<n>/evaluations.npz")
    for run in collection.unfinished():
        print(f"not finished, but written: {run.folder} is at step {run.last_step:,} of {run.description['steps']:,}")
    for reason in collection.unreadable:
        print(f"left out: {reason}")
    return DONE
