"""Networks of the values of discrete actions: perceptrons, behind convolutions where observations are images.

Like gemrl/networks.py they are initialised by numpy, and their forward pass runs on JAX and numpy arrays alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gemrl.networks import MLP, Layer
from gemrl.planning import Array
from gemrl.spaces import Layout


class Filters(NamedTuple):
    """The shape of a convolution: so many filters, of size x size pixels, `stride` pixels apart, which divides their size."""

    number: int
    size: int
    stride: int


NATURE = (Filters(32, 8, 4), Filters(64, 4, 2), Filters(64, 3, 1))
"""For images like Atari's (Mnih et al., 2015)."""
SMALL = (Filters(16, 3, 1),)
"""For MinAtar's (Young and Tian, 2019)."""


def filters_for(layout: Layout) -> tuple[Filters, ...]:
    """The convolutions for observations of that layout; none for vectors."""
    if not layout.is_image:
        return ()
    return NATURE if layout.large_image else SMALL


def as_input(layout: Layout, observation: Array) -> Array:
    """Observations [B, *O] as the networks take them: vectors [B, D], numbers one-hot, images [B, H, W, C]."""
    xp = observation.__array_namespace__()
    if layout.states:
        return (observation == xp.arange(layout.states)).astype(np.float32)
    if layout.is_image and layout.image != layout.observation:
        observation = observation.transpose(0, 2, 3, 1)
    return observation


def blocks(x: Array, side: int) -> Array:
    """Images whose pixels are squares of side x side old ones [B, H, W, C] -> [B, H/side, W/side, side * side * C]."""
    batch, height, width, channels = x.shape
    x = x.reshape(batch, height // side, side, width // side, side, channels)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(batch, height // side, width // side, -1)


def shifts(x: Array, size: int) -> list[Array]:
    """What filters of size x size see of images [B, H, W, C], pixel by pixel, each [B, H - size + 1, W - size + 1, C]."""
    rows, columns = x.shape[1] - size + 1, x.shape[2] - size + 1
    return [x[:, i : i + rows, j : j + columns] for i in range(size) for j in range(size)]


def gathers(weight: Array) -> bool:
    """Whether a convolution first gathers patches; that moves less only if there are fewer channels than filters."""
    return weight.shape[1] < weight.shape[2]


def convolved(x: Array, weight: Array, size: int) -> Array:
    """A convolution of stride 1: x [B, H, W, C], weight [size * size, C, O] -> [B, H - size + 1, W - size + 1, O].

    Either the patches under all filters are gathered, for one product with all weights, or all pixels are multiplied with all
    weights, and what comes out is shifted over each other: although some products at the border are for nothing, that is faster
    on a CPU where there are many channels.
    """
    xp, channels = x.__array_namespace__(), x.shape[-1]
    if gathers(weight):
        return xp.concatenate(shifts(x, size), axis=-1) @ weight.reshape(-1, weight.shape[-1])
    products = x.reshape(-1, channels) @ weight.transpose(1, 0, 2).reshape(channels, -1)
    products = products.reshape(*x.shape[:3], size * size, -1)
    parts = (shifted[..., number, :] for number, shifted in enumerate(shifts(products, size)))
    return sum(parts, start=xp.zeros((), dtype=x.dtype))


def _convolved(x: Array, weight: Array, size: int) -> tuple[Array, tuple[Array, Array]]:
    return convolved(x, weight, size), (x, weight)


def _backward(size: int, saved: tuple[Array, Array], slope: Array) -> tuple[Array, Array]:
    """The gradient by the same two products, of slopes that are shifted first: far faster than differentiating the shifts."""
    x, weight = saved
    edge, (_, channels, filters) = size - 1, weight.shape
    padded = jax.lax.optimization_barrier(  # type: ignore[no-untyped-call]
        jnp.pad(slope, ((0, 0), (edge, edge), (edge, edge), (0, 0)))
    )
    shifted = jnp.concatenate(shifts(padded, size)[::-1], axis=-1).reshape(-1, size * size * filters)
    slope_of_x = (shifted @ weight.transpose(0, 2, 1).reshape(-1, channels)).reshape(x.shape)
    if gathers(weight):
        patches = jnp.concatenate(shifts(x, size), axis=-1).reshape(-1, size * size * channels)
        return slope_of_x, (patches.T @ slope.reshape(-1, filters)).reshape(weight.shape)
    products = (x.reshape(-1, channels).T @ shifted).reshape(channels, size * size, filters)
    return slope_of_x, products.transpose(1, 0, 2)


_fast_convolved = jax.custom_vjp(convolved, nondiff_argnums=(2,))
_fast_convolved.defvjp(_convolved, _backward)


class Convolution(eqx.Module):
    """A convolution with ReLU. A weight's rows are the pixels under a filter, line by line, channels last."""

    layer: Layer
    size: int = eqx.field(static=True)
    stride: int = eqx.field(static=True)

    @staticmethod
    def init(rng: np.random.Generator, channels: int, filters: Filters) -> Convolution:
        return Convolution(Layer.init(rng, filters.size**2 * channels, filters.number), filters.size, filters.stride)

    def __call__(self, x: Array) -> Array:
        """[B, H, W, C] -> [B, H', W', O]."""
        xp, stride, channels = x.__array_namespace__(), self.stride, x.shape[-1]
        # A filter moves by its stride, so it is a filter of fewer, larger pixels that moves by one.
        across = self.size // stride
        x = blocks(x[:, : x.shape[1] // stride * stride, : x.shape[2] // stride * stride], stride)
        if x.dtype == np.uint8:  # bytes are cheaper to move, so they become real numbers only here
            x = x.astype(np.float32) / np.float32(255)
        weight = self.layer.weight.reshape(across, stride, across, stride, channels, -1).transpose(0, 2, 1, 3, 4, 5)
        convolve = convolved if isinstance(x, np.ndarray) else _fast_convolved
        result = convolve(x.astype(np.float32), weight.reshape(across**2, x.shape[-1], -1), across)
        return xp.maximum(result + self.layer.bias, 0)


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
            height, width, channels = layout.image
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
        if isinstance(seen, jax.Array):  # a copy that all networks read, or each would gather it anew
            seen = jax.lax.optimization_barrier(seen)  # type: ignore[no-untyped-call]
        return seen.__array_namespace__().stack([member(seen) for member in self.members])
