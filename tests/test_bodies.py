"""Network bodies: their definitions in PyTorch, their place in recipes, and files from before they were parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import gemrl
from gemrl.agents.learner import init_learner
from gemrl.agents.networks.actor_critic import descend
from gemrl.agents.networks.bodies import build
from gemrl.agents.networks.perceptron import MLP
from gemrl.agents.networks.residual import ResidualNetwork
from gemrl.algorithms.activations import ELU, ReLU, Tanh
from gemrl.algorithms.bodies import Body, Perceptron, Residual
from gemrl.algorithms.registry import GEM, RECIPES, Recipe, difference
from gemrl.core.exceptions import BadValue, UnknownName
from gemrl.core.layout import Layout
from tests.conftest import SMALL

torch = pytest.importorskip("torch")

LAYOUT = Layout((3,), 2)


def test_residual_network_equals_its_definition_in_pytorch() -> None:
    """Outputs and gradients, on JAX arrays; outputs on numpy arrays."""
    network = build(Residual(width=6, blocks=2), np.random.default_rng(0), 4, 3)
    assert isinstance(network, ResidualNetwork)
    rng = np.random.default_rng(1)
    network = jax.tree.map(lambda leaf: (leaf + 0.1 * rng.standard_normal(leaf.shape)).astype(np.float32), network)
    x, target = rng.standard_normal((5, 4)).astype(np.float32), rng.standard_normal((5, 3)).astype(np.float32)
    leaves, structure = jax.tree.flatten(network)
    theirs = jax.tree.unflatten(structure, [torch.tensor(leaf, requires_grad=True) for leaf in leaves])

    def normed(layer: Any, value: Any) -> Any:
        return torch.nn.functional.layer_norm(value, value.shape[-1:], layer.scale, layer.shift)

    hidden = torch.tensor(x) @ theirs.entry.weight + theirs.entry.bias
    for block in theirs.blocks:
        inner = torch.relu(normed(block.first, hidden) @ block.first.weight + block.first.bias)
        hidden = hidden + inner @ block.second.weight + block.second.bias
    output = normed(theirs.output, hidden) @ theirs.output.weight + theirs.output.bias
    ((output - torch.tensor(target)) ** 2).sum().backward()

    np.testing.assert_allclose(network(x), output.detach(), rtol=1e-4, atol=1e-5)
    gradient = jax.grad(lambda network: ((network(jnp.array(x)) - target) ** 2).sum())(jax.tree.map(jnp.array, network))
    for ours, leaf in zip(jax.tree.leaves(gradient), jax.tree.leaves(theirs, is_leaf=torch.is_tensor), strict=True):
        np.testing.assert_allclose(ours, leaf.grad, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("body", [Perceptron((8, 6)), Perceptron((8,), layer_norm=False), Residual(8, 1)], ids=repr)
def test_least_weights_is_a_lower_bound(body: Body) -> None:
    network = build(body, np.random.default_rng(0), 5, 2)
    assert 0 < body.least_weights(5) <= sum(leaf.size for leaf in jax.tree.leaves(network))


@pytest.mark.parametrize("model", [gemrl.GEM, gemrl.SAC])
def test_a_residual_body_trains_and_is_saved(model: type[gemrl.Model], tmp_path: Path) -> None:
    fields = {name: value for name, value in SMALL.items() if name != "net_arch"}
    trained = model("Pendulum-v1", seed=0, body=Residual(width=8, blocks=1), **fields)
    before = trained.get_parameters()
    trained.learn(150)
    after = trained.get_parameters()
    assert all((after[name] != before[name]).any() for name in after if name.startswith(("actor.", "critics.")))
    trained.save(tmp_path / "model")
    again = gemrl.load(tmp_path / "model")
    assert again.recipe.settable()["body"] == Residual(width=8, blocks=1)
    for name, array in again.get_parameters().items():
        np.testing.assert_array_equal(array, after[name])


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize(
    ("activation", "theirs"),
    [(ReLU(), torch.relu), (ELU(), torch.nn.functional.elu), (Tanh(), torch.tanh)],
    ids=["ReLU", "ELU", "Tanh"],
)
def test_activations_equal_pytorch(activation: Any, theirs: Any, norm_first: bool) -> None:
    """In the plain form and in the fast one, which does not exist with the norm first."""
    network: Any = build(Perceptron((8, 6), activation=activation, norm_first=norm_first), np.random.default_rng(0), 5, 2)
    x = np.random.default_rng(1).normal(size=(7, 5)).astype(np.float32)
    hidden = torch.tensor(x)
    for layer in network.layers[:-1]:
        hidden = hidden @ torch.tensor(layer.weight) + torch.tensor(layer.bias)
        hidden = hidden if norm_first else theirs(hidden)
        hidden = torch.nn.functional.layer_norm(hidden, hidden.shape[1:])
        hidden = theirs(hidden) if norm_first else hidden
    expected = hidden @ torch.tensor(network.layers[-1].weight) + torch.tensor(network.layers[-1].bias)
    for form in (network, network.fast()):
        np.testing.assert_allclose(form(jnp.array(x)), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(network(x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", [gemrl.GEM, gemrl.SAC])
def test_critics_use_the_activation_in_every_form(model: type[gemrl.Model], tmp_path: Path) -> None:
    made = model("Pendulum-v1", seed=0, activation=Tanh(), **SMALL)
    critics: Any = made.agent.learner.critics
    rng = np.random.default_rng(0)
    s, a = (jnp.array(rng.normal(size=(5, size)), jnp.float32) for size in (3, 1))
    np.testing.assert_allclose(critics.fast().values(s, a), critics(s, a), rtol=1e-4, atol=1e-5)
    assert all(critic.activation == Tanh() for critic in critics.members)
    made.save(tmp_path / "model")
    assert gemrl.load(tmp_path / "model").recipe.settable()["activation"] == Tanh()


def test_settings_reach_into_the_body() -> None:
    assert GEM.but(net_arch=64).body == Perceptron((64,))
    assert GEM.but_from_text([("body", "Residual(width=64, blocks=1)"), ("blocks", "3")]).body == Residual(64, 3)
    assert difference(GEM, GEM.but(layer_norm=False)) == {"layer_norm": (True, False)}
    with pytest.raises(UnknownName):
        GEM.but(body=Residual()).but(net_arch=(8,))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"net_arch": (0,)}, "a width in net_arch must be a whole number"),
        ({"layer_norm": 1}, "layer_norm must be True or False"),
        ({"activation": "tanh"}, "activation must be ReLU or ELU or Tanh, not 'tanh'"),
        ({"body": 3}, "body must be Perceptron or Residual"),
    ],
)
def test_wrong_bodies_are_refused(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(BadValue, match=message):
        GEM.but(**setting)


@pytest.mark.parametrize("action_twice", [False, True])
def test_without_hidden_layers_networks_are_linear(action_twice: bool) -> None:
    """In the plain form and in the fast one."""
    learner = init_learner(GEM.but(net_arch=(), action_twice=action_twice), LAYOUT, seed=1)
    rng = np.random.default_rng(0)
    s, a = (rng.normal(size=(5, n)).astype(np.float32) for n in (LAYOUT.size, LAYOUT.action))
    layers = [member.layers[0] for member in learner.critics.members if isinstance(member, MLP)]
    expected = [np.concatenate([s, a], axis=1) @ layer.weight + layer.bias for layer in layers]
    for critics in (learner.critics, learner.critics.fast().values):
        np.testing.assert_allclose(critics(jnp.array(s), jnp.array(a)), np.stack(expected)[..., 0], rtol=1e-4, atol=1e-5)
    assert isinstance(learner.actor.body, MLP)
    (layer,) = learner.actor.body.layers
    for actor in (learner.actor, learner.actor.fast()):
        np.testing.assert_allclose(actor(jnp.array(s)), np.tanh(s @ layer.weight + layer.bias), rtol=1e-4, atol=1e-5)


def test_a_recipe_from_before_bodies_is_read() -> None:
    """Its JSON has the fields of the perceptron at the top level."""
    old = {name: value for name, value in RECIPES["gem-released"].as_dict().items() if name != "body"}
    old |= {"net_arch": [32, 24], "layer_norm": True, "norm_first": True, "action_twice": True}
    assert Recipe.from_dict(json.loads(json.dumps(old))).body == Perceptron((32, 24), norm_first=True, action_twice=True)


def test_a_body_is_written_as_its_name_and_its_fields() -> None:
    """So that files only gained a field, and reports name the fields that differ."""
    written = json.loads(json.dumps(GEM.but(net_arch=(8, 8)).as_dict()))
    assert {name: written[name] for name in ("body", "net_arch", "layer_norm")} == {
        "body": "Perceptron",
        "net_arch": [8, 8],
        "layer_norm": True,
    }
    residual = GEM.but(body=Residual(32, 3))
    shuffled = dict(sorted(residual.as_dict().items(), reverse=True))
    assert Recipe.from_dict(shuffled) == residual


@pytest.mark.parametrize("max_norm", [0.0, 1e-3, 1e3])
def test_gradients_are_clipped_as_by_pytorch(max_norm: float) -> None:
    """By plain gradient descent, whose steps are as long as the gradients."""
    torch = pytest.importorskip("torch")
    weight = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    theirs = torch.tensor(weight, requires_grad=True)
    (theirs**2).sum().backward()
    if max_norm:
        torch.nn.utils.clip_grad_norm_([theirs], max_norm)
    optimizer = optax.sgd(1.0)
    ours, _, loss = descend(optimizer, lambda x: ((x**2).sum(), ()), jnp.array(weight), optimizer.init(weight), max_norm)
    np.testing.assert_allclose(ours, weight - theirs.grad.numpy(), rtol=1e-5, atol=1e-6)
    assert float(loss) == pytest.approx((weight**2).sum(), rel=1e-5)
