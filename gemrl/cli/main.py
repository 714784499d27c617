"""The command line: parses the arguments, runs the command and turns errors into one line and an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from gemrl.cli.text import echo
from gemrl.core.exceptions import BadValue, GemrlError, UnknownName
from gemrl.core.exit_codes import FAILED, INTERRUPTED, WRONG_USE
from gemrl.core.suggestions import unknown
from gemrl.core.version import __version__

COMMANDS = {
    "train": "train an agent on an environment",
    "resume": "continue a run that was stopped or killed",
    "evaluate": "evaluate a trained model, record a video or watch it",
    "memory": "show the memory of a run as statistics and a figure",
    "tune": "search for good hyperparameters of an algorithm on an environment",
    "study": "run a study (recipes x environments x seeds) from the paper, or your own",
    "figure": "draw a figure of the paper from runs",
    "report": "write one HTML file about a folder of runs",
    "compare": "compare runs with published results",
    "export": "export a trained policy for deployment, or runs for rl-zoo3",
    "push": "push a trained model to the Hugging Face Hub",
    "algos": "list the algorithms and how they differ",
    "theory": "check the paper's theorems by experiment",
}
"""What each command does. Its options are in the module of its name, which is imported when the command is used."""


class _Parser(argparse.ArgumentParser):
    """A parser that raises BadValue for wrong arguments, which `main` prints in one line."""

    def error(self, message: str) -> NoReturn:
        if message.endswith("required: ENV"):  # an option with several values consumes what follows it
            message += " (it comes first, before --set, --env-args and --data)"
        raise BadValue(f"{message}; see `{self.prog} --help`")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    try:
        options = parse(list(sys.argv[1:] if arguments is None else arguments))
        command: Callable[[argparse.Namespace], int] = options.command
        return command(options)
    except GemrlError as error:
        echo(f"gemrl: {' '.join(str(error).split())}", error=True)
        return error.exit_code
    except KeyboardInterrupt:
        echo("gemrl: interrupted", error=True)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:  # such as a folder without read permission
        echo(f"gemrl: {error.filename or 'the system'}: {error.strerror or error}", error=True)
        return FAILED


def parse(arguments: list[str]) -> argparse.Namespace:
    """The parsed options of a command line."""
    parser = _Parser(
        prog="gemrl",
        description="Sample-efficient reinforcement learning with episodic memory (GEM, Hu et al., ICML 2021).",
        epilog="Start with: gemrl train InvertedPendulum-v5 --steps 6000 --set learning_starts=1000",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"gemrl {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=_Parser)
    for name, summary in COMMANDS.items():
        commands.add_parser(name, help=summary, allow_abbrev=False)
    if not arguments:
        parser.print_help()
        raise SystemExit(WRONG_USE)
    if arguments[0] in COMMANDS:
        importlib.import_module(f"gemrl.cli.{arguments[0]}").configure(commands.choices[arguments[0]])
    elif not arguments[0].startswith("-"):
        raise unknown("command", arguments[0], COMMANDS, f"; known: {', '.join(COMMANDS)}")
    options, rest = parser.parse_known_args(arguments)
    if rest:
        _reject(rest[0], commands.choices.get(arguments[0], parser))
    if not hasattr(options, "command"):
        parser.error("no command given")
    return options


def _reject(argument: str, parser: argparse.ArgumentParser) -> NoReturn:
    """Raises UnknownName for an argument that the parser does not know."""
    if argument.startswith("-"):
        flags = [flag for action in parser._actions for flag in action.option_strings]
        raise unknown("option", argument.split("=")[0], flags, f"; see `{parser.prog} --help`")
    raise UnknownName(f"unexpected argument {argument!r}; see `{parser.prog} --help`")
