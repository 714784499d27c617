"""Soft actor-critic compared with PyTorch's distributions, autograd and Adam."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemrl.agents.memory.ring import Memory
from gemrl.agents.networks.gaussian import GaussianActor
from gemrl.agents.networks.perceptron import MLP
from gemrl.agents.soft import SoftRandomness, draw_soft_randomness, gradient_step, init_learner
from gemrl.algorithms.bodies import Perceptron
from gemrl.algorithms.registry import SoftRecipe
from gemrl.algorithms.schedules import Linear
from gemrl.training.models import SAC
from tests import probes
from tests.conftest import SMALL
from tests.test_continuous import LAYOUT, A, forward, random_memory, torch_arrays

torch = pytest.importorskip("torch")

RECIPE = SoftRecipe(batch_size=32, tau=0.5).but(net_arch=(16, 16))
step_once = jax.jit(gradient_step, static_argnums=0)


def squashed(actor: dict[str, Any], state: Any, noise: Any) -> tuple[Any, Any]:
    """An action and its log density, from the arrays of an actor."""
    return squashed_output(forward(actor, "actor", state, None), noise)


def squashed_output(output: Any, noise: Any) -> tuple[Any, Any]:
    """The same from the output of a network, by PyTorch's TransformedDistribution."""
    mean, log_std = output.chunk(2, dim=-1)
    normal = torch.distributions.Normal(mean, log_std.clamp(-20, 2).exp())
    distribution = torch.distributions.TransformedDistribution(normal, torch.distributions.TanhTransform(cache_size=1))
    action = torch.tanh(mean + log_std.clamp(-20, 2).exp() * noise)
    return action, distribution.log_prob(action).sum(dim=-1)


def in_torch(memory: Memory, randomness: SoftRandomness) -> tuple[list[Any], list[Any]]:
    """The columns of the drawn rows, and both kinds of noise, as PyTorch's tensors."""
    index = randomness.rows
    columns = [column[index.lane, index.position] for column in memory.rows.columns().values()]
    rows, noise = ([torch.tensor(np.array(x)) for x in arrays] for arrays in (columns, randomness[1:3]))
    return rows, noise


def test_gradient_steps_equal_pytorch() -> None:
    memory, learner = random_memory(pairs=1), init_learner(RECIPE, LAYOUT, seed=3)
    actor, critics = torch_arrays(learner.actor, "actor"), torch_arrays(learner.critics, "critics")
    targets = {name: array.detach().clone() for name, array in critics.items()}
    log_temperature = torch.zeros((), requires_grad=True)
    groups = actor.values(), critics.values(), [log_temperature]
    actor_adam, critic_adam, temperature_adam = (torch.optim.Adam(group, lr=RECIPE.learning_rate) for group in groups)

    def q(arrays: dict[str, Any], state: Any, action: Any) -> Any:
        both = torch.cat([state, action], dim=-1)
        return torch.stack([forward(arrays, f"critics.{number}", both, None)[:, 0] for number in (0, 1)])

    for step in range(3):
        randomness = draw_soft_randomness(RECIPE, memory, jax.random.key(step))
        (state, taken, reward, discount, _, following), (noise, next_noise) = in_torch(memory, randomness)
        temperature = log_temperature.detach().exp()
        _, density = squashed(actor, state, noise)
        temperature_loss = -(log_temperature * (density - A).detach()).mean()
        temperature_adam.zero_grad()
        temperature_loss.backward()
        with torch.no_grad():
            next_action, next_density = squashed(actor, following, next_noise)
            target = reward + discount * (q(targets, following, next_action).min(dim=0).values - temperature * next_density)
        critic_loss = 0.5 * ((q(critics, state, taken) - target) ** 2).mean(dim=-1).sum()
        critic_adam.zero_grad()
        critic_loss.backward()
        critic_adam.step()
        action, density = squashed(actor, state, noise)
        actor_loss = (temperature * density - q(critics, state, action).min(dim=0).values).mean()
        actor_adam.zero_grad()
        actor_loss.backward()
        actor_adam.step()
        temperature_adam.step()
        for name, array in targets.items():
            array.mul_(1 - RECIPE.tau).add_(RECIPE.tau * critics[name].detach())
        learner, losses = step_once(RECIPE, memory, learner, randomness)
        np.testing.assert_allclose(losses[0], critic_loss.detach(), rtol=1e-4)
        np.testing.assert_allclose(losses[1], actor_loss.detach(), rtol=1e-3, atol=1e-5)
    ours = torch_arrays(learner.actor, "actor") | torch_arrays(learner.critics, "critics")
    for name, theirs in (actor | critics).items():
        np.testing.assert_allclose(ours[name].detach(), theirs.detach(), rtol=1e-3, atol=2e-5, err_msg=name)
    for name, moved in torch_arrays(learner.target_critics, "critics").items():
        np.testing.assert_allclose(moved.detach(), targets[name], rtol=1e-3, atol=2e-5, err_msg=name)
    np.testing.assert_allclose(learner.log_temperature, log_temperature.detach(), rtol=1e-4)


def test_the_log_density_is_accurate_where_tanh_is_flat() -> None:
    body = MLP.init(np.random.default_rng(0), Perceptron((4,), layer_norm=False), 1, 2)
    actor = GaussianActor(jax.tree.map(jnp.zeros_like, body))  # a standard normal
    action, density = actor.draw_with_density(jnp.zeros((1, 1)), jnp.full((1, 1), 9.0))
    # log N(9; 0, 1) - log(1 - tanh(9)^2), where the second term equals log 4 - 18 in float32
    assert action[0, 0] > 0.999
    np.testing.assert_allclose(density[0], -0.5 * 81 - 0.5 * np.log(2 * np.pi) - (np.log(4) - 18), rtol=1e-5)


def test_soft_values_of_a_probe() -> None:
    """The last step has reward 1 and no entropy after it, so Q = 1. One step earlier, the entropy of one action is added."""
    gamma = 0.5
    fields: dict[str, Any] = {"net_arch": (32, 32), "learning_rate": 3e-3, "learning_starts": 300, "batch_size": 64, "tau": 0.05}
    fields |= {"train_freq": 100, "gradient_steps": 100}  # fewer rounds are faster
    model = SAC(probes.Delayed(), seed=1, gamma=gamma, buffer_size=2000, **fields).learn(2000)
    states, zeros = np.array([[0.0], [1.0]], np.float32), np.zeros((2, 1), np.float32)
    first, second = model.agent.values(states, zeros)
    assert second == pytest.approx(1.0, abs=0.05)
    # The temperature keeps the policy's entropy at its target, -1; the soft value adds temperature * entropy.
    temperature = float(np.exp(model.agent.learner.log_temperature))
    assert first == pytest.approx(gamma * (1.0 + temperature * -1.0), abs=0.1)


OTHER_VALUES: dict[str, Any] = {
    "gamma": 0.9,
    "learning_rate": 1e-3,
    "buffer_size": 60,
    "learning_starts": 50,
    "batch_size": 8,
    "tau": 0.5,
    "train_freq": 25,
    "gradient_steps": 3,
    "target_update_interval": 3,
    "body": Perceptron((8,), layer_norm=False),
    "n_critics": 2,
    "target_entropy_scale": 0.1,
    "initial_temperature": 0.1,
    "max_grad_norm": 0.1,
    "policy_delay": 2,
    "adam_beta1": 0.5,
    "learning_rate_schedule": Linear(0.1, 200),
    "joint_critics": True,
    "normalize_observations": True,
    "normalize_rewards": True,
}


def policy_after(**fields: Any) -> np.ndarray:
    fast = SMALL | {"learning_rate": 1e-2, "gradient_steps": 20, "target_update_interval": 1, "n_critics": 1}
    model = SAC("InvertedPendulum-v5", seed=0, **(fast | fields)).learn(250)
    return model.agent.act(np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32))


@pytest.fixture(scope="module")
def default_policy() -> np.ndarray:
    return policy_after()


def test_every_field_is_tested() -> None:
    elsewhere = {"hindsight", "overlap", "random_shift"}  # test_hindsight.py, test_overlap.py, test_vision.py
    assert OTHER_VALUES.keys() | elsewhere == {field.name for field in dataclasses.fields(SoftRecipe)}


@pytest.mark.parametrize("name", OTHER_VALUES)
def test_every_field_has_an_effect(name: str, default_policy: np.ndarray) -> None:
    assert not np.array_equal(policy_after(**{name: OTHER_VALUES[name]}), default_policy)


def test_predictions_are_drawn_unless_deterministic() -> None:
    model = SAC("Pendulum-v1", seed=0, **SMALL)
    states = np.zeros((2, 3))
    assert not np.array_equal(model.predict(states)[0], model.predict(states)[0])
    np.testing.assert_array_equal(model.predict(states, deterministic=True)[0], model.predict(states, deterministic=True)[0])
