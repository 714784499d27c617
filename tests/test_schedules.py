"""Schedules of the learning rate and of exploration: their shapes, and what they do to updates."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemrl.agents.acting import Policy, explore
from gemrl.algorithms.registry import RECIPES
from gemrl.algorithms.schedules import Constant, Cosine, Linear, Schedule
from gemrl.cli.main import main
from gemrl.core.exceptions import BadValue
from gemrl.training.models import MODELS
from tests.conftest import SMALL


@pytest.mark.parametrize("xp", [np, jnp])
def test_shapes(xp: Any) -> None:
    steps = xp.array([0.0, 25.0, 50.0, 100.0, 1000.0])
    np.testing.assert_array_equal(Constant()(steps), np.ones(5))
    np.testing.assert_allclose(Linear(0.2, 100)(steps), [1, 0.8, 0.6, 0.2, 0.2], rtol=1e-6)
    middle = 0.2 + 0.8 * (1 + math.cos(math.pi / 4)) / 2
    np.testing.assert_allclose(Cosine(0.2, 100)(steps), [1, middle, 0.6, 0.2, 0.2], rtol=1e-6)


def weights_after(name: str, schedule: Schedule) -> list[np.ndarray]:
    """All networks after one gradient step at environment step 100, less those before it."""
    env = "CartPole-v1" if name == "dqn" else "Pendulum-v1"
    fields: dict[str, Any] = SMALL | {"gradient_steps": 1, "train_freq": 100, "learning_starts": 99}
    fields |= {} if name == "dqn" else {"policy_delay": 1}
    model = MODELS[name](env, seed=0, learning_rate_schedule=schedule, **fields)

    def networks() -> list[np.ndarray]:
        learner = model.agent.learner
        online = learner.networks if name == "dqn" else (learner.actor, learner.critics)
        return [np.array(leaf, float) for leaf in jax.tree.leaves(online)]

    before = networks()
    model.learn(100)
    return [after - first for after, first in zip(networks(), before, strict=True)]


@pytest.mark.parametrize("name", ["td3", "sac", "dqn"])
def test_an_update_is_as_much_smaller_as_the_learning_rate(name: str) -> None:
    """A quarter of the way from 1 to 0, each weight moves three quarters as far."""
    whole, less = weights_after(name, Constant()), weights_after(name, Linear(0.0, 4 * 99))
    assert max(np.abs(change).max() for change in whole) > 0
    for one, other in zip(whole, less, strict=True):
        np.testing.assert_allclose(other, 0.75 * one, rtol=1e-3, atol=1e-7)


def test_exploration_follows_its_schedule() -> None:
    """The deviation of the noise at three steps, against the schedule."""

    class Still:
        def sample(self, observation: np.ndarray, rng: np.random.Generator) -> np.ndarray:
            return np.zeros((len(observation), 2), np.float32)

    recipe = RECIPES["td3"].but(exploration_noise=0.2, exploration_schedule=Linear(0.0, 1000))
    policy: Any = Policy(Still(), None)  # type: ignore[arg-type]
    for step, expected in ((0, 0.2), (500, 0.1), (1000, 0.0)):
        noise = explore(recipe, policy, np.zeros((4000, 3), np.float32), step, np.random.default_rng(0))  # type: ignore[arg-type]
        assert noise.std() == pytest.approx(expected, rel=0.05)


def test_the_log_shows_the_current_learning_rate(tmp_path: Path) -> None:
    words = ["train", "Pendulum-v1", "--algo", "td3", "--steps", "2000", "--eval-every", "2000", "--eval-episodes", "1"]
    words += ["--run", str(tmp_path / "run"), "--set", "learning_starts=1900", "net_arch=(8,)", "batch_size=4"]
    assert main([*words, "learning_rate=0.001", "learning_rate_schedule=Linear(0.5, 2000)"]) == 0
    with (tmp_path / "run" / "progress.csv").open() as file:
        rates = [float(row["train/learning_rate"]) for row in csv.DictReader(file)]
    np.testing.assert_allclose(rates, [0.00075, 0.0005], rtol=1e-5)


@pytest.mark.parametrize("kind", [Linear, Cosine])
def test_bad_values_are_refused(kind: Any) -> None:
    with pytest.raises(BadValue, match="final"):
        kind(-0.1)
    with pytest.raises(BadValue, match="steps"):
        kind(0.1, 0)
