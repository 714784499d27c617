"""Images kept once: a ring of single frames, and rows that refer to them, from which stacks are rebuilt when they are wanted.

A row that keeps a stack of four images and the next stack keeps each image eight times. Here every image is kept once, in the
order in which it was seen, the last one of an episode too. In place of an observation a row has a reference: the number of its
newest image, and how many earlier ones of the same episode stand before it in the stack. Behind the first image of an episode
there is nothing, so that one is repeated, as gymnasium's FrameStackObservation does it.
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
    """The newest images of E lanes. An image's number counts all that were ever written to its lane."""

    pixels: Array  # [E, F, H, W]
    written: Array  # [E]

    @staticmethod
    def empty(lanes: int, rows: int, layout: Layout) -> Frames:
        """Room for the images of so many rows, on the host; an episode has one more than it has steps."""
        count = rows + rows // 64 + SPARE
        return Frames(np.zeros((lanes, count, *layout.observation[1:]), layout.dtype), np.zeros(lanes, np.int32))

    @property
    def used(self) -> int:
        """Places that were ever written to, in the lane that has the most."""
        return min(int(self.written.max()), self.pixels.shape[1])

    def stacks(self, lane: Array, reference: Array, frames: int) -> Array:
        """The stacks that references mean, oldest image first. [*S], [*S, 2] -> [*S, frames, H, W]."""
        xp = jnp if not isinstance(reference, np.ndarray) else np
        number, before = reference[..., :1], reference[..., 1:]
        back = xp.arange(frames - 1, -1, -1, dtype=np.int32)
        return self.pixels[lane[..., None], (number - xp.minimum(back, before)) % self.pixels.shape[1]]

    def pushed(self, new: Array, count: Array) -> Frames:
        """With the first count[e] of the new images [E, S, H, W] behind the newest."""
        room, lanes = self.pixels.shape[1], jnp.arange(len(self.written))[:, None]
        offset = jnp.arange(new.shape[1])
        place = jnp.where(offset < count[:, None], (self.written[:, None] + offset) % room, room)
        return Frames(self.pixels.at[lanes, place].set(new, mode="drop"), self.written + count)

    def hold(self, reference: Array) -> Array:
        """Whether all images of a reference [E, N, 2] are still there [E, N]."""
        oldest = reference[..., 0] - reference[..., 1]
        return oldest >= (self.written - self.pixels.shape[1])[:, None]


SPARE = 512
"""Images beyond one per row: for those that wait on the host, for stacks of the oldest rows, and for a few short episodes."""


def stored(layout: Layout) -> Layout:
    """The layout of rows in a memory: references in place of stacks."""
    return layout._replace(observation=(2,), dtype="int32", frames=1) if layout.frames > 1 else layout


class NewFrames(NamedTuple):
    """Images on their way to the memory."""

    frames: Array  # [E, S, H, W]
    count: Array  # [E], how many of them count


class FrameCollector:
    """Turns the stacks that environments show into references, and collects each new image once."""

    def __init__(self, lanes: int, rows: int, layout: Layout) -> None:
        self._shape, self._dtype = (lanes, 2 * rows, *layout.observation[1:]), layout.dtype
        self._deepest = layout.frames - 1
        self._film = self._blank()
        self._number = np.full(lanes, -1, np.int32)  # of the newest image
        self._before = np.zeros(lanes, np.int32)  # earlier ones in its stack
        self._begins = np.ones(lanes, bool)  # whether the next observation is the first of an episode

    def see(self, lane: int, observation: np.ndarray, following: np.ndarray, *, ended: bool) -> tuple[np.ndarray, np.ndarray]:
        """The references of an observation [frames, H, W] and of the one that followed it, each [2]."""
        if self._begins[lane]:
            self._collect(lane, observation, 0)
        now = np.array([self._number[lane], self._before[lane]], np.int32)
        self._collect(lane, following, min(self._before[lane] + 1, self._deepest))
        self._begins[lane] = ended
        return now, np.array([self._number[lane], self._before[lane]], np.int32)

    def _collect(self, lane: int, observation: np.ndarray, before: int) -> None:
        self._film.frames[lane, self._film.count[lane]] = observation[-1]
        self._film.count[lane] += 1
        self._number[lane] += 1
        self._before[lane], self._begins[lane] = before, False

    def cut(self) -> None:
        """All environments are about to be reset."""
        self._begins[:] = True

    def take(self) -> NewFrames:
        """What was collected since the last time."""
        taken, self._film = self._film, self._blank()
        return taken

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it, by name."""
        own = {"number": self._number, "before": self._before, "begins": self._begins}
        return own | {"film": self._film.frames, "film_count": self._film.count}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Takes over what `arrays` told."""
        if not ((arrays["film_count"] >= 0) & (arrays["film_count"] <= self._shape[1])).all():
            raise ModelFileError("more images wait for the memory than there is room for")
        copies = {name: np.array(array) for name, array in arrays.items()}
        self._number, self._before, self._begins = copies["number"], copies["before"], copies["begins"]
        self._film = NewFrames(copies["film"], copies["film_count"])

    def _blank(self) -> NewFrames:
        return NewFrames(np.zeros(self._shape, self._dtype), np.zeros(self._shape[0], np.int32))
