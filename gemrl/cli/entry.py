"""The entry point of the command `gemrl`. It imports nothing heavy: threads must be set before numpy and JAX are loaded."""

import io
import sys

from gemrl.core.heap import keep_memory
from gemrl.core.threads import set_threads


def script() -> None:
    """Runs the command line and exits with its exit code."""
    for stream in (sys.stdout, sys.stderr):  # a folder name may contain characters that the terminal cannot show
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    set_threads(sys.argv[1:])
    keep_memory()
    from gemrl.cli.main import main

    sys.exit(main())
