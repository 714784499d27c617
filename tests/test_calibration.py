"""alpha that sets itself: the signal against a plain loop, and what it does to alpha."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemrl.agents.calibration import next_alpha, overestimation
from gemrl.agents.continuous import train_round
from gemrl.agents.learner import init_learner
from gemrl.agents.memory.ring import Memory
from gemrl.algorithms.losses import Asymmetric, Calibrated, weighted_square
from gemrl.algorithms.registry import RECIPES
from gemrl.core.exceptions import BadValue
from tests.test_continuous import LAYOUT, random_memory, random_rows, small


def by_hand(memory: Memory, window: int) -> float:
    """The same, row by row."""
    values, returns = [], []
    for lane in range(len(memory.size)):
        rows = {name: column[..., -window:] for name, column in memory.lane(lane).items() if column.ndim < 3}
        rows |= {name: memory.lane(lane)[name][-window:] for name in ("reward", "discount", "last")}
        for pair in range(len(rows["q_next"])):
            for t in range(len(rows["reward"])):
                total, factor, row = 0.0, 1.0, t
                while True:
                    total, factor = total + factor * rows["reward"][row], factor * rows["discount"][row]
                    if rows["last"][row] or row == len(rows["reward"]) - 1:
                        break
                    row += 1
                returns.append(total + factor * rows["q_next"][pair, row])
                values.append(rows["reward"][t] + rows["discount"][t] * rows["q_next"][pair, t])
    return (np.mean(values) - np.mean(returns)) / np.std(returns)


@pytest.mark.parametrize("window", [1, 30, 50, 4000])
def test_overestimation_equals_the_definition(window: int) -> None:
    memory = random_memory(50, 64, lanes=2)
    if window > 1:  # of a single row, values and returns are the same
        assert float(overestimation(memory, window)) == pytest.approx(by_hand(memory, window), rel=1e-4)
    else:
        assert float(overestimation(memory, window)) == 0


def test_unfilled_rows_do_not_count() -> None:
    few, many = random_memory(30, 32), random_memory(30, 500)
    many = eqx.tree_at(lambda m: m.q_next, many, many.q_next.at[..., :30].set(few.q_next[..., :30]))
    assert float(overestimation(few)) == pytest.approx(float(overestimation(many)), rel=1e-4)


def test_alpha_falls_when_values_are_too_high_and_rises_when_they_are_too_low() -> None:
    memory, loss = random_memory(50), Calibrated()
    high, low = (eqx.tree_at(lambda m: m.q_next, memory, jnp.full_like(memory.q_next, value)) for value in (1e4, -1e4))
    alpha = jnp.array(0.5)
    falls, rises = [float(alpha)], [float(alpha)]
    for _ in range(12):
        falls.append(float(next_alpha(loss, jnp.array(falls[-1]), high)))
        rises.append(float(next_alpha(loss, jnp.array(rises[-1]), low)))
    assert falls == sorted(falls, reverse=True)
    assert rises == sorted(rises)
    assert falls[-1] == pytest.approx(0.1)
    assert rises[-1] == pytest.approx(1.0)
    assert min(b / a for a, b in pairwise(falls)) >= np.exp(-0.3) - 1e-6


def test_loss_is_the_asymmetric_one() -> None:
    delta = np.linspace(-2, 2, 9)
    np.testing.assert_array_equal(Calibrated(alpha=0.25)(delta), Asymmetric(0.25)(delta))
    np.testing.assert_array_equal(weighted_square(delta, 0.25), Asymmetric(0.25)(delta))


@pytest.mark.parametrize("name", ["gem", "gem2"])
def test_a_round_trains_with_the_alpha_of_its_learner(name: str) -> None:
    """With rate 0 it equals the asymmetric loss of that alpha; with a rate, alpha moves when the memory is planned."""
    fields: dict[str, Any] = {"features": 4} if name == "gem2" else {}
    rows, count = random_rows(50), jnp.array([50])

    def trained(due: bool = True, **more: Any) -> Any:
        recipe = small(name, **fields, **more)
        extra = ("q_stored", "length", "gain") if name == "gem2" else ()
        memory = Memory.empty(1, 64, LAYOUT, recipe.n_pairs, extra)
        learner, _, metrics = train_round(recipe, init_learner(recipe, LAYOUT, 0), memory, rows, count, due)
        return learner, metrics

    constant, metrics = trained(loss=Asymmetric(0.3))
    assert "alpha" not in metrics
    still, metrics = trained(loss=Calibrated(0.3, alpha_rate=0.0))
    assert float(metrics["alpha"]) == pytest.approx(0.3)
    for one, other in zip(*(jax.tree.leaves(x.critics) for x in (constant, still)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    moved, metrics = trained(loss=Calibrated(0.3))
    assert float(moved.alpha) != pytest.approx(0.3)
    assert float(metrics["alpha"]) == float(moved.alpha)
    waiting, _ = trained(due=False, loss=Calibrated(0.3))
    assert float(waiting.alpha) == pytest.approx(0.3)


@pytest.mark.parametrize(
    "fields", [{"alpha": 2.0}, {"alpha": 0.01}, {"alpha_low": 0.0}, {"alpha_high": 0.05}, {"alpha_rate": -1.0}]
)
def test_bad_values_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(BadValue, match="alpha"):
        Calibrated(**fields)


def test_agents_without_values_in_their_memory_refuse_it() -> None:
    with pytest.raises(BadValue, match="Planned"):
        RECIPES["td3"].but(loss=Calibrated())
    with pytest.raises(BadValue, match="continuous actions"):
        RECIPES["gem-discrete"].but(loss=Calibrated())
