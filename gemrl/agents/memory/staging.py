"""Rows on the host that wait for their way into the memory."""

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
    """Rows on the host that wait for their way to the device, so that a step costs no device call."""

    def __init__(self, lanes: int, rows: int, layout: Layout, reward_bound: float = np.inf) -> None:
        self._shape = (lanes, rows, stored(layout))
        self._bound = reward_bound
        self._lanes = np.arange(lanes)
        self._camera = FrameCollector(lanes, rows, layout) if layout.frames > 1 else None
        self.rows, self.count = empty_rows(*self._shape), np.zeros(lanes, np.int32)

    @property
    def full(self) -> bool:
        """Whether another step might not fit."""
        return bool(self.count.max() == self._shape[1])

    def add(self, step: Transition, gamma: float) -> None:
        """Appends one step of every lane; a lane that only reset its environment keeps its count, so its row is void."""
        at = self._lanes, self.count
        last = step.terminated | step.truncated
        if self._camera is None:
            self.rows.observation[at], self.rows.next_observation[at] = step.observation, step.next_observation
        else:
            for lane in map(int, np.flatnonzero(step.stored)):
                seen = self._camera.see(lane, step.observation[lane], step.next_observation[lane], ended=bool(last[lane]))
                place = lane, self.count[lane]
                self.rows.observation[place], self.rows.next_observation[place] = seen
        self.rows.action[at] = step.action
        self.rows.reward[at] = np.clip(step.reward, -self._bound, self._bound)
        self.rows.discount[at] = np.where(step.terminated, 0.0, gamma)
        self.rows.last[at] = last
        self.count = self.count + step.stored

    def cut(self) -> None:
        """All environments are about to be reset."""
        if self._camera:
            self._camera.cut()

    def snapshot(self) -> Snapshot:
        """All of it."""
        images = self._camera.arrays() if self._camera else {}
        return Snapshot({}, self.rows.columns() | {"count": self.count} | images)

    def restore(self, saved: Snapshot) -> None:
        """Takes over a snapshot."""
        arrays = fitting(saved.arrays, self.snapshot().arrays)
        count = arrays["count"]
        if not ((count >= 0) & (count <= self._shape[1])).all():
            raise ModelFileError("more rows wait for the memory than there is room for")
        columns: dict[str, Any] = {name: np.array(arrays[name]) for name in self.rows.columns()}
        self.rows = self.rows._replace(**columns)
        self.count = np.array(count)
        if self._camera:
            self._camera.restore({name: arrays[name] for name in self._camera.arrays()})

    def take(self) -> tuple[Rows, np.ndarray]:
        """All rows, with the images that came with them, and how many of each lane count; the staging is empty after that."""
        taken = self.rows._replace(film=self._camera.take()) if self._camera else self.rows, self.count
        self.rows, self.count = empty_rows(*self._shape), np.zeros_like(self.count)
        return taken
