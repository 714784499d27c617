"""Convolutions written as matrix products, which are fast on a CPU."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gemrl.agents.networks.perceptron import Layer
from gemrl.core.arrays import Array
from gemrl.core.layout import Layout


class Filters(NamedTuple):
    """The shape of a convolution: `number` filters of size x size pixels; `stride` must divide `size`."""

    number: int
    size: int
    stride: int


NATURE = (Filters(32, 8, 4), Filters(64, 4, 2), Filters(64, 3, 1))
"""For large images such as Atari's (Mnih et al., 2015)."""


SMALL = (Filters(16, 3, 1),)
"""For small images such as MinAtar's (Young and Tian, 2019)."""


def filters_for(layout: Layout) -> tuple[Filters, ...]:
    """The convolutions for observations of this layout; none for vectors."""
    if not layout.is_image:
        return ()
    return NATURE if layout.large_image else SMALL


class FeatureMap(NamedTuple):
    """The output of a convolution, and what computing it takes for one image."""

    filters: Filters
    channels: int
    """Channels of its input."""
    features: int
    """Numbers in its output."""
    activations: int
    """Numbers while it is computed: its input, and the products of all pixels of its filters."""

    @property
    def weights(self) -> int:
        """The number of its weights."""
        return self.filters.size**2 * self.channels * self.filters.number


def feature_maps(layout: Layout) -> list[FeatureMap]:
    """The outputs of all convolutions for observations of this layout; none for vectors."""
    found, filters = list[FeatureMap](), filters_for(layout)
    height, width, channels = layout.image if filters else (0, 0, 0)
    for shape in filters:
        inputs = height * width * channels
        height, width = ((side - shape.size) // shape.stride + 1 for side in (height, width))
        features = height * width * shape.number
        products = features * (shape.size // shape.stride) ** 2
        found.append(FeatureMap(shape, channels, features, (inputs + products) // 2))
        channels = shape.number
    return found


def space_to_depth(x: Array, side: int) -> Array:
    """Moves squares of side x side pixels into channels. [B, H, W, C] -> [B, H/side, W/side, side * side * C]."""
    batch, height, width, channels = x.shape
    x = x.reshape(batch, height // side, side, width // side, side, channels)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(batch, height // side, width // side, -1)


def shifts(x: Array, size: int) -> list[Array]:
    """The input of each pixel of size x size filters, [B, H, W, C] -> size * size of [B, H - size + 1, W - size + 1, C]."""
    rows, columns = x.shape[1] - size + 1, x.shape[2] - size + 1
    return [x[:, i : i + rows, j : j + columns] for i in range(size) for j in range(size)]


def gathers_patches(weight: Array) -> bool:
    """Whether to gather patches first: that moves less data only if there are fewer channels than filters."""
    return weight.shape[1] < weight.shape[2]


def convolved(x: Array, weight: Array, size: int) -> Array:
    """A convolution of stride 1: x [B, H, W, C], weight [size * size, C, O] -> [B, H - size + 1, W - size + 1, O].

    Either the patches are gathered and multiplied with all weights in one product, or all pixels are multiplied with all weights,
    and the shifted products are summed. The second way wastes some products at the border, but with many channels it is faster on
    a CPU.
    """
    xp, channels = x.__array_namespace__(), x.shape[-1]
    if gathers_patches(weight):
        return xp.concatenate(shifts(x, size), axis=-1) @ weight.reshape(-1, weight.shape[-1])
    products = x.reshape(-1, channels) @ weight.transpose(1, 0, 2).reshape(channels, -1)
    products = products.reshape(*x.shape[:3], size * size, -1)
    parts = (shifted[..., number, :] for number, shifted in enumerate(shifts(products, size)))
    return sum(parts, start=xp.zeros((), dtype=x.dtype))


def _forward(x: Array, weight: Array, size: int) -> tuple[Array, tuple[Array, Array]]:
    return convolved(x, weight, size), (x, weight)


def _backward(size: int, saved: tuple[Array, Array], slope: Array) -> tuple[Array, Array]:
    """The gradient by the same two kinds of products, on shifted slopes: much faster than differentiating the shifts."""
    x, weight = saved
    edge, (_, channels, filters) = size - 1, weight.shape
    padded = jax.lax.optimization_barrier(  # type: ignore[no-untyped-call]
        jnp.pad(slope, ((0, 0), (edge, edge), (edge, edge), (0, 0)))
    )
    shifted = jnp.concatenate(shifts(padded, size)[::-1], axis=-1).reshape(-1, size * size * filters)
    slope_of_x = (shifted @ weight.transpose(0, 2, 1).reshape(-1, channels)).reshape(x.shape)
    if gathers_patches(weight):
        patches = jnp.concatenate(shifts(x, size), axis=-1).reshape(-1, size * size * channels)
        return slope_of_x, (patches.T @ slope.reshape(-1, filters)).reshape(weight.shape)
    products = (x.reshape(-1, channels).T @ shifted).reshape(channels, size * size, filters)
    return slope_of_x, products.transpose(1, 0, 2)


_fast_convolved = jax.custom_vjp(convolved, nondiff_argnums=(2,))
_fast_convolved.defvjp(_forward, _backward)


class Convolution(eqx.Module):
    """A convolution with ReLU. The rows of its weight are the pixels of a filter, row by row, channels last."""

    layer: Layer
    size: int = eqx.field(static=True)
    stride: int = eqx.field(static=True)

    @staticmethod
    def init(rng: np.random.Generator, channels: int, filters: Filters) -> Convolution:
        return Convolution(Layer.init(rng, filters.size**2 * channels, filters.number), filters.size, filters.stride)

    def __call__(self, x: Array) -> Array:
        """[B, H, W, C] -> [B, H', W', O]."""
        xp, stride, channels = x.__array_namespace__(), self.stride, x.shape[-1]
        # A filter with a stride is a filter of stride 1 on fewer, larger pixels.
        across = self.size // stride
        x = space_to_depth(x[:, : x.shape[1] // stride * stride, : x.shape[2] // stride * stride], stride)
        if x.dtype == np.uint8:  # converted only here, since bytes are cheaper to move than floats
            x = x.astype(np.float32) / np.float32(255)
        weight = self.layer.weight.reshape(across, stride, across, stride, channels, -1).transpose(0, 2, 1, 3, 4, 5)
        convolve = convolved if isinstance(x, np.ndarray) else _fast_convolved
        result = convolve(x.astype(np.float32), weight.reshape(across**2, x.shape[-1], -1), across)
        return xp.maximum(result + self.layer.bias, 0)
