"""What benchmarks measure against must be right, or the comparison means nothing."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import dense
from gemrl.planning import Twin


@pytest.mark.parametrize("depth", [1, 2, 7, 30, 1000])
@pytest.mark.parametrize("ending", [0.0, 0.05, 0.5, 1.0])
def test_the_dense_method_plans_as_twin_does(depth: int, ending: float) -> None:
    rng = np.random.default_rng(depth)
    for count in (1, 2, 30, 61):
        terminated, truncated = rng.random((2, count)) < ending / 2
        reward, q_next = rng.normal(size=count), 10 * rng.normal(size=(2, count))
        data = reward, np.where(terminated, 0.0, 0.99), terminated | truncated, q_next
        np.testing.assert_allclose(dense.twin(*data, depth), Twin(depth)(*data), rtol=1e-9, atol=1e-9)


def test_trajectories_end_both_ways() -> None:
    _, discount, last, q_next = dense.trajectories(60, 20)
    np.testing.assert_array_equal(np.flatnonzero(last), [19, 39, 59])
    np.testing.assert_allclose(discount[last], [0, 0.99, 0])
    assert q_next.shape == (2, 60)
    assert np.all(discount[~last] > 0)


def test_a_matrix_has_no_value_beyond_the_end() -> None:
    values = dense.rollouts(np.ones(4), np.full(4, 0.5), np.zeros(4), 3)
    np.testing.assert_allclose(values, [[1, 1.5, 1.75], [1, 1.5, 1.75], [1, 1.5, -np.inf], [1, -np.inf, -np.inf]])
