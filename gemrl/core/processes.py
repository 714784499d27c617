"""Ending a process at once and in words: an environment that does not answer, or a person who insists."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from time import monotonic
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

ENV_TIMEOUT = 600
"""Seconds that an environment may take to answer, unless it is told otherwise."""


def end_now(message: str, code: int) -> NoReturn:
    """Ends the process without any cleaning up. What is on the disk is complete at any moment, so nothing is lost."""
    try:
        show_cursor = "\x1b[?25h" if sys.stderr.isatty() else ""  # a progress bar hides it
        os.write(2, f"{show_cursor}\ngemrl: {message}\n".encode(errors="replace"))
    finally:  # though nobody may be there to read it
        os._exit(code)


class _Call:
    """The call of an environment that is going on: what it is and since when."""

    def __init__(self) -> None:
        self.where, self.since = "", float("inf")

    def __call__(self, where: str) -> Self:
        self.where = where
        return self

    def __enter__(self) -> None:
        self.since = monotonic()

    def __exit__(self, *_: object) -> None:
        self.since = float("inf")


env_call = _Call()
"""`with env_call(where):` around every call of an environment."""


def limit_env_calls(seconds: float) -> None:
    """From now on the process ends if a call of an environment takes longer."""

    def watch() -> None:
        never, pause = threading.Event(), min(1.0, seconds / 4)
        since = waited = 0.0
        before = monotonic()
        while not never.wait(pause):
            now = monotonic()
            # A process that was stopped for a while, by Ctrl-Z maybe, has not waited all that time.
            passed, before = min(now - before, 2 * pause), now
            waited = waited + passed if env_call.since == since else 0.0
            since = env_call.since
            if waited > seconds and since < float("inf"):
                end_now(
                    f"the environment did not answer at {env_call.where} for {seconds:g} s (--env-timeout); "
                    "its last checkpoint, if there is one, is kept",
                    1,
                )

    threading.Thread(target=watch, daemon=True).start()


class Interrupts:
    """Within it, Ctrl-C and SIGTERM only set `asked`, so that work stops between two steps; a second one calls `on_second`."""

    def __init__(self, on_second: Callable[[], None]) -> None:
        self.asked = False
        self._insisted = on_second
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            self._insisted()
        self.asked = True
