"""Gaussian policies in GEM compared with PyTorch's distributions, autograd and Adam, and on probe environments."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

from gemrl.agents.continuous import FAMILY, gradient_step
from gemrl.agents.learner import init_learner
from gemrl.algorithms.distributions import Deterministic, Gaussian
from gemrl.core.exceptions import BadValue
from gemrl.training.models import GEM
from tests import probes
from tests.compiled import draw_randomness, state_values
from tests.conftest import SMALL
from tests.test_continuous import LAYOUT, A, D, forward, random_memory, small, torch_arrays
from tests.test_soft import squashed

torch = pytest.importorskip("torch")

RECIPE = small("gem", distribution=Gaussian(entropy=0.7, temperature=0.3), layer_norm=False)


def q(critics: dict[str, Any], state: Any, action: Any) -> Any:
    """The values of four critics, by PyTorch [4, B]."""
    both = torch.cat([state, action], -1)
    return torch.stack([forward(critics, f"critics.{number}", both)[:, 0] for number in range(4)])


def test_gradient_steps_equal_pytorch() -> None:
    """Critics after four updates, actor and temperature, which are updated every second time."""
    memory, learner = random_memory(), init_learner(RECIPE, LAYOUT, seed=3)
    actor, critics = torch_arrays(learner.actor, "actor"), torch_arrays(learner.critics, "critics")
    log_temperature = torch.tensor(np.log(0.3), dtype=torch.float32, requires_grad=True)
    groups = critics.values(), actor.values(), [log_temperature]
    optimizers = [torch.optim.Adam(group, lr=RECIPE.learning_rate) for group in groups]

    def update(which: int, loss: Any) -> None:
        optimizers[which].zero_grad()
        loss.backward()
        optimizers[which].step()

    for step in range(1, 5):
        randomness = draw_randomness(RECIPE, memory, jax.random.key(step))
        lane, position = (x[0] for x in randomness.rows[:2])
        states, actions = (torch.tensor(np.array(x[lane, position])) for x in (memory.rows.observation, memory.rows.action))
        returns = torch.tensor(np.array(memory.planned[:, lane, position])).repeat_interleave(2, dim=0)
        noise = torch.tensor(np.array(randomness.policy))
        delta = q(critics, states, actions) - returns
        update(0, (delta.clamp(min=0) ** 2 + 0.25 * (-delta).clamp(min=0) ** 2).mean(-1).sum())
        if step % 2 == 0:
            action, density = squashed(actor, states, noise)
            update(1, (log_temperature.detach().exp() * density - q(critics, states, action).mean(0)).mean())
            update(2, -(log_temperature * (density.detach() - 0.7 * A)).mean())
        learner, _ = jax.jit(gradient_step, static_argnums=0)(RECIPE, memory, learner, randomness)
    ours = torch_arrays(learner.actor, "actor") | torch_arrays(learner.critics, "critics")
    for name, theirs in (actor | critics).items():
        np.testing.assert_allclose(ours[name].detach(), theirs.detach(), rtol=1e-3, atol=2e-5, err_msg=name)
    assert learner.temperature is not None
    np.testing.assert_allclose(learner.temperature.log, log_temperature.detach(), rtol=1e-4)


def test_state_values_are_those_of_drawn_actions() -> None:
    learner = init_learner(RECIPE, LAYOUT, seed=3)
    rng = np.random.default_rng(0)
    states, noise = rng.normal(size=(7, D)).astype(np.float32), rng.normal(size=(7, A)).astype(np.float32)
    actor, critics = torch_arrays(learner.target_actor, "actor"), torch_arrays(learner.target_critics, "critics")
    action, _ = squashed(actor, torch.tensor(states), torch.tensor(noise))
    expected = q(critics, torch.tensor(states), action).reshape(2, 2, 7).min(dim=1).values.detach()
    np.testing.assert_allclose(state_values(RECIPE, learner, states, noise), expected, rtol=1e-4, atol=1e-5)


def test_actions_are_drawn_from_the_policy_unless_deterministic() -> None:
    learner = init_learner(RECIPE, LAYOUT, seed=3)
    states = np.random.default_rng(0).normal(size=(20_000, D)).astype(np.float32) * 0 + 0.5
    actor = torch_arrays(learner.actor, "actor")
    mean, log_std = (x.detach().numpy() for x in forward(actor, "actor", torch.tensor(states[:1])).chunk(2, dim=-1))
    policy = FAMILY.policy_of(learner)
    np.testing.assert_allclose(FAMILY.act(RECIPE, policy, states[:1]), np.tanh(mean), rtol=1e-5)
    drawn = FAMILY.explore(RECIPE, policy, states, 0, np.random.default_rng(1))
    before = np.arctanh(drawn.astype(np.float64))
    np.testing.assert_allclose(before.mean(axis=0), mean[0], atol=0.03)
    np.testing.assert_allclose(before.std(axis=0), np.exp(log_std[0]), rtol=0.03)


PROBE: dict[str, Any] = SMALL | {"net_arch": (32, 32), "learning_rate": 3e-3, "learning_starts": 300, "buffer_size": 2000}
PROBE |= {"train_freq": 100, "gradient_steps": 100, "target_update_interval": 100, "batch_size": 64}


def test_values_of_a_probe_have_no_entropy_in_them() -> None:
    """Q(1) = 1 and Q(0) = gamma, whatever the temperature is."""
    model = GEM(probes.Delayed(), seed=1, gamma=0.5, distribution=Gaussian(), **PROBE).learn(1500)
    states, zeros = np.array([[0.0], [1.0]], np.float32), np.zeros((2, 1), np.float32)
    np.testing.assert_allclose(model.agent.values(states, zeros), [0.5, 1.0], atol=0.1)


@pytest.mark.parametrize("entropy", [0.2, 1.0])
def test_the_entropy_of_the_policy_comes_near_its_target(entropy: float) -> None:
    """On a probe whose best action is 1, half of the bound."""
    model = GEM(probes.ActionDependent(), seed=1, distribution=Gaussian(entropy), **PROBE).learn(4000)
    learner = model.agent.learner
    noise = jax.random.normal(jax.random.key(0), (4000, 1))
    action, density = learner.actor.draw_with_density(np.zeros((4000, 1), np.float32), noise)
    assert float(-density.mean()) == pytest.approx(-entropy, abs=0.25)
    assert float(action.mean()) == pytest.approx(0.5, abs=0.15)


def test_deterministic_policies_have_no_temperature() -> None:
    learner = init_learner(small("gem"), LAYOUT, seed=3)
    assert learner.temperature is None
    assert Deterministic().entropy == 0
    drawn = draw_randomness(small("gem"), random_memory(), jax.random.key(0))
    assert drawn.policy is None


@pytest.mark.parametrize("change", [{"entropy": 0.1}, {"temperature": 1.0}])
def test_every_field_has_an_effect(change: dict[str, Any]) -> None:
    fast = PROBE | {"distribution": Gaussian()}
    before, after = (GEM(probes.ActionDependent(), seed=1, **fast, **x).learn(500).agent.learner for x in ({}, change))
    assert not eqx.tree_equal(before.actor, after.actor)


@pytest.mark.parametrize("fields", [{"entropy": -1.0}, {"temperature": 0.0}])
def test_bad_values_are_refused(fields: dict[str, float]) -> None:
    with pytest.raises(BadValue, match=next(iter(fields))):
        Gaussian(**fields)
