"""Matrix products in bfloat16 compared with PyTorch's rounding, and what a recipe with bfloat16=True trains."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemrl.agents.continuous import train_round
from gemrl.agents.learner import Learner, init_learner
from gemrl.agents.networks.products import SMALL, multiplying, product
from tests.test_continuous import LAYOUT, host, random_memory, random_rows, small

torch = pytest.importorskip("torch")

ROWS, INPUTS, OUTPUTS = 7, 80, 65


def factors(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def rounded(x: np.ndarray) -> np.ndarray:
    """x rounded to bfloat16, by PyTorch, as float64: sums of such products are exact up to the last digits of float32."""
    return torch.tensor(x).bfloat16().double().numpy()


def test_it_is_the_product_of_rounded_factors_and_so_is_its_gradient() -> None:
    x, weight, slope = factors(ROWS, INPUTS), factors(INPUTS, OUTPUTS), factors(ROWS, OUTPUTS)
    with multiplying(True):
        found, backward = jax.vjp(product, jnp.array(x), jnp.array(weight))
        to_x, to_weight = backward(jnp.array(slope))
    x, weight, slope = rounded(x), rounded(weight), rounded(slope)
    np.testing.assert_allclose(found, x @ weight, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(to_x, slope @ weight.T, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(to_weight, x.T @ slope, rtol=1e-5, atol=1e-4)
    assert found.dtype == to_x.dtype == to_weight.dtype == jnp.float32


def test_leading_axes_are_kept() -> None:
    x, weight = factors(2, 3, INPUTS), factors(INPUTS, OUTPUTS)
    with multiplying(True):
        found = product(jnp.array(x), jnp.array(weight))
    np.testing.assert_allclose(found, rounded(x) @ rounded(weight), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("inputs", "outputs"), [(SMALL - 1, OUTPUTS), (INPUTS, SMALL - 1)])
def test_small_products_stay_in_float32(inputs: int, outputs: int) -> None:
    x, weight = jnp.array(factors(ROWS, inputs)), jnp.array(factors(inputs, outputs))
    with multiplying(True):
        np.testing.assert_array_equal(product(x, weight), x @ weight)


def test_float32_is_the_default() -> None:
    x, weight = jnp.array(factors(ROWS, INPUTS)), jnp.array(factors(INPUTS, OUTPUTS))
    np.testing.assert_array_equal(product(x, weight), x @ weight)
    with multiplying(True):
        in_bfloat16 = product(x, weight)
    assert not np.array_equal(in_bfloat16, x @ weight)


def trained(**fields: Any) -> Learner:
    """The learner after a round with networks that are wide enough for bfloat16."""
    recipe = small(net_arch=(SMALL, SMALL), **fields)
    learner, memory = init_learner(recipe, LAYOUT, seed=1), random_memory()
    learner, _, _ = train_round(recipe, learner, memory, random_rows(10), np.array([0]), True)
    return host(eqx.tree_at(lambda x: x.key, learner, 0))


def test_a_recipe_trains_in_bfloat16_and_stays_close_to_float32() -> None:
    precise, rough = trained(), trained(bfloat16=True)
    again = trained()
    assert eqx.tree_equal(precise, again)  # the precision of one recipe does not leak into the program of another
    pairs = zip(jax.tree.leaves(precise.critics), jax.tree.leaves(rough.critics), strict=True)
    distance = max(float(np.abs(a - b).max()) for a, b in pairs)
    assert 0 < distance < 0.02
