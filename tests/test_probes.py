"""Every recipe learns the exact values of every probe environment within seconds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gemrl.algorithms.registry import RECIPES, DiscreteRecipe, Recipe, groups
from gemrl.training.model import Model
from gemrl.training.models import MODELS
from tests import probes

GAMMA = 0.5


def gamma(name: str) -> float:
    """The discount of a probe; optimality tightening divides by gamma^4, so it needs a larger one."""
    return 0.9 if name == "optimality-tightening" else GAMMA


def hidden(name: str) -> tuple[int, ...]:
    """The hidden layers of a probed agent: one is faster, but too little for a policy without LayerNorm."""
    return (32,) if RECIPES[name].settable().get("layer_norm") else (32, 32)


FAST: dict[str, Any] = {
    "learning_rate": 3e-3,
    "buffer_size": 2000,
    "learning_starts": 200,
    "batch_size": 64,
    "train_freq": 100,
    "gradient_steps": 100,
}


FRESH_TARGETS = {"tau": 0.05}
"""For agents without planned returns, whose targets move with every update."""

BATCH_NORM = {"learning_rate": 1e-3, "adam_beta1": 0.9, "momentum": 0.95, "batch_size": 256, "policy_delay": 1, "entropy": 2.0}
"""For bodies with BatchNorm, whose running statistics must follow in a few hundred gradient steps."""

DISCRETE_ABLATIONS = {f"gem-discrete-{name}" for name in ("no-tbp", "no-asymmetry", "lambda", "nstep", "one-step")}
PROBED = {recipe: name for name, recipe in reversed(RECIPES.items()) if isinstance(recipe, (Recipe, DiscreteRecipe))}
OFFLINE = set(groups()["recorded data"])
NAMES = [name for name in PROBED.values() if name not in DISCRETE_ABLATIONS | OFFLINE and "ladder-" not in name]
"""Each recipe once. Left out are discrete ablations, which share planners and losses with the continuous ones, and the ladders,
whose fields other recipes cover. Other families, and recipes for recorded data, have their probes in other files."""


DISCRETE_FIELDS = {"target_update_interval": 100, "exploration_steps": 300, "exploration_final_eps": 0.3}
"""For discrete actions; some actions must stay random, or bad actions are never tried again."""


def is_discrete(name: str) -> bool:
    return isinstance(RECIPES[name], DiscreteRecipe)


def trained(name: str, env: probes.Probe, steps: int = 900) -> Model:
    fields, recipe = FAST | {"gamma": gamma(name), "net_arch": hidden(name)}, RECIPES[name]
    if is_discrete(name):
        cap = {"depth": 5} if name == "ebu" or name.startswith("gem") else {}  # a smaller depth compiles faster
        return MODELS[name](probes.Choices(env), seed=1, **fields | DISCRETE_FIELDS | cap).learn(steps // 2 + 200)
    if isinstance(recipe, Recipe) and not recipe.targets.stored:
        fields |= FRESH_TARGETS
    if "features" in recipe.settable():  # in proportion to the hidden layers
        fields |= {"features": 16}
    if "momentum" in recipe.settable():
        fields |= BATCH_NORM
    if recipe.settable().get("policy_average"):  # in proportion to the gradient steps
        fields |= {"policy_average": 200}
    return MODELS[name](probes.Varied(env) if "momentum" in recipe.settable() else env, seed=1, **fields).learn(steps)


def q(model: Model, observations: list[float], action: float = 0.0) -> np.ndarray:
    """Q-values of an action of the probe; continuous actions are in [-2, 2], which agents scale to [-1, 1]."""
    states = np.zeros((len(observations), model.spaces.layout.size), np.float32)
    states[:, 0] = observations
    actions = np.full((len(states), 1), action / 2, np.float32)
    if is_discrete(model.algo):
        actions = np.full(actions.shape, probes.Choices.VALUES.index(action), np.int32)
    return model.agent.values(states, actions)


@pytest.mark.parametrize("name", NAMES)
def test_probes(name: str) -> None:
    """One test for all probes of a recipe, since they share its compilation, which takes longest."""
    check_policy(name)
    check_endings(name)


def check_policy(name: str) -> None:
    """The best action, and its value."""
    model = trained(name, probes.ActionDependent(), 2000)
    action, _ = model.predict(np.zeros(model.spaces.layout.size), deterministic=True)
    np.testing.assert_allclose(action, 1 if is_discrete(name) else [1.0], atol=0.15)
    np.testing.assert_allclose(q(model, [0.0], action=1.0), [0.0], atol=0.1)
    if is_discrete(name):
        np.testing.assert_allclose(q(model, [0.0], action=0.0), [-1.0], atol=0.1)


def check_endings(name: str) -> None:
    """A truncated episode bootstraps, a terminated one does not; and values follow the observation."""
    g = gamma(name)
    truncated = q(trained(name, probes.Truncated(), 4000 if g > GAMMA else 1300), [0.0])
    np.testing.assert_allclose(truncated, [1 / (1 - g)], rtol=0.05)
    terminated = q(trained(name, probes.Terminated()), [1.0, 0.0, -1.0])
    np.testing.assert_allclose(terminated, [1 + g + g**2, 1 + g, 1.0], atol=0.1)
