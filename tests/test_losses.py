"""The losses and actor objectives of the paper, with numbers worked out by hand."""

from __future__ import annotations

import numpy as np

from gemrl.algorithms.losses import Asymmetric, FirstCritic, MeanOfCritics


def test_asymmetric_loss() -> None:
    delta = np.array([2.0, -2.0, 0.0, -0.5])  # delta = Q - R: overestimates have weight 1, underestimates alpha
    np.testing.assert_allclose(Asymmetric(0.25)(delta), [4.0, 1.0, 0.0, 0.0625])
    np.testing.assert_allclose(Asymmetric(1.0)(delta), delta**2)


def test_the_asymmetric_loss_is_minimized_by_an_expectile() -> None:
    """If returns are 0 or 1 with equal probability, the best constant is alpha / (1 + alpha): 0.2 at alpha = 1/4."""
    grid = np.linspace(0, 1, 10_001)
    cost = Asymmetric(0.25)(grid[:, None] - np.array([0.0, 1.0])).sum(axis=1)
    assert abs(grid[cost.argmin()] - 0.2) < 1e-3


def test_actor_objectives() -> None:
    q = np.array([[1.0, 2.0], [3.0, 6.0]])
    np.testing.assert_allclose(MeanOfCritics()(q), [2.0, 4.0])
    np.testing.assert_allclose(FirstCritic()(q), [1.0, 2.0])
