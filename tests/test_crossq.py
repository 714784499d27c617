"""CrossQ compared with PyTorch's BatchNorm, distributions, autograd and Adam."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemrl.agents.networks.batch_norm import EPSILON, BatchNormNetwork, Norm
from gemrl.agents.soft import draw_soft_randomness, gradient_step, init_learner
from gemrl.algorithms.bodies import BatchRenormalized
from gemrl.algorithms.recipes.soft import CROSSQ
from gemrl.core.exceptions import BadValue
from gemrl.training.models import MODELS
from tests import probes
from tests.test_continuous import LAYOUT, A, random_memory
from tests.test_soft import in_torch, squashed_output

torch = pytest.importorskip("torch")

WIDTHS = (16, 12)
RECIPE = CROSSQ.but(batch_size=32, net_arch=WIDTHS)


class Theirs(torch.nn.Module):  # type: ignore[name-defined]
    """The same network from PyTorch's modules, whose BatchNorm1d keeps 1 - momentum of the old statistics."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        sizes = [len(norm.scale) for norm in network.norms]
        norms = [torch.nn.BatchNorm1d(size, eps=EPSILON, momentum=1 - network.body.momentum) for size in sizes]
        self.norms = torch.nn.ModuleList(norms)
        self.linears = torch.nn.ModuleList(torch.nn.Linear(*layer.weight.shape) for layer in network.layers)
        with torch.no_grad():
            for linear, layer in zip(self.linears, network.layers, strict=True):
                linear.weight.copy_(torch.tensor(np.array(layer.weight)).T)
                linear.bias.copy_(torch.tensor(np.array(layer.bias)))

    def forward(self, x: Any) -> Any:
        for number, (norm, linear) in enumerate(zip(self.norms, self.linears, strict=True)):
            x = linear(norm(torch.relu(x) if number else x))
        return x

    def rescale(self) -> None:
        """Scales the weights into each hidden unit to norm 1."""
        with torch.no_grad():
            for linear in list(self.linears)[:-1]:
                linear.weight.copy_(torch.nn.functional.normalize(linear.weight, dim=1))

    def check(self, network: Any, rows: int) -> None:
        """Both have the same weights and running statistics; PyTorch's running variance has Bessel's correction."""
        for linear, layer in zip(self.linears, network.layers, strict=True):
            np.testing.assert_allclose(layer.weight, linear.weight.detach().T, rtol=2e-3, atol=5e-5)
        for norm, ours in zip(self.norms, network.norms, strict=True):
            np.testing.assert_allclose(ours.scale, norm.weight.detach(), rtol=2e-3, atol=5e-5)
            np.testing.assert_allclose(ours.shift, norm.bias.detach(), rtol=2e-3, atol=5e-5)
            np.testing.assert_allclose(ours.mean, norm.running_mean, rtol=1e-3, atol=1e-5)
            first = 0.99 ** int(norm.num_batches_tracked)  # what is left of the initial variance of 1
            variance = (norm.running_var - first) * (rows - 1) / rows + first
            np.testing.assert_allclose(ours.variance, variance, rtol=1e-3, atol=1e-5)


def plainly_normalized(norm: Norm, x: Any, corrected: bool) -> Any:
    """The definition of batch renormalization (Ioffe, 2017), to be differentiated automatically."""
    deviation, running = jnp.sqrt(x.var(axis=0) + EPSILON), jnp.sqrt(norm.variance + EPSILON)
    r = jnp.clip(deviation / running, 1 / 3, 3) if corrected else 1.0
    d = jnp.clip((x.mean(axis=0) - norm.mean) / running, -5, 5) if corrected else 0.0
    r, d = jax.lax.stop_gradient((r, d))
    return ((x - x.mean(axis=0)) / deviation * r + d) * norm.scale + norm.shift


@pytest.mark.parametrize("corrected", [False, True])
def test_gradient_in_closed_form_equals_automatic_differentiation(corrected: bool) -> None:
    x, slope, scale, shift, mean = jax.random.normal(jax.random.key(0), (5, 32, 6))
    norm = Norm(scale[0], shift[0], mean[0], jnp.linspace(0.5, 2.0, 6))
    x = 3 + x * jnp.logspace(-2, 1, 6)  # features far from zero, of scales far apart

    def ours(norm: Norm, x: Any) -> Any:
        return (norm.training(x, jnp.array(corrected))[0] * slope).sum()

    def plain(norm: Norm, x: Any) -> Any:
        return (plainly_normalized(norm, x, corrected) * slope).sum()

    np.testing.assert_allclose(ours(norm, x), plain(norm, x), rtol=1e-4)
    (found, found_x), (expected, expected_x) = (jax.grad(f, argnums=(0, 1))(norm, x) for f in (ours, plain))
    for part in ("scale", "shift"):
        np.testing.assert_allclose(getattr(found, part), getattr(expected, part), rtol=1e-3, atol=1e-4)
    size = np.abs(expected_x).max(axis=0)
    np.testing.assert_allclose(found_x / size, expected_x / size, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("unit_weights", [False, True])
def test_gradient_steps_equal_pytorch(unit_weights: bool) -> None:
    """Three updates of the critics and one of actor and temperature, with the warm-up's plain batch normalization."""
    recipe = RECIPE.but(unit_weights=unit_weights)
    memory, learner = random_memory(pairs=1), init_learner(recipe, LAYOUT, seed=3)
    actor, critics = Theirs(learner.actor.body), [Theirs(member) for member in learner.critics.members]
    log_temperature = torch.zeros((), requires_grad=True)
    parameters = [parameter for critic in critics for parameter in critic.parameters()]
    critic_adam, actor_adam = (torch.optim.Adam(x, lr=1e-3, betas=(0.5, 0.999)) for x in (parameters, actor.parameters()))
    temperature_adam = torch.optim.Adam([log_temperature], lr=1e-3)
    for step in (1, 2, 3):
        randomness = draw_soft_randomness(recipe, memory, jax.random.key(step))
        (state, taken, reward, discount, _, following), (noise, next_noise) = in_torch(memory, randomness)
        temperature = log_temperature.detach().exp()
        actor.eval()
        with torch.no_grad():
            next_action, next_density = squashed_output(actor(following), next_noise)
        both = torch.cat([torch.cat([state, taken], -1), torch.cat([following, next_action], -1)])
        q, next_q = torch.stack([critic.train()(both)[:, 0] for critic in critics]).chunk(2, dim=-1)
        target = reward + discount * (next_q.detach().min(dim=0).values - temperature * next_density)
        critic_adam.zero_grad()
        (0.5 * ((q - target) ** 2).mean(dim=-1).sum()).backward()
        critic_adam.step()
        if unit_weights:
            for critic in critics:
                critic.rescale()
        if step == 3:
            _, density = squashed_output(actor(state), noise)
            temperature_adam.zero_grad()
            (-(log_temperature * (density - A).detach()).mean()).backward()
            actor.train()
            action, density = squashed_output(actor(state), noise)
            q = torch.stack([critic.eval()(torch.cat([state, action], -1))[:, 0] for critic in critics])
            actor_adam.zero_grad()
            (temperature * density - q.min(dim=0).values).mean().backward()
            actor_adam.step()
            if unit_weights:
                actor.rescale()
            temperature_adam.step()
        learner, _ = jax.jit(gradient_step, static_argnums=0)(recipe, memory, learner, randomness)
    actor.check(learner.actor.body, recipe.batch_size)
    for theirs, ours in zip(critics, learner.critics.members, strict=True):
        theirs.check(ours, 2 * recipe.batch_size)
    np.testing.assert_allclose(learner.log_temperature, log_temperature.detach(), rtol=1e-4)


def test_renormalization_by_its_definition() -> None:
    """After the warm-up: (x - mean) / deviation * r + d, with r and d bounded (Ioffe, 2017, Algorithm 1)."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(64, 3)) * [1.0, 10.0, 1.5] + [0.5, 0.0, 20.0]).astype(np.float32)
    norm = Norm(*(jnp.array(v, jnp.float32) for v in ([1, 2, 3], [0, 1, 2], [0.4, 0.2, 0.0], [1, 1, 1])))
    ours, (mean, variance) = norm.training(jnp.array(x), jnp.array(True))
    running = np.sqrt(1 + EPSILON)
    deviation = np.sqrt(x.var(axis=0) + EPSILON)
    r, d = np.clip(deviation / running, 1 / 3, 3), np.clip((x.mean(axis=0) - [0.4, 0.2, 0.0]) / running, -5, 5)
    assert r[1] == 3  # one feature reaches each bound
    assert d[2] == 5
    np.testing.assert_allclose(ours, ((x - x.mean(axis=0)) / deviation * r + d) * [1, 2, 3] + [0, 1, 2], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(mean, x.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(variance, x.var(axis=0), rtol=1e-4)


@pytest.mark.parametrize(("updates", "corrected"), [(9, False), (10, True)])
def test_the_correction_begins_after_the_warm_up(updates: int, corrected: bool) -> None:
    network = BatchNormNetwork.init(np.random.default_rng(0), BatchRenormalized((4,), warm_up=10), 2, 1)
    network = eqx.tree_at(lambda x: x.updates, jax.tree.map(jnp.array, network), jnp.float32(updates))
    x = jnp.array(np.random.default_rng(1).normal(2.0, 3.0, size=(32, 2)), jnp.float32)
    first, _ = network.norms[0].training(x, jnp.array(corrected))
    hidden, _ = network.norms[1].training(jnp.maximum(network.layers[0].linear(first), 0), jnp.array(corrected))
    output, (_, counted) = network.training(x)
    np.testing.assert_allclose(output, network.layers[1].linear(hidden), rtol=1e-5)
    assert counted == updates + 1


def test_the_fast_form_uses_the_running_statistics() -> None:
    network = BatchNormNetwork.init(np.random.default_rng(0), BatchRenormalized(WIDTHS), 5, 2)
    rng = np.random.default_rng(1)
    norms = tuple(Norm(*(rng.uniform(0.5, 2, len(norm.scale)).astype(np.float32) for _ in range(4))) for norm in network.norms)
    network = eqx.tree_at(lambda x: x.norms, network, norms)
    x = rng.normal(size=(7, 5)).astype(np.float32)
    expected = x
    for number, (norm, layer) in enumerate(zip(norms, network.layers, strict=True)):
        expected = np.maximum(expected, 0) if number else expected
        expected = (expected - norm.mean) / np.sqrt(norm.variance + EPSILON) * norm.scale + norm.shift
        expected = expected @ layer.weight + layer.bias
    np.testing.assert_allclose(network(x), expected, rtol=1e-4, atol=1e-5)


class Following(probes.ObservationDependent):
    """Reward -(action - observation)^2: the best action is the observation, +1 or -1. Minibatches need observations that vary."""

    def answer(self, action: float) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return self.seen, -((action - float(self.seen[0])) ** 2), True, False, {}


def test_it_learns_a_probe() -> None:
    fields: dict[str, Any] = {"net_arch": (32, 32), "learning_starts": 300, "batch_size": 64, "buffer_size": 4000}
    fields |= {"train_freq": 100, "gradient_steps": 100, "target_entropy_scale": 2.0, "momentum": 0.95}
    model = MODELS["crossq-512"](Following(), seed=1, **fields).learn(3000)
    for best in (-1.0, 1.0):
        action, _ = model.predict(np.array([best], np.float32), deterministic=True)
        # Six seeds were up to 0.28 away; an untrained policy is about 1 away.
        assert float(action[0]) == pytest.approx(best, abs=0.5)


@pytest.mark.parametrize("fields", [{"momentum": 1.5}, {"warm_up": -1}, {"net_arch": (0,)}, {"unit_weights": 1}])
def test_bad_values_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(BadValue, match=next(iter(fields))):
        BatchRenormalized(**fields)
