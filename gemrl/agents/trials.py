"""When policies are tried out in training, and the returns of these trials.

In a trial the newest policy plays whole episodes without exploration, until it has played about a thousand steps. So its returns
are those that a user would see, and its mistakes are in the memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gemrl.core.snapshot import Snapshot
from gemrl.core.steps import Transition

TRIAL_STEPS = 1_000
"""A trial begins no new episode after so many steps."""


class Change(NamedTuple):
    """What a step of the environments changes."""

    starts: bool = False
    """Whether a trial of the newest policy starts."""
    score: float | None = None
    """The mean return of the trial that has just ended; None if none has."""


class Trials:
    """Trials every so many steps. A trial starts in each environment at the beginning of an episode."""

    def __init__(self, every: int, start: int, lanes: int) -> None:
        self._every, self._next = every, start + every
        self._steps = self._played = 0
        self._returns: list[float] = []  # of the trial's episodes that have ended
        self._running = np.zeros(lanes)  # the return so far of the trial's episode in each environment
        self._open = False
        self.trying = np.zeros(lanes, bool)
        """The environments whose episodes belong to the trial [E]."""

    def add(self, transition: Transition) -> Change:
        """Adds one step of every environment."""
        tried = transition.stored & self.trying
        self._steps += int(transition.stored.sum())
        self._played += int(tried.sum())
        self._running += np.where(tried, transition.reward, 0)
        over = transition.stored & (transition.terminated | transition.truncated)
        self._returns += map(float, self._running[over & tried])
        self._running[over] = 0
        starts = not self._open and self._steps >= self._next and bool(over.any())
        if starts:
            self._open, self._played, self._returns, self._next = True, 0, [], self._steps + self._every
        self.trying[over] = self._open and self._played < TRIAL_STEPS
        if not self._open or self._played < TRIAL_STEPS or self.trying.any():
            return Change(starts)
        self._open = False
        return Change(score=float(np.mean(self._returns)))

    def abandon(self) -> None:
        """Leaves out running episodes, which will not end; a trial goes on with the next ones."""
        self._running[:] = 0
        self.trying[:] = self._open

    def snapshot(self) -> Snapshot:
        """All state."""
        facts = {"next": self._next, "steps": self._steps, "played": self._played, "open": self._open}
        return Snapshot(facts, {"returns": np.array(self._returns), "running": self._running, "trying": self.trying})

    def restore(self, saved: Snapshot) -> None:
        """Restores a snapshot."""
        facts, arrays = saved
        self._next, self._steps, self._played = (int(facts[name]) for name in ("next", "steps", "played"))
        self._open, self._returns = bool(facts["open"]), [float(total) for total in arrays["returns"]]
        self._running, self.trying = (np.array(arrays[name]) for name in ("running", "trying"))
