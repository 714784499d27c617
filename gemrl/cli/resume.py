"""`gemrl resume`: continue a run that was stopped or killed."""

from __future__ import annotations

import argparse
from pathlib import Path

from gemrl.cli.arguments import Subcommands, add_env_timeout, count
from gemrl.core.exit_codes import DONE


def add(commands: Subcommands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "resume",
        help="continue a run that was stopped or killed",
        description="Continue a run from its last checkpoint, to the same bits as if it had never stopped.",
        allow_abbrev=False,
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="a run's folder")
    parser.add_argument("--steps", type=count, metavar="N", help="train for more steps than the run was made for")
    parser.add_argument("--other-versions", action="store_true", help="continue although versions differ; the bits may differ")
    add_env_timeout(parser, None)
    parser.set_defaults(command=resume)


def resume(options: argparse.Namespace) -> int:
    """Continues a run; the exit code."""
    from gemrl.cli.console import Terminal
    from gemrl.cli.train import conclude
    from gemrl.experiments.run import ResumeOptions, resume_run

    terminal = Terminal()
    outcome = resume_run(ResumeOptions(options.run, options.steps, options.other_versions, options.env_timeout), terminal)
    return conclude(outcome, terminal) if outcome else DONE
