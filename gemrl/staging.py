"""Rows on the host that wait for their way into the memory."""

from __future__ import annotations

import numpy as np

from gemrl.environments import Transition
from gemrl.errors import ModelFileError
from gemrl.memory import Rows, empty_rows
from gemrl.snapshot import Snapshot, fit, fitting


class Staging:
    """Rows on the host that wait for their way to the device, so that a step costs no device call."""

    def __init__(self, lanes: int, rows: int, observation: int, action: int) -> None:
        self._shape = (lanes, rows, observation, action)
        self._lanes = np.arange(lanes)
        self.rows, self.count = empty_rows(*self._shape), np.zeros(lanes, np.int32)

    @property
    def full(self) -> bool:
        """Whether another step might not fit."""
        return bool(self.count.max() == self._shape[1])

    def add(self, step: Transition, gamma: float) -> None:
        """Appends one step of every lane; a lane that only reset its environment keeps its count, so its row is void."""
        at = self._lanes, self.count
        self.rows.observation[at] = step.observation
        self.rows.action[at] = step.action
        self.rows.reward[at] = step.reward
        self.rows.discount[at] = np.where(step.terminated, 0.0, gamma)
        self.rows.last[at] = step.terminated | step.truncated
        self.rows.next_observation[at] = step.next_observation
        self.count = self.count + step.stored

    def snapshot(self) -> Snapshot:
        """All of it."""
        return Snapshot({}, self.rows._asdict() | {"count": self.count})

    def restore(self, saved: Snapshot) -> None:
        """Takes over a snapshot."""
        arrays = fitting(saved.arrays, self.snapshot().arrays)
        count = fit("count", arrays.pop("count"), self.count.shape, self.count.dtype)
        if not ((count >= 0) & (count <= self._shape[1])).all():
            raise ModelFileError("more rows wait for the memory than there is room for")
        self.rows, self.count = Rows(**{name: np.array(array) for name, array in arrays.items()}), np.array(count)

    def take(self) -> tuple[Rows, np.ndarray]:
        """All rows and how many of each lane count; the staging is empty after that."""
        taken = self.rows, self.count
        self.rows, self.count = empty_rows(*self._shape), np.zeros_like(self.count)
        return taken
