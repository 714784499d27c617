"""State-action embeddings, as in TD7 (Fujimoto et al., 2023): features z_s = f(s) and z_sa = g(z_s, a).

They are trained to predict: z_sa should be the features of the next state. Actor and critics take them as additional inputs,
without gradients into the encoder. So that these inputs do not change with every gradient step, the networks see a copy of the
encoder that is replaced only when the targets move; target networks see the copy before that.
"""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
import optax

from gemrl.agents.networks.actor_critic import adam_start
from gemrl.agents.networks.perceptron import Layer
from gemrl.algorithms.activations import ELU
from gemrl.core.arrays import Array

SMALLEST = 1e-8
"""The smallest mean that features are divided by."""


def mean_normalized(x: Array) -> Array:
    """x [*B, F] divided by the mean of its absolute values (AvgL1Norm)."""
    xp = x.__array_namespace__()
    return x / xp.maximum(xp.abs(x).mean(axis=-1, keepdims=True), SMALLEST)


class Encoder(eqx.Module):
    """f and g, each with two hidden layers of ELUs."""

    state: tuple[Layer, ...]
    pair: tuple[Layer, ...]

    @staticmethod
    def init(rng: np.random.Generator, observation: int, action: int, features: int) -> Encoder:
        """An encoder with this many features."""

        def layers(inputs: int) -> tuple[Layer, ...]:
            return tuple(Layer.init(rng, size, features) for size in (inputs, features, features))

        return Encoder(layers(observation), layers(features + action))

    def of_states(self, observation: Array) -> Array:
        """z_s [*B, F] of observations [*B, D]."""
        return mean_normalized(_through(self.state, observation))

    def of_pairs(self, features: Array, action: Array) -> Array:
        """z_sa [*B, F] of z_s [*B, F] and actions [*B, A]."""
        return _through(self.pair, features.__array_namespace__().concatenate([features, action], axis=-1))


def _through(layers: tuple[Layer, ...], x: Array) -> Array:
    for layer in layers[:-1]:
        x = ELU()(layer.linear(x))
    return layers[-1].linear(x)


def seen_states(encoder: Encoder | None, observation: Array) -> Array:
    """What an actor sees of observations [*B, D]: themselves and z_s."""
    if encoder is None:
        return observation
    return observation.__array_namespace__().concatenate([observation, encoder.of_states(observation)], axis=-1)


def seen_pairs(encoder: Encoder | None, observation: Array, action: Array) -> Array:
    """What critics see of observations [*B, D], beside the action: themselves, z_s and z_sa."""
    if encoder is None:
        return observation
    features = encoder.of_states(observation)
    pairs = encoder.of_pairs(features, action)
    return observation.__array_namespace__().concatenate([observation, features, pairs], axis=-1)


class Encoders(eqx.Module):
    """The encoder that is trained, the copy that actor and critics see, and the one that target networks see."""

    online: Encoder
    fixed: Encoder
    target: Encoder
    optimizer: optax.OptState

    @staticmethod
    def start(encoder: Encoder) -> Encoders:
        """All three alike, before the first step."""
        return Encoders(encoder, encoder, encoder, adam_start(encoder))

    def moved(self) -> Encoders:
        """The encoders after a move of the targets."""
        return Encoders(self.online, self.online, self.fixed, self.optimizer)


def encoder_loss(encoder: Encoder, observation: Array, action: Array, following: Array) -> tuple[Array, tuple[()]]:
    """The mean squared error of z_sa as a prediction of the next state's z_s, which is not moved towards z_sa."""
    predicted = encoder.of_pairs(encoder.of_states(observation), action)
    goal = jax.lax.stop_gradient(encoder.of_states(following))
    return ((predicted - goal) ** 2).mean(), ()
