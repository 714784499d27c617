"""Small phrases for messages."""

from __future__ import annotations

import sys

from gemrl.core.text import printable


def counted(number: int, noun: str) -> str:
    """A number with its noun, such as "1 run" or "12 runs"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def echo(line: str, *, error: bool = False) -> None:
    """Prints a line, to standard error if it is an `error`. Every command prints through here or through `Terminal`."""
    print(printable(line), file=sys.stderr if error else sys.stdout, flush=True)
