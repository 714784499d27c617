"""Adam, as every agent here uses it."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import optax


def adam(learning_rate: float, epsilon: float = 1e-8) -> optax.GradientTransformation:
    """Adam with the usual moments."""
    return optax.adam(learning_rate, eps=epsilon)


def adam_start(parameters: Any) -> optax.OptState:
    """Its state before the first update, which is all zeros: made by numpy, so that nothing is compiled."""
    shapes = jax.eval_shape(adam(1.0).init, parameters)
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
