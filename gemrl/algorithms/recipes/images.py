"""What recipes for continuous actions change if observations are images, which are slow to learn from."""

from __future__ import annotations

from typing import Any

from gemrl.core.layout import Layout


def image_preset(train_freq: int, layout: Layout) -> dict[str, Any]:
    """Changed fields: smaller minibatches, one update for every two steps, a short warm-up, and fewer rows.

    Small images are not shifted: four pixels would be half of an image of MinAtar's size.
    """
    every = max(2, train_freq)
    return {
        "train_freq": every,
        "gradient_steps": every // 2,
        "batch_size": 64,
        "learning_rate": 3e-4,
        "learning_starts": 1_000,
        "buffer_size": 50_000,
        "random_shift": 4 if layout.large_image else 0,
    }
