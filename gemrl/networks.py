"""Actor and critics: multi-layer perceptrons whose forward pass runs on JAX arrays (training) and numpy arrays (acting) alike.

They are initialised by numpy, which compiles nothing, so that a model is there at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import numpy as np

from gemrl.planning import Array


class Layer(eqx.Module):
    """The arrays of x @ weight + bias and, if it has a scale, of a LayerNorm. An ensemble has a leading axis on each."""

    weight: Array
    bias: Array
    scale: Array | None
    shift: Array | None

    @staticmethod
    def init(rng: np.random.Generator, inputs: int, outputs: int, normed: int = 0) -> Layer:
        """Weights and biases uniform in +-1/sqrt(inputs), as TD3 has them; `normed` features are normalised, 0 for none."""
        bound = inputs**-0.5
        return Layer(
            rng.uniform(-bound, bound, (inputs, outputs)).astype(np.float32),
            rng.uniform(-bound, bound, outputs).astype(np.float32),
            np.ones(normed, np.float32) if normed else None,
            np.zeros(normed, np.float32) if normed else None,
        )

    def linear(self, x: Array) -> Array:
        """x [*C, B, inputs] -> [*C, B, outputs]."""
        return x @ self.weight + self.bias[..., None, :]

    def norm(self, x: Array) -> Array:
        """x with zero mean and unit variance over its features, where this layer normalises."""
        if self.scale is None or self.shift is None:
            return x
        x = x - x.mean(axis=-1, keepdims=True)
        deviation = ((x * x).mean(axis=-1, keepdims=True) + 1e-5) ** 0.5
        return x / deviation * self.scale[..., None, :] + self.shift[..., None, :]


class MLP(eqx.Module):
    """Hidden layers, each ReLU and then LayerNorm, and a linear one; `again` joins behind the first, before its norm.

    The norm comes after the ReLU: on HalfCheetah-v5 that learnt faster than before it (docs/algorithm.md has the numbers).
    """

    layers: tuple[Layer, ...]

    @staticmethod
    def init(
        rng: np.random.Generator, inputs: int, hidden: Sequence[int], outputs: int, *, layer_norm: bool, again: int = 0
    ) -> MLP:
        """A perceptron inputs -> hidden -> outputs; `again` is the size of what enters a second time."""
        layers = []
        for number, width in enumerate(hidden):
            features = width + (again if number == 0 else 0)
            layers.append(Layer.init(rng, inputs, width, features if layer_norm else 0))
            inputs = features
        return MLP((*layers, Layer.init(rng, inputs, outputs)))

    def __call__(self, x: Array, again: Array | None = None) -> Array:
        """x [*C, B, inputs] -> [*C, B, outputs]."""
        xp = x.__array_namespace__()
        for number, layer in enumerate(self.layers[:-1]):
            x = xp.maximum(layer.linear(x), 0)
            if number == 0 and again is not None:
                again = xp.broadcast_to(again, (*x.shape[:-1], again.shape[-1]))
                x = xp.concatenate([x, again], axis=-1)
            x = layer.norm(x)
        return self.layers[-1].linear(x)


class Actor(eqx.Module):
    """The policy pi(s), in [-1, 1]."""

    body: MLP

    @staticmethod
    def init(rng: np.random.Generator, observation: int, action: int, hidden: Sequence[int], *, layer_norm: bool) -> Actor:
        return Actor(MLP.init(rng, observation, hidden, action, layer_norm=layer_norm))

    def __call__(self, observation: Array) -> Array:
        """observation [B, D] -> action [B, A]."""
        return observation.__array_namespace__().tanh(self.body(observation))


class Critics(eqx.Module):
    """An ensemble of C critics Q(s, a), each initialised on its own."""

    body: MLP
    action_twice: bool = eqx.field(static=True)

    @staticmethod
    def init(
        rng: np.random.Generator,
        count: int,
        observation: int,
        action: int,
        hidden: Sequence[int],
        *,
        layer_norm: bool,
        action_twice: bool,
    ) -> Critics:
        again = action if action_twice else 0
        each = [MLP.init(rng, observation + action, hidden, 1, layer_norm=layer_norm, again=again) for _ in range(count)]
        return Critics(jax.tree.map(lambda *arrays: np.stack(arrays), *each), action_twice)

    def __call__(self, observation: Array, action: Array) -> Array:
        """observation [B, D] and action [B, A], common to all or with a leading axis C of their own -> values [C, B]."""
        x = observation.__array_namespace__().concatenate([observation, action], axis=-1)
        x = x if x.ndim == 3 else x[None]
        return self.body(x, action if self.action_twice else None)[..., 0]
