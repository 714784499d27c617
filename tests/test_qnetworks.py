"""Q-networks for discrete actions, compared with PyTorch."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemrl.agents.networks.convolution import NATURE, SMALL, Convolution, Filters, filters_for
from gemrl.agents.networks.q_networks import QNetworks, as_input
from gemrl.algorithms.recipes.discrete import IMAGES as PRESET
from gemrl.algorithms.registry import RECIPES
from gemrl.core.layout import Layout

torch = pytest.importorskip("torch")

ATARI = Layout((4, 84, 84), 1, 6, "uint8", frames=4)
MINATAR = Layout((10, 10, 4), 1, 3, "bool")
VECTOR = Layout((5,), 1, 3)


@pytest.mark.parametrize(
    ("shape", "filters"), [((2, 84, 84, 4), NATURE[0]), ((3, 20, 20, 8), NATURE[1]), ((3, 9, 9, 5), SMALL[0])]
)
def test_convolutions_and_their_gradients_equal_pytorch(shape: tuple[int, ...], filters: Filters) -> None:
    rng = np.random.default_rng(0)
    own = Convolution.init(rng, shape[-1], filters)
    x = rng.normal(size=shape).astype(np.float32)
    theirs = torch.nn.Conv2d(shape[-1], filters.number, filters.size, filters.stride)
    kernel = own.layer.weight.reshape(filters.size, filters.size, shape[-1], filters.number).transpose(3, 2, 0, 1)
    with torch.no_grad():
        theirs.weight.copy_(torch.tensor(kernel.copy()))
        theirs.bias.copy_(torch.tensor(own.layer.bias))
    inputs = torch.tensor(x.transpose(0, 3, 1, 2).copy(), requires_grad=True)
    expected = torch.relu(theirs(inputs))
    np.testing.assert_allclose(own(x), expected.detach().numpy().transpose(0, 2, 3, 1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(jax.jit(own.__call__)(jnp.array(x)), own(x), rtol=1e-4, atol=1e-5)
    (expected**2).sum().backward()
    gradients = jax.jit(jax.grad(lambda layer, x: (layer(x) ** 2).sum(), argnums=(0, 1)))(own, jnp.array(x))
    weight = theirs.weight.grad.numpy().transpose(2, 3, 1, 0).reshape(own.layer.weight.shape)
    np.testing.assert_allclose(gradients[0].layer.weight, weight, rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(gradients[0].layer.bias, theirs.bias.grad, rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(gradients[1], inputs.grad.numpy().transpose(0, 2, 3, 1), rtol=1e-3, atol=1e-3)


def test_networks_fit_the_observations() -> None:
    assert (filters_for(ATARI), filters_for(MINATAR), filters_for(VECTOR)) == (NATURE, SMALL, ())
    assert filters_for(Layout((3, 96, 96), 1, 5, "uint8")) == NATURE
    rng = np.random.default_rng(0)
    for layout in (ATARI, MINATAR, VECTOR, Layout((1,), 1, 4, "int32", states=7), Layout((40, 40, 3), 1, 2)):
        networks = QNetworks.init(rng, 3, layout, (16,), dueling=False)
        seen = rng.integers(0, 2, (2, *layout.observation)).astype(layout.dtype)
        assert networks(seen).shape == (3, 2, layout.choices)
        np.testing.assert_allclose(networks(jnp.array(seen)), networks(seen), atol=1e-5)


def test_the_nature_network_has_the_published_number_of_parameters() -> None:
    """Mnih et al. (2015): 8,224 + 32,832 + 36,928 in convolutions, then 3,136 x 512."""
    networks = QNetworks.init(np.random.default_rng(0), 1, ATARI, (512,), dueling=False)
    convolutions = [sum(x.size for x in jax.tree.leaves(layer)) for layer in networks.members[0].convolutions]
    assert convolutions == [8224, 32832, 36928]
    assert sum(x.size for x in jax.tree.leaves(networks)) == sum(convolutions) + 3137 * 512 + 513 * 6


def test_images_are_converted_to_height_width_channels() -> None:
    rng = np.random.default_rng(0)
    stack = rng.integers(0, 255, (2, 4, 84, 84), dtype=np.uint8)
    np.testing.assert_array_equal(as_input(ATARI, stack), stack.transpose(0, 2, 3, 1))
    screen = rng.integers(0, 2, (2, 10, 10, 4)).astype(bool)
    np.testing.assert_array_equal(as_input(MINATAR, screen), screen)
    np.testing.assert_array_equal(as_input(Layout((1,), 1, 2, "int32", states=3), np.array([[2], [0]])), [[0, 0, 1], [1, 0, 0]])


@pytest.mark.parametrize(
    ("observation", "image"),
    [
        ((84, 84, 3), (84, 84, 3)),
        ((3, 84, 84), (84, 84, 3)),
        ((10, 10, 4), (10, 10, 4)),
        ((4, 4, 16), (4, 4, 16)),  # a board with more channels than rows
        ((16, 4, 4), (4, 4, 16)),
        ((210, 160, 3), (210, 160, 3)),
        ((3, 210, 160), (210, 160, 3)),
    ],
)
def test_the_channel_axis_is_found(observation: tuple[int, ...], image: tuple[int, ...]) -> None:
    assert Layout(observation, 1, 4, "uint8").image == image


def test_presets_do_not_depend_on_the_order_of_axes() -> None:
    orders = [RECIPES["dqn"].for_environment("", Layout(shape, 1, 4, "uint8")) for shape in ((96, 96, 3), (3, 96, 96))]
    assert orders[0] == orders[1] == RECIPES["dqn"].but(**PRESET)


def test_networks_are_initialized_differently() -> None:
    networks = QNetworks.init(np.random.default_rng(0), 4, VECTOR, (8, 8), dueling=True)
    flat = [np.concatenate([np.ravel(x) for x in jax.tree.leaves(member)]) for member in networks.members]
    assert all(np.abs(a - b).max() > 0.1 for i, a in enumerate(flat) for b in flat[:i])


def test_dueling_subtracts_the_mean_advantage() -> None:
    network = QNetworks.init(np.random.default_rng(1), 1, VECTOR, (8, 6), dueling=True).members[0]
    x = np.random.default_rng(2).normal(size=(4, 5)).astype(np.float32)
    hidden = np.maximum(x @ network.trunk[0].weight + network.trunk[0].bias, 0)

    def stream(number: int) -> np.ndarray:
        first, last = network.streams[number].layers
        return np.maximum(hidden @ first.weight + first.bias, 0) @ last.weight + last.bias

    value, advantage = stream(0), stream(1)
    assert (value.shape, advantage.shape) == ((4, 1), (4, 3))
    np.testing.assert_allclose(network(x), value + advantage - advantage.mean(axis=1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(network(x).mean(axis=1), value[:, 0], rtol=1e-4)
