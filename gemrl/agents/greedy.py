"""How agents with values of discrete actions act."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gemrl.core.arrays import Array
from gemrl.core.layout import Layout


def epsilon_greedy(
    act: Callable[[np.ndarray], np.ndarray], layout: Layout, epsilon: float, observation: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """The greedy actions of `act`, or random ones with probability epsilon. [B, *O] -> [B, 1]."""
    random = layout.random_actions(len(observation), rng, layout.split(observation)[1])
    explores = rng.random((len(observation), 1)) < epsilon
    return random if explores.all() else np.where(explores, random, act(observation))


def in_powers_of_two(values: Callable[[np.ndarray], Array], state: np.ndarray) -> np.ndarray:
    """The values of states [B, *O] by a compiled function: one program per power of two, not per batch size. [B, A]."""
    count = len(state)
    padding = (1 << (count - 1).bit_length()) - count
    return np.asarray(values(np.concatenate([state, np.repeat(state[:1], padding, axis=0)])))[:count]
