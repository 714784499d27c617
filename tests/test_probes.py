"""Every recipe learns the known values of every probe environment within seconds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gemrl.model import Model
from gemrl.models import MODELS
from gemrl.recipes import RECIPES
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

NAMES = list({recipe: name for name, recipe in reversed(RECIPES.items()) if name not in ("sac", "mfec")}.values())
"""Each recipe once (the ladder's upper rungs have other names too). sac's values are soft: test_soft has its probe.

mfec has discrete actions: test_nearest has its own."""


def trained(name: str, env: probes.Probe, steps: int = 1500) -> Model:
    fields = FAST | {"gamma": gamma(name)} | (BRISK if RECIPES[name].settable()["train_freq"] == 1 else {})
    return MODELS[name](env, seed=1, **fields).learn(steps)


def q(model: Model, observations: list[float], action: float = 0.0) -> np.ndarray:
    states = np.array(observations, np.float32)[:, None]
    return model.agent.values(states, np.full_like(states, action))


@pytest.mark.parametrize("name", NAMES)
def test_probes(name: str) -> None:
    """One test for all probes of a recipe, since they share what takes longest: its compilation."""
    check_values(name)
    check_policy(name)
    check_endings(name)


def check_values(name: str) -> None:
    """Constant, observation-dependent and delayed rewards."""
    np.testing.assert_allclose(q(trained(name, probes.Constant()), [0.0]), [1.0], atol=0.05)
    np.testing.assert_allclose(q(trained(name, probes.ObservationDependent()), [-1.0, 1.0]), [-1.0, 1.0], atol=0.05)
    np.testing.assert_allclose(q(trained(name, probes.Delayed()), [0.0, 1.0]), [gamma(name), 1.0], atol=0.05)


def check_policy(name: str) -> None:
    """The best action, and its value."""
    model = trained(name, probes.ActionDependent(), 2500)
    action, _ = model.predict(np.zeros(1))
    np.testing.assert_allclose(action, [1.0], atol=0.15)
    np.testing.assert_allclose(q(model, [0.0], action=0.5), [0.0], atol=0.1)


def check_endings(name: str) -> None:
    """A time limit bootstraps, a death does not."""
    g = gamma(name)
    truncated = q(trained(name, probes.Truncated(), 6000 if g > GAMMA else 1500), [0.0])
    np.testing.assert_allclose(truncated, [1 / (1 - g)], rtol=0.05)
    terminated = q(trained(name, probes.Terminated()), [1.0, 0.0, -1.0])
    np.testing.assert_allclose(terminated, [1 + g + g**2, 1 + g, 1.0], atol=0.1)
