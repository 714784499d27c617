"""Stops a process with one line: on Ctrl-C, after the work at hand or at once, or if an environment does not respond."""

from __future__ import annotations

import math
import os
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
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


def _print_above(message: str) -> None:
    """Writes a line to stderr, in place of a progress bar, which is drawn again below it. Any thread may call it."""
    clear = "\r\x1b[2K" if sys.stderr.isatty() else ""
    with suppress(OSError):
        os.write(2, f"{clear}gemrl: {message}\n".encode(errors="replace"))


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


_answering: set[int] = set()
"""File descriptors through which signals reach the threads that answer them."""


def _leave_in_child() -> None:
    """In a forked child, such as an environment's process: its signals, which Ctrl-C sends too, must not count for the parent."""
    if _answering:
        _answering.clear()
        with suppress(ValueError):  # forked by another thread than the main one
            signal.set_wakeup_fd(-1)


os.register_at_fork(after_in_child=_leave_in_child)


class Interrupts:
    """A context in which Ctrl-C or SIGTERM sets `asked`, so that work stops between two steps.

    The first one is acknowledged with a line that begins with `line`, the second one calls `on_second`. Python runs its signal
    handlers between two instructions, which may be minutes apart while a compiled program runs. A thread answers immediately.
    With `ends`, which says that `on_second` ends the process, the thread calls it too.
    """

    def __init__(self, on_second: Callable[[], None], line: str = "stopping after this round", *, ends: bool = False) -> None:
        self.asked = False
        self._on_second, self._line, self._ends = on_second, line, ends
        self._previous_handlers: dict[int, Any] = {}
        self._times, self._since = deque[float](maxlen=1000), monotonic()
        self._previous_wakeup, self._wakeup = -1, list[socket.socket]()

    def finished_step(self, *, typical: bool = True) -> None:
        """Records that a step is complete. The times of typical ones tell how long the next one may take."""
        now = monotonic()
        if typical:
            self._times.append(now - self._since)
        self._since = now

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous_handlers[number] = signal.signal(number, self._handle)
            self._wakeup = list(socket.socketpair())
            self._wakeup[0].setblocking(False)
            self._previous_wakeup = signal.set_wakeup_fd(self._wakeup[0].fileno(), warn_on_full_buffer=False)
            _answering.add(self._wakeup[0].fileno())
            threading.Thread(target=self._answer, args=(self._wakeup[1],), daemon=True).start()
        self._since = monotonic()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)
        if self._wakeup:
            signal.set_wakeup_fd(self._previous_wakeup)
            _answering.discard(self._wakeup[0].fileno())
            self._wakeup[0].close()  # which ends the thread

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked and not self._ends:
            self._on_second()
        self.asked = True

    def _answer(self, wakeup: socket.socket) -> None:
        """Answers each signal, whose number arrives as a byte, until the context ends."""
        received = 0
        with wakeup:
            while numbers := wakeup.recv(64):
                before, received = received, received + sum(number in self._previous_handlers for number in numbers)
                if before == 0 < received:
                    _print_above(f"{self._line}{self._about()}; again to stop now")
                if received > 1 and self._ends:
                    self._on_second()

    def _about(self) -> str:
        """How long the step at hand may still take, as far as earlier ones tell."""
        left = max(list(self._times), default=0.0) - (monotonic() - self._since)
        return f", about {math.ceil(left)} s" if left > 0 else ""
