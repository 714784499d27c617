"""New rows on the host, on their way to the memory on the device."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemrl.agents.memory.frames import FrameCollector, stored
from gemrl.agents.memory.ring import Rows, empty_rows
from gemrl.core.exceptions import ModelFileError
from gemrl.core.layout import Layout
from gemrl.core.snapshot import Snapshot, fitting
from gemrl.core.steps import Transition


class Staging:
    """Collects rows on the host until the next round, so that a step needs no device call."""

    def __init__(self, lanes: int, rows: int, layout: Layout, reward_bound: float = np.inf) -> None:
        self._shape = (lanes, rows, stored(layout))
        self._bound = reward_bound
        self._lanes = np.arange(lanes)
        self._frames = FrameCollector(lanes, rows, layout) if layout.kept_once else None
        self.rows, self.count = empty_rows(*self._shape), np.zeros(lanes, np.int32)

    @property
    def full(self) -> bool:
        """Whether another step might not fit."""
        return bool(self.count.max() == self._shape[1])

    def add(self, step: Transition, gamma: float) -> None:
        """Appends one step of the first lanes; if a lane only reset its environment, its row is not counted."""
        lanes = len(step.stored)
        at = self._lanes[:lanes], self.count[:lanes]
        last = step.terminated | step.truncated
        if self._frames is None:
            self.rows.observation[at], self.rows.next_observation[at] = step.observation, step.next_observation
        else:
            for lane in map(int, np.flatnonzero(step.stored)):
                references = self._frames.add(lane, step.observation[lane], step.next_observation[lane], ended=bool(last[lane]))
                at_lane = lane, self.count[lane]
                self.rows.observation[at_lane], self.rows.next_observation[at_lane] = references
        self.rows.action[at] = step.action
        self.rows.reward[at] = np.clip(step.reward, -self._bound, self._bound)
        self.rows.discount[at] = np.where(step.terminated, 0.0, gamma)
        self.rows.last[at] = last
        self.count[:lanes] += step.stored

    def cut(self) -> None:
        """Ends the episode of every lane: all environments are about to be reset."""
        if self._frames:
            self._frames.cut()

    def snapshot(self) -> Snapshot:
        """All staged rows and images."""
        images = self._frames.arrays() if self._frames else {}
        return Snapshot({}, self.rows.columns() | {"count": self.count} | images)

    def restore(self, saved: Snapshot) -> None:
        """Restores a snapshot."""
        arrays = fitting(saved.arrays, self.snapshot().arrays)
        count = arrays["count"]
        if not ((count >= 0) & (count <= self._shape[1])).all():
            raise ModelFileError("the staged rows are damaged: their number is out of range")
        columns: dict[str, Any] = {name: np.array(arrays[name]) for name in self.rows.columns()}
        self.rows = self.rows._replace(**columns)
        self.count = np.array(count)
        if self._frames:
            self._frames.restore({name: arrays[name] for name in self._frames.arrays()})

    def take(self) -> tuple[Rows, np.ndarray]:
        """All rows with their images, and how many rows of each lane are valid; empties the staging."""
        taken = self.rows._replace(film=self._frames.take()) if self._frames else self.rows, self.count
        self.rows, self.count = Rows(*map(np.zeros_like, self.rows.columns().values())), np.zeros_like(self.count)
        return taken
