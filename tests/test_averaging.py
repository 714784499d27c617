"""The average of policies compared with a plain loop over the networks of all rounds, and who acts with it."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

from gemrl.agents.averaging import newest_weight
from gemrl.agents.continuous import FAMILY, train_round
from gemrl.agents.learner import Averaged, Learner, init_learner
from gemrl.algorithms.distributions import Gaussian
from gemrl.algorithms.embeddings import StateAction
from tests.test_continuous import LAYOUT, D, host, random_memory, random_rows, small

FIELDS: dict[str, Any] = {"embedding": StateAction(4), "distribution": Gaussian(), "gradient_steps": 4}
SPAN = 10


def rounds(**fields: Any) -> list[Learner]:
    """The learner after each of six rounds."""
    recipe, memory = small(**FIELDS, **fields), random_memory()
    learner, found = init_learner(recipe, LAYOUT, seed=1), []
    for number in range(6):
        learner, memory, _ = train_round(recipe, learner, memory, random_rows(10), np.array([0]), number % 2 == 0)
        found.append(host(eqx.tree_at(lambda x: x.key, learner, 0)))
    return found


@pytest.fixture(scope="module")
def averaged() -> list[Learner]:
    return rounds(policy_average=SPAN)


def test_it_is_the_average_of_the_policies_of_all_rounds(averaged: list[Learner]) -> None:
    """First their mean; as soon as that would weigh the newest round less, an exponential average over SPAN gradient steps."""
    expected: list[np.ndarray] = []
    for number, learner in enumerate(averaged, start=1):
        newest = jax.tree.leaves((learner.actor, learner.encoder))
        share = max(1 - (1 - 1 / SPAN) ** 4, 1 / number)
        expected = [share * new + (1 - share) * old for new, old in zip(newest, expected or newest, strict=True)]
    assert averaged[-1].average is not None
    for ours, theirs in zip(jax.tree.leaves(averaged[-1].average), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)


def test_training_is_the_same_without_it(averaged: list[Learner]) -> None:
    """Up to rounding, since they are two programs."""
    with_average, without = eqx.tree_at(lambda x: x.average, averaged[-1], None), rounds()[-1]
    for ours, theirs in zip(jax.tree.leaves(with_average), jax.tree.leaves(without), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_weights_of_the_first_rounds_are_those_of_a_mean() -> None:
    assert float(newest_weight(1000, 10, 10)) == 1
    assert float(newest_weight(1000, 10, 40)) == pytest.approx(0.25)
    assert float(newest_weight(1000, 10, 100_000)) == pytest.approx(1 - 0.999**10, rel=1e-4)


@pytest.mark.parametrize("stochastic", [False, True])
def test_the_average_acts_greedily_and_the_newest_policy_explores(stochastic: bool) -> None:
    fields: dict[str, Any] = {"distribution": Gaussian()} if stochastic else {"exploration_noise": 0.0}
    recipe = small(policy_average=SPAN, **fields)
    first, second = (init_learner(recipe, LAYOUT, seed) for seed in (1, 2))
    mixed = eqx.tree_at(lambda x: x.average, first, Averaged(second.actor, second.encoder))
    states = np.random.default_rng(0).normal(size=(5, D)).astype(np.float32)
    policy = FAMILY.policy_of(mixed)

    def explored(policy: Any) -> np.ndarray:
        return FAMILY.explore(recipe, policy, states, 10**6, np.random.default_rng(0))

    np.testing.assert_array_equal(FAMILY.act(recipe, policy, states), FAMILY.act(recipe, FAMILY.policy_of(second), states))
    np.testing.assert_array_equal(explored(policy), explored(FAMILY.policy_of(first)))
    assert not np.array_equal(explored(policy), explored(FAMILY.policy_of(second)))
