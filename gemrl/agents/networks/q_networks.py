"""Q-networks for discrete actions: perceptrons, after convolutions if observations are images.

Like perceptrons they are initialized by numpy, and their forward pass runs on JAX and numpy arrays alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import numpy as np

from gemrl.agents.networks.convolution import Convolution, feature_maps
from gemrl.agents.networks.perceptron import MLP, Layer
from gemrl.algorithms.bodies import Perceptron
from gemrl.core.arrays import Array
from gemrl.core.layout import Layout
from gemrl.core.packing import FLOAT_BYTES, unpack


def as_input(layout: Layout, observation: Array) -> Array:
    """Observations [B, *O] as network inputs: vectors [B, D], discrete states one-hot [B, S], images [B, H, W, C]."""
    xp = observation.__array_namespace__()
    if layout.states:
        return (observation == xp.arange(layout.states)).astype(np.float32)
    if layout.stacks_channels:
        axes = (0, 3, 4, 1, 2) if layout.channels_first else (0, 2, 3, 1, 4)
        return observation.transpose(*axes).reshape(-1, *layout.image)
    if layout.is_image and layout.channels_first:
        observation = observation.transpose(0, 2, 3, 1)
    return observation


def inputs_of(layout: Layout, observation: Array) -> tuple[Array, Array | None]:
    """Observations [B, *O] as network inputs, as in `as_input`, and the numbers that follow an image [B, D], if there are any."""
    if not layout.picture:
        return as_input(layout, observation), None
    images, rest = observation[:, : layout.pixels], observation[:, layout.pixels :]
    if isinstance(observation, np.ndarray):
        numbers: Array = unpack(observation, layout.pixels)[1]
    else:
        numbers = jax.lax.bitcast_convert_type(rest.reshape(len(rest), -1, FLOAT_BYTES), np.float32)
    return as_input(layout.image_alone, images.reshape(-1, *layout.picture)), numbers


class QNetwork(eqx.Module):
    """Q(s, .): convolutions, hidden layers, and one stream of Q-values, or two: the state's value and the advantages."""

    convolutions: tuple[Convolution, ...]
    trunk: tuple[Layer, ...]
    streams: tuple[MLP, ...]

    @staticmethod
    def init(rng: np.random.Generator, layout: Layout, hidden: Sequence[int], *, dueling: bool) -> QNetwork:
        maps = feature_maps(layout)
        convolutions = [Convolution.init(rng, one.channels, one.filters) for one in maps]
        features = maps[-1].features + layout.numbers if maps else layout.states or layout.size
        trunk = []
        for width in hidden[:-1] if dueling else ():
            trunk.append(Layer.init(rng, features, width))
            features = width
        own = hidden[-1:] if dueling else hidden
        outputs = (1, layout.choices) if dueling else (layout.choices,)
        streams = (MLP.init(rng, Perceptron(tuple(own), layer_norm=False), features, count) for count in outputs)
        return QNetwork(tuple(convolutions), tuple(trunk), tuple(streams))

    def __call__(self, x: Array, numbers: Array | None = None) -> Array:
        """Input [B, D] or [B, H, W, C], and the numbers beside an image [B, N] -> values [B, A]."""
        xp = x.__array_namespace__()
        for convolution in self.convolutions:
            x = convolution(x)
        x = x.reshape(len(x), -1)
        if numbers is not None:
            x = xp.concatenate([x, numbers], axis=-1)
        for layer in self.trunk:
            x = xp.maximum(layer.linear(x), 0)
        *state, last = (stream(x) for stream in self.streams)
        return state[0] + last - last.mean(axis=-1, keepdims=True) if state else last


class QNetworks(eqx.Module):
    """An ensemble of networks, initialized independently."""

    members: tuple[QNetwork, ...]
    layout: Layout = eqx.field(static=True)

    @staticmethod
    def init(rng: np.random.Generator, count: int, layout: Layout, hidden: Sequence[int], *, dueling: bool) -> QNetworks:
        return QNetworks(tuple(QNetwork.init(rng, layout, hidden, dueling=dueling) for _ in range(count)), layout)

    def __call__(self, observation: Array) -> Array:
        """Observations [B, *O] -> values [C, B, A]."""
        x, numbers = inputs_of(self.layout, observation)
        if isinstance(x, jax.Array):  # one copy that all networks read, or each would gather its own
            x = jax.lax.optimization_barrier(x)  # type: ignore[no-untyped-call]
        return x.__array_namespace__().stack([member(x, numbers) for member in self.members])
