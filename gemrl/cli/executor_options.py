"""Options of commands that start many runs: where to run them, and what each of them is told."""

from __future__ import annotations

import argparse

from gemrl.cli.arguments import count
from gemrl.core.processes import ENV_TIMEOUT
from gemrl.experiments.executors.base import Executor, ExecutorOptions
from gemrl.experiments.executors.registry import EXECUTORS


def add_executor_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that choose an executor."""
    parser.add_argument(
        "--workers", type=count, metavar="N", help="runs at a time, one thread each (default: one per core; with Ray: all)"
    )
    parser.add_argument("--executor", choices=tuple(EXECUTORS), default="local", help="where to run (default: local)")
    parser.add_argument(
        "--address", metavar="HOST:PORT", help="address of the Ray cluster (default: the one this machine belongs to)"
    )
    parser.add_argument("--gpus-per-run", type=_gpus, default=0.0, metavar="F", help="with Ray: GPUs per run, such as 0.25")


def _gpus(text: str) -> float:
    """Parses a number of GPUs, which may be a fraction."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 64:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of GPUs")
    return number


def executor_of(options: argparse.Namespace) -> Executor:
    """The executor that the options choose."""
    return EXECUTORS[options.executor](ExecutorOptions(options.workers, options.address, options.gpus_per_run))


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that are passed on to every run."""
    parser.add_argument(
        "--checkpoint-every",
        type=count,
        metavar="N",
        help="steps between checkpoints of runs that are not started yet (default: about one per minute)",
    )
    parser.add_argument(
        "--env-timeout",
        type=count,
        metavar="S",
        help=f"seconds that one call of the environment may take (default: {ENV_TIMEOUT})",
    )


def run_arguments(options: argparse.Namespace) -> list[str]:
    """The arguments of `gemrl train` that are passed on to every run."""
    given = {"--checkpoint-every": options.checkpoint_every, "--env-timeout": options.env_timeout}
    return [argument for name, value in given.items() if value is not None for argument in (name, str(value))]
