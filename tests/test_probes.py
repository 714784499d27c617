"""Every recipe learns the known values of every probe environment within seconds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gemrl.algorithms.registry import RECIPES, DiscreteRecipe, Recipe
from gemrl.training.model import Model
from gemrl.training.models import MODELS
from tests import probes

GAMMA = 0.5


def gamma(name: str) -> float:
    """Optimality tightening divides by gamma^4, so it cannot live with a small one."""
    return 0.9 if name == "optimality-tightening" else GAMMA


FAST: dict[str, Any] = {
    "net_arch": (32, 32),
    "learning_rate": 3e-3,
    "buffer_size": 2000,
    "learning_starts": 300,
    "batch_size": 64,
    "gradient_steps": 100,
}


BRISK = {"train_freq": 100, "tau": 0.05}
"""For agents that train after every step: the same updates, in rounds that cost the host less."""

PLANNED_OTHERWISE = {f"gem-discrete-{name}" for name in ("no-tbp", "no-asymmetry", "lambda", "nstep", "one-step")}
PROBED = {recipe: name for name, recipe in reversed(RECIPES.items()) if isinstance(recipe, (Recipe, DiscreteRecipe))}
NAMES = [name for name in PROBED.values() if name not in PLANNED_OTHERWISE and not name.startswith("ladder-")]
"""Each recipe once, but of ablations those of continuous actions, since planners and losses are the same, and no rung of the
ladder, since each has fields that recipes here have too; other families have their probes in files of their own."""


CHOOSING = {"train_freq": 100, "target_update_interval": 100, "exploration_steps": 300, "exploration_final_eps": 0.3}
"""For agents that choose among actions; some must stay random, or values of bad ones are never seen again."""


def chooses(name: str) -> bool:
    return isinstance(RECIPES[name], DiscreteRecipe)


def trained(name: str, env: probes.Probe, steps: int = 1500) -> Model:
    fields = FAST | {"gamma": gamma(name)}
    if chooses(name):
        cap = {"depth": 5} if name.startswith("gem") else {}  # a planner of less depth compiles in less time
        return MODELS[name](probes.Choices(env), seed=1, **fields | CHOOSING | cap).learn(steps)
    return MODELS[name](env, seed=1, **fields | (BRISK if RECIPES[name].settable()["train_freq"] == 1 else {})).learn(steps)


def q(model: Model, observations: list[float], action: float = 0.0) -> np.ndarray:
    """Values of an action of the probe; continuous ones are in [-2, 2], which agents see as [-1, 1]."""
    states = np.array(observations, np.float32)[:, None]
    actions = np.full_like(states, action / 2)
    if chooses(model.algo):
        actions = np.full(states.shape, probes.Choices.VALUES.index(action), np.int32)
    return model.agent.values(states, actions)


@pytest.mark.parametrize("name", NAMES)
def test_probes(name: str) -> None:
    """One test for all probes of a recipe, since they share what takes longest: its compilation."""
    check_values(name)
    check_policy(name)
    check_endings(name)


def check_values(name: str) -> None:
    """Rewards that depend on the observation; delayed ones come with the endings."""
    np.testing.assert_allclose(q(trained(name, probes.ObservationDependent()), [-1.0, 1.0]), [-1.0, 1.0], atol=0.05)


def check_policy(name: str) -> None:
    """The best action, and its value."""
    model = trained(name, probes.ActionDependent(), 2500)
    action, _ = model.predict(np.zeros(1))
    np.testing.assert_allclose(action, 1 if chooses(name) else [1.0], atol=0.15)
    np.testing.assert_allclose(q(model, [0.0], action=1.0), [0.0], atol=0.1)
    if chooses(name):
        np.testing.assert_allclose(q(model, [0.0], action=0.0), [-1.0], atol=0.1)


def check_endings(name: str) -> None:
    """A time limit bootstraps, a death does not."""
    g = gamma(name)
    truncated = q(trained(name, probes.Truncated(), 6000 if g > GAMMA else 1500), [0.0])
    np.testing.assert_allclose(truncated, [1 / (1 - g)], rtol=0.05)
    terminated = q(trained(name, probes.Terminated()), [1.0, 0.0, -1.0])
    np.testing.assert_allclose(terminated, [1 + g + g**2, 1 + g, 1.0], atol=0.1)
