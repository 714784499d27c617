"""Prints lines of text."""

from __future__ import annotations

import sys

from gemrl.core.text import printable


def echo(line: str, *, error: bool = False) -> None:
    """Prints a line, to standard error if it is an `error`. Every command prints through here or through `Terminal`."""
    print(printable(line), file=sys.stderr if error else sys.stdout, flush=True)
