"""Networks of the values of discrete actions: perceptrons, behind convolutions where observations are images.

Like gemrl/networks.py they are initialised by numpy, and their forward pass runs on JAX and numpy arrays alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import numpy as np

from gemrl.networks import MLP, Layer
from gemrl.planning import Array
from gemrl.recipes.discrete import LARGE_IMAGE
from gemrl.spaces import Layout


class Filters(NamedTuple):
    """The shape of a convolution: so many filters, of size x size pixels, `stride` pixels apart."""

    number: int
    size: int
    stride: int


NATURE = (Filters(32, 8, 4), Filters(64, 4, 2), Filters(64, 3, 1))
"""For images like Atari's (Mnih et al., 2015)."""
SMALL = (Filters(16, 3, 1),)
"""For MinAtar's (Young and Tian, 2019)."""


def filters_for(layout: Layout) -> tuple[Filters, ...]:
    """The convolutions for observations of that layout; none for vectors."""
    if len(layout.observation) < 3:
        return ()
    return NATURE if min(_image(layout)[:2]) >= LARGE_IMAGE else SMALL


def _image(layout: Layout) -> tuple[int, int, int]:
    """Height, width and channels; the channels of an observation are its smaller outer axis, the first if it is a stack."""
    first, middle, last = layout.observation
    return (middle, last, first) if layout.frames > 1 or first < last else (first, middle, last)


def as_input(layout: Layout, observation: Array) -> Array:
    """Observations [B, *O] as the networks take them: vectors [B, D], numbers one-hot, images [B, H, W, C]."""
    xp = observation.__array_namespace__()
    if layout.states:
        return (observation == xp.arange(layout.states)).astype(np.float32)
    if len(layout.observation) == 3 and _image(layout) != layout.observation:
        observation = observation.transpose(0, 2, 3, 1)
    return observation


def patches(x: Array, size: int, stride: int) -> Array:
    """The size x size pixels under each place of a filter [B, H, W, C] -> [B, H', W', size * size * C].

    Where strides divide the size, pixels are first gathered into blocks of stride x stride, so that few slices are joined.
    """
    xp = x.__array_namespace__()
    block = stride if size % stride == 0 else 1
    across = size // block
    step = stride // block
    batch, height, width, channels = x.shape
    rows, columns = ((side - size) // stride + 1 for side in (height, width))
    tall, wide = ((count - 1) * step + across for count in (rows, columns))
    x = x[:, : tall * block, : wide * block].reshape(batch, tall, block, wide, block, channels)
    x = x.transpose(0, 1, 3, 2, 4, 5).reshape(batch, tall, wide, block * block * channels)
    parts = [
        x[:, i : i + (rows - 1) * step + 1 : step, j : j + (columns - 1) * step + 1 : step]
        for i in range(across)
        for j in range(across)
    ]
    return xp.concatenate(parts, axis=-1)


class Convolution(eqx.Module):
    """A convolution as a product of patches and weights, in the order in which `patches` has its pixels."""

    layer: Layer
    size: int = eqx.field(static=True)
    stride: int = eqx.field(static=True)

    @staticmethod
    def init(rng: np.random.Generator, channels: int, filters: Filters) -> Convolution:
        return Convolution(Layer.init(rng, filters.size**2 * channels, filters.number), filters.size, filters.stride)

    def __call__(self, x: Array) -> Array:
        """[B, H, W, C] -> [B, H', W', filters], with ReLU."""
        xp = x.__array_namespace__()
        seen = patches(x, self.size, self.stride)
        if seen.dtype == np.uint8:  # whole numbers are cheaper to move, so they become real ones only here
            seen = seen.astype(np.float32) / np.float32(255)
        elif seen.dtype != np.float32:
            seen = seen.astype(np.float32)
        flat = seen.reshape(-1, seen.shape[-1])
        return xp.maximum(self.layer.linear(flat), 0).reshape(*seen.shape[:-1], -1)


class QNetwork(eqx.Module):
    """Q(s, .): convolutions, hidden layers, and one stream of values or two of a state's value and its actions' advantages."""

    convolutions: tuple[Convolution, ...]
    trunk: tuple[Layer, ...]
    streams: tuple[MLP, ...]

    @staticmethod
    def init(rng: np.random.Generator, layout: Layout, hidden: Sequence[int], *, dueling: bool) -> QNetwork:
        convolutions, features = [], layout.states or layout.size
        filters = filters_for(layout)
        if filters:
            height, width, channels = _image(layout)
            for one in filters:
                convolutions.append(Convolution.init(rng, channels, one))
                height, width = ((side - one.size) // one.stride + 1 for side in (height, width))
                channels = one.number
            features = height * width * channels
        trunk = []
        for width in hidden[:-1] if dueling else ():
            trunk.append(Layer.init(rng, features, width))
            features = width
        own = hidden[-1:] if dueling else hidden
        outputs = (1, layout.choices) if dueling else (layout.choices,)
        streams = (MLP.init(rng, features, own, count, layer_norm=False) for count in outputs)
        return QNetwork(tuple(convolutions), tuple(trunk), tuple(streams))

    def __call__(self, x: Array) -> Array:
        """Input [B, D] or [B, H, W, C] -> values [B, A]."""
        xp = x.__array_namespace__()
        for convolution in self.convolutions:
            x = convolution(x)
        x = x.reshape(len(x), -1)
        for layer in self.trunk:
            x = xp.maximum(layer.linear(x), 0)
        *state, last = (stream(x) for stream in self.streams)
        return state[0] + last - last.mean(axis=-1, keepdims=True) if state else last


class QNetworks(eqx.Module):
    """Several networks, each initialised on its own."""

    members: tuple[QNetwork, ...]
    layout: Layout = eqx.field(static=True)

    @staticmethod
    def init(rng: np.random.Generator, count: int, layout: Layout, hidden: Sequence[int], *, dueling: bool) -> QNetworks:
        return QNetworks(tuple(QNetwork.init(rng, layout, hidden, dueling=dueling) for _ in range(count)), layout)

    def __call__(self, observation: Array) -> Array:
        """Observations [B, *O] -> values [C, B, A]."""
        seen = as_input(self.layout, observation)
        return seen.__array_namespace__().stack([member(seen) for member in self.members])
