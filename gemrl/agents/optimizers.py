"""Adam, as every agent here uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np
import optax

from gemrl.core.arrays import Array

Parameters = TypeVar("Parameters")


def adam(learning_rate: float, epsilon: float = 1e-8) -> optax.GradientTransformation:
    """Adam with the usual moments."""
    return optax.adam(learning_rate, eps=epsilon)


def adam_start(parameters: Any) -> optax.OptState:
    """Its state before the first update, which is all zeros: made by numpy, so that nothing is compiled."""
    shapes = jax.eval_shape(adam(1.0).init, parameters)
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)


def descend(
    optimizer: optax.GradientTransformation, loss: Callable[[Parameters], Array], parameters: Parameters, state: optax.OptState
) -> tuple[Parameters, optax.OptState, Array]:
    """One step of an optimiser down a loss; with what the loss was before it."""
    value, gradient = jax.value_and_grad(loss)(parameters)
    change, state = optimizer.update(gradient, state)
    return optax.apply_updates(parameters, change), state, value
