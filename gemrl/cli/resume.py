"""`gemrl resume`: continues a run that was stopped or killed."""

from __future__ import annotations

import argparse
from pathlib import Path

from gemrl.cli.arguments import Subcommands, add_env_timeout, count
from gemrl.core.exit_codes import DONE


def add(commands: Subcommands) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "resume",
        help="continue a run that was stopped or killed",
        description="Continue a run from its last checkpoint. The results are bit-identical to those of an uninterrupted run.",
        allow_abbrev=False,
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="the run folder")
    parser.add_argument("--steps", type=count, metavar="N", help="new total number of steps, to extend the run")
    parser.add_argument(
        "--other-versions", action="store_true", help="continue with other versions of packages; results may then differ slightly"
    )
    add_env_timeout(parser, None)
    parser.set_defaults(command=resume)


def resume(options: argparse.Namespace) -> int:
    """Continues a run; returns the exit code."""
    from gemrl.cli.console import Terminal
    from gemrl.cli.train import summarize
    from gemrl.experiments.run import resume_run
    from gemrl.experiments.run_interface import ResumeOptions

    terminal = Terminal()
    outcome = resume_run(ResumeOptions(options.run, options.steps, options.other_versions, options.env_timeout), terminal)
    return summarize(outcome, terminal) if outcome else DONE
