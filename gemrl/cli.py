"""The command line: one command a function. JAX is imported only when it is needed."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import gemrl
from gemrl.arguments import Subcommands, count, share, whole
from gemrl.env_args import add_env_args
from gemrl.errors import DONE, FAILED, INTERRUPTED, WRONG_USE, BadValue, GemrlError, UnknownName, unknown
from gemrl.looking import add_options, show_memory
from gemrl.recipes import recipe
from gemrl.report.cli import add_results
from gemrl.studies.command import add_study
from gemrl.tracking import TRACKERS
from gemrl.watchdog import ENV_TIMEOUT


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are exceptions, to be told in one line."""

    def error(self, message: str) -> NoReturn:
        if message.endswith("required: ENV"):  # an option of many values takes what stands behind it
            message += " (it comes first, before --set and --env-args)"
        raise BadValue(f"{message}; see `{self.prog} --help`")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        options = parse(words)
        command: Callable[[argparse.Namespace], int] = options.command
        return command(options)
    except GemrlError as error:
        print(f"gemrl: {' '.join(str(error).split())}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("gemrl: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:  # such as a folder that may not be looked into
        print(f"gemrl: {error.filename or 'the system'}: {error.strerror or error}", file=sys.stderr)
        return FAILED


def parse(words: list[str]) -> argparse.Namespace:
    """The options that the words of a command line spell."""
    parser = _Parser(
        prog="gemrl",
        description="Sample-efficient reinforcement learning with episodic memory (GEM, Hu et al., ICML 2021).",
        epilog="Start with: gemrl train InvertedPendulum-v5 --steps 6000 --set learning_starts=1000",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"gemrl {gemrl.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=_Parser)
    for add in (_add_train, _add_resume, _add_evaluate, _add_memory, add_study, add_results, _add_algos, _add_theory):
        add(commands)
    if not words:
        parser.print_help()
        raise SystemExit(WRONG_USE)
    if words[0] not in commands.choices and not words[0].startswith("-"):
        raise unknown("command", words[0], commands.choices, f"; known: {', '.join(commands.choices)}")
    options, rest = parser.parse_known_args(words)
    if rest:
        _refuse(rest[0], commands.choices.get(words[0], parser))
    if not hasattr(options, "command"):
        parser.error("a command is missing")
    return options


def _refuse(word: str, parser: argparse.ArgumentParser) -> NoReturn:
    if word.startswith("-"):
        flags = [flag for action in parser._actions for flag in action.option_strings]
        raise unknown("option", word.split("=")[0], flags, f"; see `{parser.prog} --help`")
    raise UnknownName(f"unexpected argument {word!r}; see `{parser.prog} --help`")


def _add_train(commands: Subcommands) -> None:
    train = commands.add_parser(
        "train",
        help="train an agent on an environment",
        description="Train an agent on a gymnasium environment: vectors with continuous or discrete actions, images and numbered "
        "states with discrete ones.",
        epilog="All fields that --set reaches: gemrl algos --fields",
        allow_abbrev=False,
    )
    train.add_argument("env", metavar="ENV", help="a gymnasium id such as HalfCheetah-v5, or package.module:Env-v0")
    add_env_args(train)
    train.add_argument(
        "--algo", default="gem", metavar="NAME", help="a recipe of `gemrl algos` (default: gem, of the kind that fits ENV)"
    )
    train.add_argument("--steps", type=count, default=1_000_000, metavar="N", help="environment steps (default: 1,000,000)")
    train.add_argument("--seed", type=whole, default=0, metavar="S", help="the seed of everything random (default: 0)")
    train.add_argument("--run", type=Path, metavar="DIR", help="the run's folder (default: runs/<algo>/<env>/<seed>)")
    train.add_argument(
        "--set",
        action="extend",
        nargs="+",
        default=[],
        metavar="FIELD=VALUE",
        dest="settings",
        help="change fields of the recipe, such as depth=20 learning_starts=1000",
    )
    train.add_argument("--eval-every", type=count, metavar="N", help="steps between evaluations (default: 10,000; Atari: 50,000)")
    train.add_argument("--eval-episodes", type=count, metavar="K", help="episodes of an evaluation (default: 10; Atari: 5)")
    train.add_argument("--sticky", type=share, metavar="P", help="Atari: chance that an action repeats the last (default: 0)")
    train.add_argument(
        "--n-envs", type=count, default=1, metavar="N", help="environments, stepped one after the other (default: 1)"
    )
    train.add_argument(
        "--checkpoint-every", type=count, metavar="N", help="steps between checkpoints (default: about one a minute)"
    )
    train.add_argument("--threads", type=count, metavar="N", help="threads to compute on (default: one per core)")
    _add_env_timeout(train, ENV_TIMEOUT)
    train.add_argument("--tensorboard", action="store_true", help="write TensorBoard logs into the run's folder too")
    train.add_argument(
        "--track", nargs="?", const=TRACKERS[0], choices=TRACKERS, help="log to trackio (default) or Weights & Biases too"
    )
    _add_device(train)
    train.set_defaults(command=_train)


def _add_resume(commands: Subcommands) -> None:
    resume = commands.add_parser(
        "resume",
        help="go on with a run that was stopped or killed",
        description="Go on with a run from its last checkpoint, to the same bits as if it had never stopped.",
        allow_abbrev=False,
    )
    resume.add_argument("run", type=Path, metavar="RUN", help="a run's folder")
    resume.add_argument("--steps", type=count, metavar="N", help="train for more steps than the run was made for")
    resume.add_argument("--other-versions", action="store_true", help="go on although versions differ: other bits may come out")
    _add_env_timeout(resume, None)
    resume.set_defaults(command=_resume)


def _add_env_timeout(parser: argparse.ArgumentParser, default: int | None) -> None:
    """The option --env-timeout; a run keeps it."""
    usual = str(default) if default else f"what the run was begun with, usually {ENV_TIMEOUT}"
    parser.add_argument(
        "--env-timeout",
        type=count,
        default=default,
        metavar="S",
        help=f"seconds an environment may take to answer (default: {usual})",
    )


def _add_evaluate(commands: Subcommands) -> None:
    evaluate = commands.add_parser(
        "evaluate",
        help="score a trained run, film it or watch it",
        description="Score the trained model of a run on episodes of the deterministic policy.",
        epilog="Films of MuJoCo tasks are drawn off screen through EGL: Debian's package is libegl1.",
        allow_abbrev=False,
    )
    evaluate.add_argument("run", type=Path, metavar="RUN", help="a run's folder")
    evaluate.add_argument("--episodes", type=count, default=10, metavar="K", help="how many episodes (default: 10)")
    evaluate.add_argument(
        "--seed",
        type=whole,
        metavar="S",
        help="the seed of the episodes (default: that of the run, whose evaluations play the same)",
    )
    evaluate.add_argument("--video", type=Path, metavar="FILE", help="film the first episode into FILE (.mp4 or .gif)")
    evaluate.add_argument("--render", action="store_true", help="show the first episode in a window")
    _add_device(evaluate)
    evaluate.set_defaults(command=_evaluate)


def _add_memory(commands: Subcommands) -> None:
    memory = commands.add_parser("memory", help="show what a run remembers, as numbers and a picture", allow_abbrev=False)
    add_options(memory)
    memory.set_defaults(command=show_memory)


def _add_algos(commands: Subcommands) -> None:
    algos = commands.add_parser(
        "algos",
        help="list the algorithms and what each differs in",
        description="List the algorithms, each as what it differs in from the one it is best compared with.",
        allow_abbrev=False,
    )
    algos.add_argument("--fields", action="store_true", help="list the fields of the recipes instead, with their values")
    algos.set_defaults(command=_algos)


def _add_theory(commands: Subcommands) -> None:
    theory = commands.add_parser(
        "theory",
        help="check the paper's theorems by experiment",
        description="Check the paper's theorems by experiment: a figure and a line of verdict for each.",
        allow_abbrev=False,
    )
    theory.add_argument("--out", type=Path, default=Path("theory"), metavar="DIR", help="where the figures go (default: theory)")
    theory.add_argument("--full", action="store_true", help="more MDPs, seeds and samples, for smooth figures; takes far longer")
    theory.add_argument("--seed", type=whole, default=0, metavar="S", help="the seed of everything random (default: 0)")
    theory.set_defaults(command=_theory)


def _add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", choices=("auto", "cpu", "gpu"), default="auto", help="where to compute (default: auto)")


def _train(options: argparse.Namespace) -> int:
    recipe(options.algo)  # a name that is wrong is told before anything is imported or made
    from gemrl.session import train_run

    return train_run(options)


def _resume(options: argparse.Namespace) -> int:
    from gemrl.session import resume_run

    return resume_run(options)


def _evaluate(options: argparse.Namespace) -> int:
    from gemrl.scoring import evaluate_run

    return evaluate_run(options)


def _algos(options: argparse.Namespace) -> int:
    from gemrl.tables import algorithms_table, fields_tables, show

    show(*(fields_tables() if options.fields else [algorithms_table()]))
    return DONE


def _theory(options: argparse.Namespace) -> int:
    from gemrl.theory.command import show_theory

    return show_theory(options)
