"""The command `gemrl`, which is python -m gemrl too."""

import io
import sys

from gemrl.heap import keep_memory
from gemrl.threads import settle


def script() -> None:
    """The entry point of the installed command."""
    for stream in (sys.stdout, sys.stderr):  # a folder's name may hold what no terminal can show
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    settle(sys.argv[1:])
    keep_memory()
    from gemrl.cli import main

    sys.exit(main())


if __name__ == "__main__":
    script()
