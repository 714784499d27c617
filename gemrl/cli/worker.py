"""The process of one run of a study: `gemrl train` or `gemrl resume`, which stops when its parent process is gone.

Its standard input is a pipe that only the parent holds. When the pipe closes, on purpose or because the parent was killed,
the run writes a checkpoint and exits.
"""

from __future__ import annotations

import os
import signal
import threading

from gemrl.cli.entry import script


def _stop_without_parent() -> None:
    """Waits until standard input is closed, then sends SIGTERM to this process."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Runs the command line while a thread watches the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent, which closes the pipe
    threading.Thread(target=_stop_without_parent, daemon=True).start()
    script()


if __name__ == "__main__":
    main()
