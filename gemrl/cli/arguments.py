"""Argument types and options shared by several commands."""

from __future__ import annotations

import argparse
from pathlib import Path

from gemrl.core.processes import ENV_TIMEOUT
from gemrl.core.reading import is_text


def path(text: str) -> Path:
    """Parses a path, which must not be empty: an empty one would be the current folder."""
    if not text.strip() or not is_text(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a path")
    return Path(text)


def whole(text: str) -> int:
    """Parses a whole number of at least 0, such as 1e6 or 1,000,000."""
    digits = text.replace(",", "")
    try:
        number = int(digits) if digits.isdecimal() else float(digits)  # float would round large integers
        if number != int(number) or number < 0:
            raise ValueError
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0") from None
    return int(number)


def fraction(text: str) -> float:
    """Parses a number from 0 to 1."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return number


def count(text: str) -> int:
    """Parses a whole number of at least 1."""
    try:
        number = whole(text)
    except argparse.ArgumentTypeError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number


def add_env_args(parser: argparse.ArgumentParser) -> None:
    """Adds the option --env-args."""
    parser.add_argument(
        "--env-args",
        action="extend",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="keyword arguments of the environment, such as is_slippery=False max_episode_steps=200 \"map_name='8x8'\", "
        "and options of every reset: \"reset_options={'low': -0.1}\"",
    )
    parser.add_argument(
        "--wrap",
        action="append",
        default=[],
        metavar="MODULE:NAME",
        help="wrap the environment in a gymnasium wrapper, such as gymnasium.wrappers:FlattenObservation, or by a function that "
        "takes and returns one, such as my_module:make; may be repeated, and the last one is the outermost",
    )


def add_settings(parser: argparse.ArgumentParser, text: str) -> None:
    """Adds the option --set, with this help text."""
    parser.add_argument("--set", action="extend", nargs="+", default=[], metavar="FIELD=VALUE", dest="settings", help=text)


def add_env_timeout(parser: argparse.ArgumentParser, default: int | None) -> None:
    """Adds the option --env-timeout, which is stored with the run. None: by default, the stored value."""
    shown = str(default) if default else f"the value the run was started with, usually {ENV_TIMEOUT}"
    parser.add_argument(
        "--env-timeout",
        type=count,
        default=default,
        metavar="S",
        help=f"seconds that one call of the environment may take (default: {shown})",
    )


def add_device(parser: argparse.ArgumentParser) -> None:
    """Adds the option --device."""
    parser.add_argument("--device", choices=("auto", "cpu", "gpu"), default="auto", help="device to run on (default: auto)")
