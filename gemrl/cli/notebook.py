"""The progress bar of a Jupyter notebook, which replaces itself in the output of its cell. It needs IPython only."""

from __future__ import annotations

from html import escape
from time import monotonic
from typing import Any

from gemrl.training.loop import Event

SECONDS = 0.25
"""The least time between two updates; each is a message to the browser."""


class NotebookBar:
    """Shows how far a training is, how fast, and its last evaluation."""

    def __init__(self, steps: int, title: str) -> None:
        from IPython.display import display

        self._steps, self._title = steps, title
        self._started: tuple[int, float] | None = None  # step and time of the first event
        self._shown, self._step, self._last = monotonic(), 0, ""
        show: Any = display
        self._handle = show(self._content(""), raw=True, display_id=True)

    def show(self, event: Event) -> None:
        """Shows an event, unless the last one was shown just before."""
        now = monotonic()
        self._step, self._started = event.step, self._started or (event.step, now)
        if event.evaluation:
            self._last = f"return {event.evaluation.return_mean:,.1f} at step {event.step:,}"
        if event.compiling or event.evaluation or now - self._shown > SECONDS:
            self._update("compiling" if event.compiling else "")

    def close(self) -> None:
        """Shows the last event, which may have been left out."""
        self._update("")

    def _update(self, activity: str) -> None:
        self._shown = monotonic()
        self._handle.update(self._content(activity), raw=True)

    def _content(self, activity: str) -> dict[str, str]:
        """The bar with its texts: for a browser, and for what shows no HTML."""
        text = "  ".join(filter(None, [f"{self._step:,}/{self._steps:,}", *self._speed(), activity, self._last]))
        bar = f'<progress value="{self._step}" max="{self._steps}"></progress>'
        html = f"<b>{escape(self._title)}</b> {bar} {escape(text)}"
        return {"text/html": html, "text/plain": f"{self._title}  {text}"}

    def _speed(self) -> list[str]:
        """Steps per second since the first event, and the time that is left at this speed."""
        first, since = self._started or (0, self._shown)
        seconds, taken = self._shown - since, self._step - first
        if seconds <= 0 or taken <= 0:
            return []
        left = round((self._steps - self._step) * seconds / taken)
        return [f"{taken / seconds:,.0f}/s", f"{left // 3600}:{left // 60 % 60:02}:{left % 60:02} left"]
