"""A perceptron with batch renormalization (Ioffe, 2017) of its input and hidden layers, as in CrossQ (Bhatt et al., 2024).

In training, features are normalized by the minibatch, corrected toward the running statistics after a warm-up. Elsewhere the
running statistics are used, so that the network is then a plain perceptron.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gemrl.agents.networks.body_network import BodyNetwork
from gemrl.agents.networks.perceptron import MLP, Layer
from gemrl.algorithms.bodies import BatchRenormalized
from gemrl.core.arrays import Array

EPSILON = 1e-3
"""Added to the variance."""
MOST_SCALE, MOST_SHIFT = 3.0, 5.0
"""How far the minibatch's normalization is corrected: its scale by a factor of up to 3, its mean by up to 5 deviations."""


def _forward(x: Array, mean: Array, inverse: Array, gain: Array, shift: Array) -> tuple[Array, tuple[Array, Array, Array, Array]]:
    factor = inverse * gain
    return x * factor + (shift - mean * factor), (x, mean, inverse, gain)


def _backward(saved: tuple[Array, Array, Array, Array], slope: Array) -> tuple[Array, None, None, Array, Array]:
    """The gradient in closed form, which takes fewer passes over the arrays than automatic differentiation."""
    x, mean, inverse, gain = saved
    total = slope.sum(axis=0)
    along = ((slope * x).sum(axis=0) - mean * total) * inverse  # of the standardized features
    # The slope, less its mean and less its part along the standardized features, which the mean and the deviation take out of x.
    rows, factor = len(x), inverse * gain
    twist = factor * inverse * along / rows
    return slope * factor - x * twist + (mean * twist - factor * total / rows), None, None, along, total


@jax.custom_vjp
def standardized(x: Array, mean: Array, inverse: Array, gain: Array, shift: Array) -> Array:
    """(x - mean) * inverse * gain + shift [B, F]. Its gradient takes mean and inverse [F] for functions of x."""
    return _forward(x, mean, inverse, gain, shift)[0]


standardized.defvjp(_forward, _backward)


def moments(x: Array) -> tuple[Array, Array]:
    """Mean and variance of x [B, F] over its rows, each [F]. Subtracting a row first keeps the variance accurate in one pass."""
    mean, near = x.mean(axis=0), x[0]
    return mean, jnp.maximum(((x - near) ** 2).mean(axis=0) - (mean - near) ** 2, 0)


class Norm(NamedTuple):
    """What is learned, and the running statistics, of the normalization of F features. Each [F]."""

    scale: Array
    shift: Array
    mean: Array
    variance: Array

    @staticmethod
    def init(features: int) -> Norm:
        """A normalization that changes nothing."""
        zeros, ones = np.zeros(features, np.float32), np.ones(features, np.float32)
        return Norm(ones, zeros, zeros, ones)

    def affine(self) -> tuple[Array, Array]:
        """Factor and offset [F] of the normalization by the running statistics."""
        factor = self.scale / (self.variance + EPSILON) ** 0.5
        return factor, self.shift - self.mean * factor

    def training(self, x: Array, corrected: Array) -> tuple[Array, tuple[Array, Array]]:
        """x [B, F] normalized by the minibatch, with the correction if `corrected`; and the minibatch's mean and variance."""
        mean, variance = moments(jax.lax.stop_gradient(x))
        deviation, running = jnp.sqrt(variance + EPSILON), jnp.sqrt(self.variance + EPSILON)
        factor = jnp.where(corrected, jnp.clip(deviation / running, 1 / MOST_SCALE, MOST_SCALE), 1.0)
        offset = jnp.where(corrected, jnp.clip((mean - self.mean) / running, -MOST_SHIFT, MOST_SHIFT), 0.0)
        factor, offset = jax.lax.stop_gradient((factor, offset))
        gain, shift = factor * self.scale, offset * self.scale + self.shift
        return standardized(x, mean, 1 / deviation, gain, shift), (mean, variance)


class BatchNormNetwork(BodyNetwork):
    """A norm of the input; hidden layers, each a linear map, ReLU and a norm; and a linear output."""

    norms: tuple[Norm, ...]
    layers: tuple[Layer, ...]
    updates: Array  # [], gradient steps so far, as a float, since optimizers pass through all arrays
    body: BatchRenormalized = eqx.field(static=True)

    @staticmethod
    def init(rng: np.random.Generator, body: BatchRenormalized, inputs: int, outputs: int, again: int = 0) -> BatchNormNetwork:
        """A network inputs -> hidden -> outputs. It ignores the second input."""
        widths = (inputs, *body.net_arch)
        layers = tuple(Layer.init(rng, *pair) for pair in zip(widths, (*body.net_arch, outputs), strict=True))
        return BatchNormNetwork(tuple(map(Norm.init, widths)), layers, np.zeros((), np.float32), body)

    def __call__(self, x: Array, again: Array | None = None) -> Array:
        """x [B, inputs] -> [B, outputs], normalized by the running statistics."""
        return self.fast()(x)

    def training(self, x: Array, again: Array | None = None) -> tuple[Array, Any]:
        """Outputs for a gradient step, and the running statistics after it."""
        corrected = self.updates >= self.body.warm_up
        found: list[tuple[Array, Array]] = []
        for norm, layer in zip(self.norms, self.layers, strict=True):
            if found:
                x = jnp.maximum(x, 0)
            x, batch = norm.training(x, corrected)
            found.append(batch)
            x = layer.linear(x)
        keep = self.body.momentum
        running = [
            (keep * norm.mean + (1 - keep) * mean, keep * norm.variance + (1 - keep) * variance)
            for norm, (mean, variance) in zip(self.norms, found, strict=True)
        ]
        return x, jax.lax.stop_gradient((tuple(running), self.updates + 1))

    def with_statistics(self, statistics: Any) -> BatchNormNetwork:
        """The network after a gradient step: with the statistics that `training` returned, and unit weights if it has them.

        A norm follows each hidden layer, so the size of its weights only sets how far a gradient step of a given size turns them.
        """
        running, updates = statistics
        norms = tuple(
            Norm(norm.scale, norm.shift, mean, variance) for norm, (mean, variance) in zip(self.norms, running, strict=True)
        )
        network = eqx.tree_at(lambda x: (x.norms, x.updates), self, (norms, updates))
        if not self.body.unit_weights:
            return network
        hidden = (layer._replace(weight=layer.weight / jnp.linalg.norm(layer.weight, axis=0)) for layer in self.layers[:-1])
        return eqx.tree_at(lambda x: x.layers, network, (*hidden, self.layers[-1]))

    def acting(self) -> MLP:
        """The plain perceptron, so that it is not made again for each action."""
        return self.fast()

    def fast(self) -> MLP:
        """The same function as a plain perceptron: each norm is part of the layer that follows it."""
        layers = []
        for norm, layer in zip(self.norms, self.layers, strict=True):
            factor, offset = norm.affine()
            layers.append(Layer(factor[:, None] * layer.weight, layer.bias + offset @ layer.weight, None, None))
        return MLP(tuple(layers))
