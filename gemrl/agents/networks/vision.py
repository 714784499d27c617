"""What actor and critics share if observations are images: an encoder from images to features.

It learns with the critics; actors see its features without gradients into it (Yarats et al., 2021). Random shifts of the images
that a minibatch learns from keep the critics from fitting single pixels (DrQ: Kostrikov et al., 2021).
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gemrl.agents.networks.convolution import Convolution, feature_maps
from gemrl.agents.networks.perceptron import Layer
from gemrl.agents.networks.q_networks import inputs_of
from gemrl.core.arrays import Array
from gemrl.core.layout import Layout

FEATURES = 50
"""The number of features, as in DrQ."""


class Vision(eqx.Module):
    """Convolutions, then a linear map with LayerNorm and tanh.

    Images of one task look much alike. So that features of different images differ, bytes and bits are centred, weights start
    orthogonal, which keeps the size of differences from layer to layer, and biases start at 0. With the uniform weights of other
    networks here, features of CarRacing-v3 varied by 0.01 around means of 0.8, and actors learned to ignore them.
    """

    convolutions: tuple[Convolution, ...]
    last: Layer
    layout: Layout = eqx.field(static=True)

    @staticmethod
    def init(rng: np.random.Generator, layout: Layout) -> Vision:
        """An encoder for images of this layout."""
        maps = feature_maps(layout)
        convolutions = []
        for one in maps:
            blank = Convolution.init(rng, one.channels, one.filters)
            convolutions.append(Convolution(_orthogonal(rng, blank.layer, 2**0.5), blank.size, blank.stride))
        last = _orthogonal(rng, Layer.init(rng, maps[-1].features, FEATURES, FEATURES), 1.0)
        return Vision(tuple(convolutions), last, layout)

    @property
    def centred(self) -> tuple[Convolution, ...]:
        """The convolutions, which subtract 0.5 from bytes and bits, scaled to 0..1: the first one by its bias."""
        first, *rest = self.convolutions
        if self.layout.dtype == "float32":
            return self.convolutions
        layer = first.layer._replace(bias=first.layer.bias - 0.5 * first.layer.weight.sum(axis=0))
        return Convolution(layer, first.size, first.stride), *rest

    def __call__(self, observation: Array) -> Array:
        """Images [*B, *O] -> features [*B, F], followed by the numbers of observations that have an image and numbers."""
        batch = observation.shape[: -len(self.layout.observation)]
        x, numbers = inputs_of(self.layout, observation.reshape(-1, *self.layout.observation))
        xp = x.__array_namespace__()
        for convolution in self.centred:
            x = convolution(x)
        x = self.last.norm(self.last.linear(x.reshape(len(x), -1)))
        x = xp.tanh(x) if numbers is None else xp.concatenate([xp.tanh(x), numbers], axis=-1)
        return x.reshape(*batch, x.shape[-1])


def _orthogonal(rng: np.random.Generator, layer: Layer, gain: float) -> Layer:
    """The layer with orthogonal columns of length `gain`, or rows if there are fewer of them, and biases of 0."""
    columns, triangle = np.linalg.qr(rng.standard_normal(sorted(layer.weight.shape, reverse=True)))
    columns = gain * columns * np.sign(np.diag(triangle))
    weight = columns if columns.shape == layer.weight.shape else columns.T
    return layer._replace(weight=weight.astype(np.float32), bias=np.zeros_like(layer.bias))


def vision_of(rng: np.random.Generator, layout: Layout) -> Vision | None:
    """A new encoder for observations of this layout; None if they are vectors."""
    return Vision.init(rng, layout) if layout.is_image else None


def seen_size(layout: Layout) -> int:
    """How many numbers actors and critics see of an observation."""
    return FEATURES + layout.numbers if layout.is_image else layout.size


def vision_footprint(layout: Layout) -> tuple[int, int]:
    """Parameters of an encoder for this layout, and the numbers it computes for one image; 0 if observations are vectors."""
    maps = feature_maps(layout)
    if not maps:
        return 0, 0
    weights = sum(one.weights for one in maps) + maps[-1].features * FEATURES
    return weights, sum(one.activations for one in maps) + FEATURES


def shifted(layout: Layout, images: Array, offset: Array, most: int) -> Array:
    """Images [B, *O] moved by most - offset pixels down and right, offset [B, 2] in 0..2 most; their edges are repeated."""
    if layout.picture:
        bare, rest = images[:, : layout.pixels].reshape(-1, *layout.picture), images[:, layout.pixels :]
        bare = shifted(layout.image_alone, bare, offset, most)
        return jnp.concatenate([bare.reshape(len(rest), -1), rest], axis=-1)
    height = layout.height_axis
    margins = [(most, most) if axis in (height, height + 1) else (0, 0) for axis in range(len(layout.observation))]
    padded = jnp.pad(images, [(0, 0), *margins], mode="edge")

    def crop(image: Array, start: Array) -> Array:
        starts = jnp.zeros(image.ndim, start.dtype).at[height : height + 2].set(start)
        return jax.lax.dynamic_slice(image, starts, layout.observation)

    return jax.vmap(crop)(padded, offset)
