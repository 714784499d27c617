"""The entry point of the command `gemrl`. Threads are set before numpy and JAX are loaded, so nothing heavy is imported here."""

import io
import sys

from gemrl.core.heap import keep_memory
from gemrl.core.threads import set_threads


def script() -> None:
    """Runs the command line and exits with its code."""
    for stream in (sys.stdout, sys.stderr):  # a folder's name may hold characters that the terminal cannot show
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    set_threads(sys.argv[1:])
    keep_memory()
    from gemrl.cli.main import main

    sys.exit(main())
