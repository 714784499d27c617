"""The process of one run of a study: `gemrl train` or `gemrl resume`, which stops when the process that started it is gone.

Its standard input is a pipe that only the starter holds. When the pipe closes, on purpose or because the starter was killed,
the run writes a checkpoint and ends.
"""

from __future__ import annotations

import os
import signal
import threading

from gemrl.cli.entry import script


def _stop_when_alone() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Watches the pipe and runs the command line."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the starter, which closes the pipe
    threading.Thread(target=_stop_when_alone, daemon=True).start()
    script()


if __name__ == "__main__":
    main()
