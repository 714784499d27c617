"""Stops a process with a one-line message: on a second Ctrl-C, or if an environment does not respond."""

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
"""Seconds that one call of an environment may take by default."""


def end_now(message: str, code: int) -> NoReturn:
    """Ends the process without cleaning up. Files on disk are complete at any time, so nothing is lost."""
    try:
        show_cursor = "\x1b[?25h" if sys.stderr.isatty() else ""  # a progress bar hides it
        os.write(2, f"{show_cursor}\ngemrl: {message}\n".encode(errors="replace"))
    finally:  # even if stderr is closed
        os._exit(code)


class _Call:
    """The environment call in progress: a description of it (`where`) and when it began."""

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
"""Wraps every call of an environment, as in `with env_call(where):`."""


def limit_env_calls(seconds: float) -> None:
    """Starts a thread that ends the process if a call of an environment takes longer than this."""

    def watch() -> None:
        never, pause = threading.Event(), min(1.0, seconds / 4)
        since = waited = 0.0
        before = monotonic()
        while not never.wait(pause):
            now = monotonic()
            # Time during which the whole process was suspended (by Ctrl-Z, for example) does not count.
            passed, before = min(now - before, 2 * pause), now
            waited = waited + passed if env_call.since == since else 0.0
            since = env_call.since
            if waited > seconds and since < float("inf"):
                end_now(
                    f"the environment did not respond within {seconds:g} s at {env_call.where} (--env-timeout); "
                    "the last checkpoint, if there is one, is kept",
                    1,
                )

    threading.Thread(target=watch, daemon=True).start()


class Interrupts:
    """A context in which Ctrl-C or SIGTERM sets `asked`, so that work stops between two steps; a second one calls `on_second`."""

    def __init__(self, on_second: Callable[[], None]) -> None:
        self.asked = False
        self._on_second = on_second
        self._previous_handlers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous_handlers[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            self._on_second()
        self.asked = True
