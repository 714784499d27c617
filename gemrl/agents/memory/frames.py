"""Images without duplicates: a ring of single frames, and rows that refer to them.

If each row stored a stack of four images and the next stack, every image would be stored eight times. Here each image is stored
once, in the order of observation, including the last one of an episode. Instead of an observation, a row holds a reference: the
number of its newest image, and how many earlier images of the same episode are in its stack. At the start of an episode there
are too few, so its first image is repeated, as in gymnasium's FrameStackObservation.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from gemrl.core.arrays import Array
from gemrl.core.exceptions import ModelFileError
from gemrl.core.layout import Layout


class Frames(eqx.Module):
    """The newest images of E lanes. The images of a lane are numbered from 0, in the order of writing."""

    pixels: Array  # [E, F, *I]
    written: Array  # [E]
    stack: int = eqx.field(static=True)
    """How many images an observation stacks on its first axis; 1 if it is a single image."""

    @staticmethod
    def empty(lanes: int, rows: int, layout: Layout) -> Frames:
        """An empty ring on the host for the images of `rows` rows; an episode has one image more than it has steps."""
        pixels = np.zeros((lanes, slots(rows), *layout.single), layout.dtype)
        return Frames(pixels, np.zeros(lanes, np.int32), layout.frames)

    @property
    def used(self) -> int:
        """Slots that were ever written, in the fullest lane."""
        return min(int(self.written.max()), self.pixels.shape[1])

    def observations(self, lane: Array, reference: Array) -> Array:
        """The images or stacks that references stand for, oldest image first. [*S], [*S, 2] -> [*S, *O]."""
        xp = jnp if not isinstance(reference, np.ndarray) else np
        number, before = reference[..., :1], reference[..., 1:]
        room = self.pixels.shape[1]
        if self.stack == 1:
            return self.pixels[lane, number[..., 0] % room]
        back = xp.arange(self.stack - 1, -1, -1, dtype=np.int32)
        return self.pixels[lane[..., None], (number - xp.minimum(back, before)) % room]

    def appended(self, new: Array, count: Array) -> Frames:
        """The ring with the first count[e] of the new images [E, S, *I] appended."""
        room, lanes = self.pixels.shape[1], jnp.arange(len(self.written))[:, None]
        offset = jnp.arange(new.shape[1])
        slot = jnp.where(offset < count[:, None], (self.written[:, None] + offset) % room, room)
        return Frames(self.pixels.at[lanes, slot].set(new, mode="drop"), self.written + count, self.stack)

    def contains(self, reference: Array) -> Array:
        """Whether the ring still holds all images of a reference. [E, N, 2] -> [E, N]."""
        oldest = reference[..., 0] - reference[..., 1]
        return oldest >= (self.written - self.pixels.shape[1])[:, None]


SPARE = 512
"""Slots beyond one per row: for images staged on the host, for the stacks of the oldest rows, and for some short episodes."""


def slots(rows: int) -> int:
    """The number of images that a lane of `rows` rows has slots for."""
    return rows + rows // 64 + SPARE


def stored(layout: Layout) -> Layout:
    """The layout of rows in the memory: with references instead of images, if these are kept once."""
    return layout._replace(observation=(2,), dtype="int32", frames=1) if layout.kept_once else layout


class NewFrames(NamedTuple):
    """New images to add to the memory."""

    frames: Array  # [E, S, *I]
    count: Array  # [E], how many are valid


class FrameCollector:
    """Turns images and stacks of images into references, and collects each new image once."""

    def __init__(self, lanes: int, rows: int, layout: Layout) -> None:
        self._shape, self._dtype = (lanes, 2 * rows, *layout.single), layout.dtype
        self._stacked, self._max_before = layout.frames > 1, layout.frames - 1
        self._new = self._blank()
        self._number = np.full(lanes, -1, np.int32)  # the number of the newest image
        self._before = np.zeros(lanes, np.int32)  # how many earlier images are in its stack
        self._begins = np.ones(lanes, bool)  # whether the next observation is the first of an episode

    def add(self, lane: int, observation: np.ndarray, following: np.ndarray, *, ended: bool) -> tuple[np.ndarray, np.ndarray]:
        """Collects the images of one step; the references of its observation and next observation, each [2]."""
        if self._begins[lane]:
            self._collect(lane, observation, 0)
        now = np.array([self._number[lane], self._before[lane]], np.int32)
        self._collect(lane, following, min(self._before[lane] + 1, self._max_before))
        self._begins[lane] = ended
        return now, np.array([self._number[lane], self._before[lane]], np.int32)

    def _collect(self, lane: int, observation: np.ndarray, before: int) -> None:
        self._new.frames[lane, self._new.count[lane]] = observation[-1] if self._stacked else observation
        self._new.count[lane] += 1
        self._number[lane] += 1
        self._before[lane], self._begins[lane] = before, False

    def cut(self) -> None:
        """Ends the episode of every lane: all environments are about to be reset."""
        self._begins[:] = True

    def take(self) -> NewFrames:
        """The images collected since the last call."""
        taken, self._new = self._new, self._blank()
        return taken

    def arrays(self) -> dict[str, np.ndarray]:
        """The state of the collector, by name."""
        own = {"number": self._number, "before": self._before, "begins": self._begins}
        return own | {"film": self._new.frames, "film_count": self._new.count}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Restores a state from `arrays`."""
        if not ((arrays["film_count"] >= 0) & (arrays["film_count"] <= self._shape[1])).all():
            raise ModelFileError("the staged images are damaged: their number is out of range")
        copies = {name: np.array(array) for name, array in arrays.items()}
        self._number, self._before, self._begins = copies["number"], copies["before"], copies["begins"]
        self._new = NewFrames(copies["film"], copies["film_count"])

    def _blank(self) -> NewFrames:
        return NewFrames(np.zeros(self._shape, self._dtype), np.zeros(self._shape[0], np.int32))
