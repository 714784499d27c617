"""Numbers of recipes as arguments of compiled programs: what shares a program, and that all numbers arrive."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gemrl.agents import continuous, discrete, soft
from gemrl.algorithms.arguments import numbers_of, shape_of, with_numbers
from gemrl.algorithms.backward import Backward
from gemrl.algorithms.distributions import Gaussian
from gemrl.algorithms.losses import Asymmetric, Calibrated
from gemrl.algorithms.planning import Stopping
from gemrl.algorithms.registry import RECIPES
from gemrl.algorithms.schedules import Linear
from gemrl.algorithms.targets import Planned, SelfImitation, Tightening
from gemrl.training.models import MODELS
from tests.conftest import SMALL


def test_numbers_have_the_names_of_their_fields() -> None:
    recipe = RECIPES["gem"].but(targets=Planned(Stopping(margin=0.5)), max_grad_norm=0.0)
    found = numbers_of(recipe)
    assert found["learning_rate"] == 3e-4
    assert found["loss.alpha"] == 0.25
    assert found["targets.planner.margin"] == 0.5
    assert "max_grad_norm" not in found  # 0 turns it off, which is another program
    assert not {"batch_size", "targets.planner.depth", "bfloat16"} & found.keys()


def test_a_recipe_is_its_shape_and_its_numbers() -> None:
    for recipe in RECIPES.values():
        assert with_numbers(shape_of(recipe), numbers_of(recipe)) == recipe


@pytest.mark.parametrize("field", ["batch_size", "depth", "policy_delay"])
def test_other_fields_belong_to_the_shape(field: str) -> None:
    recipe = RECIPES["gem"]
    assert shape_of(recipe.but(**{field: 7})) != shape_of(recipe)
    assert shape_of(recipe.but(tau=0.7)) == shape_of(recipe)


LEARNED = {"learning_rate": 0.01, "gamma": 0.9, "max_grad_norm": 0.5}
TINY = SMALL | {"gradient_steps": 5, "learning_starts": 50, "train_freq": 50, "max_grad_norm": 0.1}
CHANGES: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("gem", "InvertedPendulum-v5", {}, LEARNED | {"tau": 0.3, "alpha": 0.7, "adam_beta1": 0.5, "target_policy_noise": 0.4}),
    ("gem", "InvertedPendulum-v5", {"bound": Tightening(2.0), "targets": "td3"}, LEARNED | {"bound": Tightening(8.0)}),
    ("gem", "InvertedPendulum-v5", {"bound": SelfImitation(), "targets": "td3"}, LEARNED | {"bound": SelfImitation(0.1)}),
    ("emac", "InvertedPendulum-v5", {"every": 50}, LEARNED | {"weight": 0.3}),
    (
        "gem",
        "InvertedPendulum-v5",
        {"distribution": Gaussian(), "loss": Calibrated(), "targets": Planned(Stopping(margin=0.1))},
        LEARNED | {"distribution": Gaussian(entropy=2.0), "loss": Calibrated(alpha_low=0.4), "margin": 0.3},
    ),
    ("gem", "InvertedPendulum-v5", {"learning_rate_schedule": Linear(0.1, 200)}, {"learning_rate_schedule": Linear(0.5, 200)}),
    ("sac", "InvertedPendulum-v5", {}, LEARNED | {"tau": 0.3, "target_entropy_scale": 2.0}),
    ("gem-discrete", "CartPole-v1", {"planner": Backward()}, LEARNED | {"planner": Backward(0.7), "adam_epsilon": 1e-4}),
]
PROGRAMS = {"gem": continuous, "emac": continuous, "sac": soft, "gem-discrete": discrete}


@pytest.mark.parametrize(("algo", "env", "fields", "changes"), CHANGES, ids=lambda x: x if isinstance(x, str) else "")
def test_other_numbers_compile_nothing_and_have_an_effect(
    algo: str, env: str, fields: dict[str, Any], changes: dict[str, Any]
) -> None:
    fields = fields | ({"targets": RECIPES["td3"].settable()["targets"]} if fields.get("targets") == "td3" else {})
    known = MODELS[algo](env).recipe.settable()
    fields = {name: value for name, value in (TINY | fields).items() if name in known}
    size = PROGRAMS[algo].train_round.program._cache_size
    policies, sizes = [], [size()]
    for numbers in (fields, fields | changes):
        model = MODELS[algo](env, seed=0, **numbers).learn(150)
        observations = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
        policies.append(model.q_values(observations) if algo == "gem-discrete" else model.agent.act(observations))
        sizes.append(size())
    assert sizes[2] == sizes[1] > sizes[0]
    assert not np.array_equal(policies[0], policies[1])


def test_numbers_of_other_peoples_parts_are_constants() -> None:
    """A part that does not name its numbers may use them in conditions."""

    class Theirs(Asymmetric):
        arguments = ()

    recipe = RECIPES["gem"].but(loss=Theirs(0.5))
    assert "loss.alpha" not in numbers_of(recipe)
    assert shape_of(recipe) != shape_of(recipe.but(loss=Theirs(0.6)))
