"""The process of one run of a study: `gemrl train` or `gemrl resume`, which stops gently when whoever started it is gone.

Its standard input is a pipe that only its starter holds. When the pipe closes, be it on purpose or because the starter was
killed, the run writes a checkpoint and ends: no run goes on unseen.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path


def command(folder: Path, words: Sequence[str]) -> list[str]:
    """What starts the run of these words of `gemrl train`, or goes on with it."""
    begun = (folder / "run.json").exists()
    return [sys.executable, "-m", "gemrl.executors.worker", *(["resume", str(folder)] if begun else words)]


def _stop_when_alone() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Watches the pipe, and does what the words say."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the starter's to answer: it closes the pipe
    threading.Thread(target=_stop_when_alone, daemon=True).start()
    from gemrl.__main__ import script

    script()


if __name__ == "__main__":
    main()
