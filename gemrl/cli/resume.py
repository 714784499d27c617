"""`gemrl resume`: continues a run that was stopped or killed."""

from __future__ import annotations

import argparse

from gemrl.cli.arguments import add_env_timeout, count, path
from gemrl.cli.console import Terminal
from gemrl.cli.train import summarize
from gemrl.core.exit_codes import DONE
from gemrl.experiments.run_interface import ResumeOptions


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command to its parser."""
    parser.description = (
        "Continue a run from its last checkpoint. The results are bit-identical to those of an uninterrupted run."
    )
    parser.add_argument("run", type=path, metavar="RUN", help="the run folder")
    parser.add_argument("--steps", type=count, metavar="N", help="new total number of steps, to extend the run")
    parser.add_argument(
        "--other-versions", action="store_true", help="continue with other versions of packages; results may then differ slightly"
    )
    add_env_timeout(parser, None)
    parser.set_defaults(command=resume)


def resume(options: argparse.Namespace) -> int:
    """Continues a run; returns the exit code."""
    from gemrl.experiments.run import resume_run

    terminal = Terminal()
    outcome = resume_run(ResumeOptions(options.run, options.steps, options.other_versions, options.env_timeout), terminal)
    return summarize(outcome, terminal) if outcome else DONE
