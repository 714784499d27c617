"""Shapes and types of one step's arrays, as agents see them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

SMALLEST_IMAGE, LARGE_IMAGE = 3, 36
"""Pixels on a side from which on an image is convolved at all, and from which on it gets the convolutions made for Atari."""


class Layout(NamedTuple):
    """The arrays of one step, as agents see them. Actions are [A] in [-1, 1], or one number of a choice [1]."""

    observation: tuple[int, ...]
    action: int = 1
    choices: int = 0
    """How many discrete actions there are; 0 if actions are continuous."""
    dtype: str = "float32"
    """Of observations: float32 vectors, images of uint8, bool or float32, int32 numbers of a state."""
    states: int = 0
    """How many states there are, if an observation is a number."""
    frames: int = 1
    """Images in an observation's first axis, each pushed on by the next step's: a memory need only keep the newest."""

    @property
    def action_dtype(self) -> str:
        """Of actions."""
        return "int32" if self.choices else "float32"

    @property
    def size(self) -> int:
        """Numbers in an observation."""
        return int(np.prod(self.observation))

    @property
    def is_image(self) -> bool:
        """Whether an observation has the axes of an image; all else is a vector."""
        return len(self.observation) == 3

    @property
    def image(self) -> tuple[int, int, int]:
        """Height, width and channels of an observation with three axes.

        Two neighbours of one length are the image's sides; else the channels are the shorter one of the outer axes.
        """
        first, middle, last = self.observation
        sides = (middle == last) - (first == middle)  # 1 if the last two are alike, -1 if the first two are
        channels_first = self.frames > 1 or sides > 0 or (sides == 0 and first < last)
        return (middle, last, first) if channels_first else (first, middle, last)

    @property
    def large_image(self) -> bool:
        """Whether an observation with three axes is an image like Atari's."""
        return min(self.image[:2]) >= LARGE_IMAGE

    def random_actions(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Uniform ones [count, A]."""
        if self.choices:
            return rng.integers(self.choices, size=(count, 1), dtype=np.int32)
        return rng.uniform(-1, 1, (count, self.action)).astype(np.float32)
