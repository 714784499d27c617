"""Shapes and dtypes of observations and actions, as agents see them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gemrl.core.arrays import Array
from gemrl.core.packing import FLOAT_BYTES

SMALLEST_IMAGE, LARGE_IMAGE = 3, 36
"""Minimum side length in pixels for convolutions at all, and for the larger convolutions designed for Atari."""


class Layout(NamedTuple):
    """Shapes and dtypes of one step. Continuous actions are [A] in [-1, 1]; a discrete action is its index [1]."""

    observation: tuple[int, ...]
    action: int = 1
    choices: int = 0
    """Number of discrete actions; 0 if actions are continuous."""
    dtype: str = "float32"
    """Dtype of observations: float32 for vectors, uint8, bool or float32 for images, int32 for the index of a state."""
    states: int = 0
    """Number of states if an observation is the index of a state; otherwise 0."""
    frames: int = 1
    """Number of stacked frames on the observation's first axis, 1 if there is no such axis."""
    picture: tuple[int, ...] = ()
    """Shape of the image of bytes that an observation begins with, if numbers follow it: then it is packed (core/packing.py)."""
    masked: bool = False
    """Whether an observation ends with the mask of allowed actions, one number for each: then the memory stores it too."""

    @property
    def action_dtype(self) -> str:
        """Dtype of actions."""
        return "int32" if self.choices else "float32"

    @property
    def size(self) -> int:
        """Number of elements of an observation."""
        return int(np.prod(self.observation))

    @property
    def is_image(self) -> bool:
        """Whether an observation is an image, a stack of images, or has an image with numbers; everything else is a vector."""
        return len(self.observation) == 3 or self.stacks_channels or bool(self.picture)

    @property
    def pixels(self) -> int:
        """Bytes of the image that an observation begins with, if numbers follow it."""
        return math.prod(self.picture) if self.picture else 0

    @property
    def numbers(self) -> int:
        """How many numbers follow the image; 0 if there is no image with numbers."""
        return (self.size - self.pixels) // FLOAT_BYTES if self.picture else 0

    @property
    def values(self) -> int:
        """How many values an observation has, before its image and numbers are packed."""
        return self.pixels + self.numbers if self.picture else self.size

    @property
    def image_alone(self) -> Layout:
        """The layout of the image without the numbers that follow it."""
        return self._replace(observation=self.picture, picture=(), masked=False) if self.picture else self

    @property
    def stacks_channels(self) -> bool:
        """Whether an observation is a stack of images with channels: four axes."""
        return len(self.observation) == 4 and self.frames > 1

    @property
    def single(self) -> tuple[int, ...]:
        """The shape of one frame: of the whole observation if frames are not stacked."""
        return self.observation[1:] if self.frames > 1 else self.observation

    @property
    def kept_once(self) -> bool:
        """Whether a memory stores each frame once, and rows that refer to them, because rows share frames and they are large."""
        return self.frames > 1 or bool(self.picture) or (self.is_image and not self.choices)

    @property
    def channels_first(self) -> bool:
        """Whether the channels of an image come first. Frames that are stacked and have no channels are channels themselves.

        Two adjacent axes of equal length are the sides. If that does not decide, the shorter outer axis holds the channels.
        """
        first, middle, last = self._axes
        sides = (middle == last) - (first == middle)  # 1 if the last two are equal, -1 if the first two are
        stacked = self.frames > 1 and not self.stacks_channels
        return stacked or sides > 0 or (sides == 0 and first < last)

    @property
    def _axes(self) -> tuple[int, ...]:
        """The shape of an image, or of one of a stack of images with channels."""
        return self.picture or (self.single if self.stacks_channels else self.observation)

    @property
    def image(self) -> tuple[int, int, int]:
        """Height, width and channels of an image; the channels of a stack are those of all its frames."""
        first, middle, last = self._axes
        height, width, channels = (middle, last, first) if self.channels_first else (first, middle, last)
        return height, width, channels * (self.frames if self.stacks_channels else 1)

    @property
    def height_axis(self) -> int:
        """The axis of an image's height; that of its width follows."""
        return len(self.observation) - 3 + self.channels_first

    @property
    def large_image(self) -> bool:
        """Whether an image is large enough for the convolutions designed for Atari."""
        return min(self.image[:2]) >= LARGE_IMAGE

    @property
    def unmasked(self) -> Layout:
        """The layout of observations without the mask."""
        width = self.choices * (FLOAT_BYTES if self.picture else 1)
        return self._replace(observation=(self.size - width,), masked=False) if self.masked else self

    def split(self, observation: Array) -> tuple[Array, Array | None]:
        """Observations without their mask, and which actions are allowed [*B, A]; None if there is no mask.

        A mask that allows nothing allows everything: environments return it with final observations.
        """
        if not self.masked:
            return observation, None
        start = self.unmasked.size
        state, mask = observation[..., :start], observation[..., start:] != 0
        if self.picture:  # a number that is not 0 has a byte that is not 0
            mask = mask.reshape(*mask.shape[:-1], self.choices, FLOAT_BYTES).any(axis=-1)
        return state, mask | ~mask.any(axis=-1, keepdims=True)

    def random_actions(self, count: int, rng: np.random.Generator, allowed: np.ndarray | None = None) -> np.ndarray:
        """Actions drawn uniformly, from the allowed ones if discrete actions are masked. [count, choices] -> [count, A]."""
        if allowed is not None:
            return np.where(allowed, rng.random(allowed.shape), -1.0).argmax(axis=-1).astype(np.int32)[:, None]
        if self.choices:
            return rng.integers(self.choices, size=(count, 1), dtype=np.int32)
        return rng.uniform(-1, 1, (count, self.action)).astype(np.float32)
