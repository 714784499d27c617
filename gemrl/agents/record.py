"""The record of training episodes, by which an agent tells when its newest policy is worth holding (averaging.py)."""

from __future__ import annotations

import numpy as np

from gemrl.core.snapshot import Snapshot
from gemrl.core.steps import Transition

WINDOW = 1_000
"""Policies are judged by the mean return of the training episodes that ended in the last so many steps."""


class Record:
    """The returns of the newest training episodes, and the best score that a policy is held for."""

    def __init__(self, patience: int, lanes: int) -> None:
        self._patience = patience
        self._steps, self._best, self._held = 0, -np.inf, -patience - 1
        self._running = np.zeros(lanes)
        self._ended: list[tuple[int, float]] = []  # when the newest episodes ended, and their returns

    def add(self, transition: Transition) -> bool:
        """Adds one step of every environment; returns whether the newest policy should be held from now on."""
        stored = transition.stored
        self._steps += int(stored.sum())
        self._running += np.where(stored, transition.reward, 0)
        over = stored & (transition.terminated | transition.truncated)
        if not over.any():
            return False
        self._ended += [(self._steps, float(total)) for total in self._running[over]]
        self._ended = [end for end in self._ended if end[0] > self._steps - WINDOW]
        self._running[over] = 0
        score = float(np.mean([total for _, total in self._ended]))
        if score < self._best and self._steps - self._held <= self._patience:
            return False
        self._best, self._held = score, self._steps
        return True

    def abandon(self) -> None:
        """Forgets the returns of running episodes, which will not end."""
        self._running[:] = 0

    def snapshot(self) -> Snapshot:
        """All state."""
        facts = {"steps": self._steps, "held": self._held}
        ended = np.array(self._ended, np.float64).reshape(-1, 2)
        return Snapshot(facts, {"best": np.array(self._best), "running": self._running, "ended": ended})

    def restore(self, saved: Snapshot) -> None:
        """Restores a snapshot."""
        facts, arrays = saved
        self._steps, self._held = int(facts["steps"]), int(facts["held"])
        self._best, self._running = float(arrays["best"]), np.array(arrays["running"])
        self._ended = [(int(step), float(total)) for step, total in arrays["ended"]]
