"""What recipes for continuous actions change if observations are images, which are slow to learn from."""

from __future__ import annotations

from typing import Any

from gemrl.core.layout import Layout

LEAST_TAU = 0.05
"""The slowest target networks: with tau, values of a horizon of 100 steps need some 100 / tau updates to spread."""


def image_preset(train_freq: int, tau: float, layout: Layout) -> dict[str, Any]:
    """Changed fields: smaller minibatches, one update for every two steps, a short warm-up, fewer rows, and faster targets.

    A run of 20,000 steps makes fewer than 10,000 updates: with tau 0.005 its values would never arrive. Small images are not
    shifted: four pixels would be half of an image of MinAtar's size.
    """
    every = max(2, train_freq)
    return {
        "train_freq": every,
        "gradient_steps": every // 2,
        "batch_size": 64,
        "learning_rate": 3e-4,
        "tau": max(tau, LEAST_TAU),
        "learning_starts": 1_000,
        "buffer_size": 50_000,
        "random_shift": 4 if layout.large_image else 0,
    }
