"""Multi-layer perceptrons whose forward pass runs on JAX arrays (training) and numpy arrays (acting) alike.

They are initialized by numpy, which compiles nothing, so that a model is ready immediately. The folded form is faster for many
rows without gradients; it computes the same up to rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gemrl.agents.networks.body_network import BodyNetwork
from gemrl.agents.networks.products import product
from gemrl.algorithms.activations import Activation, ReLU
from gemrl.algorithms.bodies import Perceptron
from gemrl.core.arrays import Array

EPSILON = 1e-5
"""LayerNorm adds this to the variance."""


def _moments(x: Array) -> tuple[Array, Array]:
    """Mean and 1 / standard deviation over the features, each [B, 1]."""
    xp = x.__array_namespace__()
    mean = x.mean(axis=-1, keepdims=True)
    return mean, 1 / xp.sqrt(((x - mean) ** 2).mean(axis=-1, keepdims=True) + EPSILON)


def layer_norm(x: Array, scale: Array, shift: Array) -> Array:
    """x [B, F] with zero mean and unit variance over its features, then scaled and shifted."""
    mean, inverse = _moments(x)
    return (x - mean) * inverse * scale + shift


def _forward(x: Array, scale: Array, shift: Array) -> tuple[Array, tuple[Array, ...]]:
    mean, inverse = _moments(x)
    return (x - mean) * inverse * scale + shift, (x, mean, inverse, scale)


def _backward(saved: tuple[Array, ...], slope: Array) -> tuple[Array, Array, Array]:
    """The gradient in closed form, which takes fewer passes over the arrays than automatic differentiation."""
    x, mean, inverse, scale = saved
    unit = (x - mean) * inverse
    both, weight = slope * unit, scale / x.shape[-1]
    along = (slope @ weight)[:, None] + unit * (both @ weight)[:, None]  # means over the features, as products
    return inverse * (slope * scale - along), both.sum(axis=0), slope.sum(axis=0)


_layer_norm = jax.custom_vjp(layer_norm)
_layer_norm.defvjp(_forward, _backward)


class Layer(NamedTuple):
    """The arrays of x @ weight + bias and, if it has a scale, of a LayerNorm."""

    weight: Array
    bias: Array
    scale: Array | None
    shift: Array | None

    @staticmethod
    def init(rng: np.random.Generator, inputs: int, outputs: int, normed: int = 0) -> Layer:
        """Weights and biases uniform in +-1/sqrt(inputs), as in TD3; `normed` is the number of normalized features, or 0."""
        bound = inputs**-0.5
        return Layer(
            rng.uniform(-bound, bound, (inputs, outputs)).astype(np.float32),
            rng.uniform(-bound, bound, outputs).astype(np.float32),
            np.ones(normed, np.float32) if normed else None,
            np.zeros(normed, np.float32) if normed else None,
        )

    def linear(self, x: Array) -> Array:
        """x [B, inputs] -> [B, outputs]."""
        return product(x, self.weight) + self.bias

    def norm(self, x: Array) -> Array:
        """x [B, F] after this layer's LayerNorm, if it has one."""
        if self.scale is None or self.shift is None:
            return x
        normalize = layer_norm if isinstance(x, np.ndarray) else _layer_norm
        return normalize(x, self.scale, self.shift)


class MLP(BodyNetwork):
    """Hidden layers with an activation and then LayerNorm, and a linear output.

    `again` is appended to the output of the first layer, before its norm. On HalfCheetah-v5 this learned faster than LayerNorm
    before ReLU, the order of the released code (docs/how-gem-works.md).
    """

    layers: tuple[Layer, ...]
    norm_first: bool = eqx.field(static=True, default=False)
    """Whether the activation comes after LayerNorm, and so also applies to `again`."""
    takes_again: bool = eqx.field(static=True, default=False)
    """Whether the second input is used."""
    activation: Activation = eqx.field(static=True, default=ReLU())

    @staticmethod
    def init(rng: np.random.Generator, body: Perceptron, inputs: int, outputs: int, again: int = 0) -> MLP:
        """A perceptron inputs -> hidden -> outputs; `again` is the size of the second input, 0 if there is none."""
        takes_again = body.action_twice and again > 0 and len(body.net_arch) > 0
        layers = []
        for number, width in enumerate(body.net_arch):
            features = width + (again if number == 0 and takes_again else 0)
            layers.append(Layer.init(rng, inputs, width, features if body.layer_norm else 0))
            inputs = features
        return MLP((*layers, Layer.init(rng, inputs, outputs)), body.norm_first, takes_again, body.activation)

    def __call__(self, x: Array, again: Array | None = None) -> Array:
        """x [B, inputs] -> [B, outputs]."""
        xp = x.__array_namespace__()
        for number, layer in enumerate(self.layers[:-1]):
            x = layer.linear(x)
            x = x if self.norm_first else self.activation(x)
            if number == 0 and self.takes_again:
                x = xp.concatenate([x, again], axis=-1)
            x = layer.norm(x)
            x = self.activation(x) if self.norm_first else x
        return self.layers[-1].linear(x)

    def fast(self) -> MLP | FoldedMLP:
        """The same function in folded form, if it has one."""
        return self if self.norm_first or self.takes_again else FoldedMLP(self.folded(), self.activation)

    def folded(self) -> tuple[Folded, ...]:
        """The layers, with each LayerNorm moved after the matrix product that follows it."""
        first = self.layers[0]
        layers = [Folded(first.weight, first.bias, None)]
        for norm, layer in zip(self.layers, self.layers[1:], strict=False):
            if norm.scale is None or norm.shift is None:
                layers.append(Folded(layer.weight, layer.bias, None))
            else:
                weight = norm.scale[:, None] * layer.weight
                layers.append(Folded(weight, layer.bias + norm.shift @ layer.weight, weight.sum(axis=0)))
        return tuple(layers)

    @staticmethod
    def fast_ensemble(members: tuple[BodyNetwork, ...]) -> FoldedCritics | None:
        """All critics in folded form, with their first layers as one product; None if they have none or LayerNorm comes first."""
        perceptrons = [x for x in members if isinstance(x, MLP) and len(x.layers) > 1 and not x.norm_first]
        if len(perceptrons) < len(members):
            return None
        each = [member.folded() for member in perceptrons]
        weight, bias = (jnp.concatenate([getattr(layers[0], name) for layers in each], axis=-1) for name in ("weight", "bias"))
        activation = perceptrons[0].activation
        rest = tuple(FoldedMLP(layers[1:], activation) for layers in each)
        return FoldedCritics(Folded(weight, bias, None), rest, perceptrons[0].takes_again, activation)


class Folded(NamedTuple):
    """A layer that includes the LayerNorm of its input: ((x - mean) / deviation * scale + shift) @ W + b, multiplied out."""

    weight: Array  # [inputs, outputs], W with its rows scaled
    bias: Array  # [outputs], b + shift @ W
    total: Array | None  # [outputs], the sum of the weight over inputs; None if the input is not normalized

    def __call__(self, x: Array) -> Array:
        """x [B, inputs] -> [B, outputs]."""
        if self.total is None:
            return product(x, self.weight) + self.bias
        mean = x.mean(axis=-1, keepdims=True)
        # One pass for mean and mean square; the rounding error this adds to the variance is far below that of the product.
        variance = jnp.maximum((x * x).mean(axis=-1, keepdims=True) - mean**2, 0)
        return (product(x, self.weight) - mean * self.total) / jnp.sqrt(variance + EPSILON) + self.bias


class FoldedMLP(BodyNetwork):
    """A perceptron in folded form."""

    layers: tuple[Folded, ...]
    activation: Activation = eqx.field(static=True)

    def __call__(self, x: Array, again: Array | None = None) -> Array:
        """x [B, inputs] -> [B, outputs]."""
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)


class FoldedCritics(eqx.Module):
    """Critics in folded form. They share their input, so their first layers are one product."""

    first: Folded
    rest: tuple[FoldedMLP, ...]
    takes_again: bool = eqx.field(static=True)
    activation: Activation = eqx.field(static=True)

    def __call__(self, observation: Array, action: Array) -> Array:
        """observation [B, D] and action [B, A] -> values [C, B]."""
        hidden = self.activation(self.first(jnp.concatenate([observation, action], axis=-1)))
        parts = jnp.split(hidden, len(self.rest), axis=-1)
        if self.takes_again:
            parts = [jnp.concatenate([part, action], axis=-1) for part in parts]
        return jnp.stack([critic(part)[:, 0] for critic, part in zip(self.rest, parts, strict=True)])
