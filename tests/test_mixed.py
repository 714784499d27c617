"""Dict observations with an image and numbers: how they are packed, stored, seen by networks, exported and learned from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import gemrl
from gemrl.agents.discrete_learner import init_learner
from gemrl.agents.networks.q_networks import as_input, inputs_of
from gemrl.agents.networks.vision import FEATURES, Vision, shifted
from gemrl.algorithms.registry import RECIPES
from gemrl.core.exceptions import BadValue, EnvironmentFault, UnsupportedSpace
from gemrl.core.layout import Layout
from gemrl.core.packing import pack, unpack
from gemrl.envs.checking import checked_observation
from gemrl.envs.spaces import Spaces
from gemrl.training.export.formats import FORMATS
from gemrl.training.models import MODELS
from tests.test_export import runner
from tests.test_masks import ACTIONS, Doors

CAMERA = spaces.Dict(
    {
        "arm": spaces.Box(-2, 2, (2,)),
        "camera": spaces.Box(0, 255, (9, 8, 3), np.uint8),
        "tool": spaces.Discrete(3, start=1),
    }
)
STICK, BUTTONS = spaces.Box(-1, 1, (2,)), spaces.Discrete(3)
PIXELS = 9 * 8 * 3
BITS: Any = np.bool_
IMAGE_OF_BITS = spaces.Box(0, 1, (9, 9, 2), BITS)
LAYOUT = Layout((PIXELS + 4 * 5,), 2, dtype="uint8", picture=(9, 8, 3))


class Both(gym.Env):
    """Ten steps; the best action is the place of a bright column, moved by a number beside the image."""

    observation_space = spaces.Dict({"shift": spaces.Box(-1, 1, (1,)), "view": spaces.Box(0, 255, (9, 9, 1), np.uint8)})

    def __init__(self, *, discrete: bool = False) -> None:
        self.action_space = BUTTONS if discrete else spaces.Box(-1, 1, (1,))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        wanted = (self.column - 4) / 4 * 0.5 + 0.5 * self.shift
        chosen = float(action) - 1 if self.action_space is BUTTONS else float(action[0])
        self.time += 1
        return self._observe(), -abs(chosen - wanted), self.time == 10, False, {}

    def _observe(self) -> dict[str, Any]:
        self.column, self.shift = int(self.np_random.integers(9)), float(self.np_random.uniform(-1, 1))
        view = np.zeros((9, 9, 1), np.uint8)
        view[:, self.column] = 255
        return {"shift": np.array([self.shift], np.float32), "view": view}


def samples(space: gym.Space, count: int) -> list[Any]:
    space.seed(0)
    return [space.sample() for _ in range(count)]


def test_an_image_comes_first_and_numbers_follow() -> None:
    own = Spaces(CAMERA, STICK)
    assert own.layout == LAYOUT
    assert [entry.path for entry in own.entries] == [("camera",), ("arm",), ("tool",)]
    assert (own.layout.numbers, own.layout.values, own.layout.image) == (5, PIXELS + 5, (9, 8, 3))
    for one in samples(CAMERA, 5):
        pixels, numbers = unpack(own.agent_observation(one), PIXELS)
        np.testing.assert_array_equal(pixels, one["camera"].reshape(-1))
        np.testing.assert_array_equal(numbers, [*one["arm"], *(one["tool"] == np.array([1, 2, 3]))])


@settings(deadline=None)
@given(arrays(np.float32, (3, 4), elements=st.floats(width=32, allow_nan=False)))
def test_numbers_keep_every_bit(numbers: np.ndarray) -> None:
    image = np.arange(3 * 7).reshape(3, 7)
    packed = pack(np.concatenate([image, numbers], axis=1, dtype=np.float64), 7)
    pixels, found = unpack(packed, 7)
    np.testing.assert_array_equal(pixels, image)
    assert found.tobytes() == numbers.tobytes()
    layout = Layout((packed.shape[1],), 1, dtype="uint8", picture=(7, 1, 1))
    _, beside = inputs_of(layout, jnp.array(packed))
    assert np.asarray(beside).tobytes() == numbers.tobytes()


def test_a_batch_equals_single_observations() -> None:
    own, several = Spaces(CAMERA, STICK), samples(CAMERA, 4)
    batch = {key: np.stack([one[key] for one in several]) for key in CAMERA.spaces}
    packed, was_batch = own.batch(batch)
    assert was_batch
    np.testing.assert_array_equal(packed, [own.agent_observation(one) for one in several])
    model = gemrl.TD3.from_recipe(RECIPES["td3"].but(net_arch=(8,)), own, seed=0)
    single = [model.predict(one)[0] for one in several]
    np.testing.assert_allclose(model.predict(batch)[0], single, atol=1e-6)


def test_networks_see_the_image_and_the_numbers() -> None:
    seen = np.stack([Spaces(CAMERA, STICK).agent_observation(one) for one in samples(CAMERA, 6)])
    vision = Vision.init(np.random.default_rng(0), LAYOUT)
    alone = Vision(vision.convolutions, vision.last, LAYOUT.image_alone)
    images, numbers = seen[:, :PIXELS].reshape(-1, 9, 8, 3), unpack(seen, PIXELS)[1]
    for found in (vision(seen), vision(jnp.array(seen))):
        np.testing.assert_allclose(found[:, :FEATURES], alone(images), atol=1e-5)
        np.testing.assert_array_equal(found[:, FEATURES:], numbers)
    layout = Spaces(CAMERA, BUTTONS).layout
    recipe: Any = RECIPES["dqn"].but(net_arch=(8,))
    networks = init_learner(recipe, layout, 0).networks
    network = networks.members[0]
    expected = network(np.asarray(as_input(LAYOUT.image_alone, images)), numbers)
    np.testing.assert_allclose(networks(jnp.array(seen))[0], expected, atol=1e-5)
    other = seen.copy()
    other[:, PIXELS:] = seen[::-1, PIXELS:]
    assert (np.abs(networks(jnp.array(other))[0] - expected).max(axis=1) > 1e-4).all()


def test_only_the_image_is_shifted() -> None:
    seen = np.stack([Spaces(CAMERA, STICK).agent_observation(one) for one in samples(CAMERA, 6)])
    offset = jnp.array(np.random.default_rng(0).integers(0, 5, (6, 2)))
    moved = np.asarray(shifted(LAYOUT, jnp.array(seen), offset, 2))
    images = jnp.array(seen[:, :PIXELS].reshape(-1, 9, 8, 3))
    np.testing.assert_array_equal(moved[:, :PIXELS], shifted(LAYOUT.image_alone, images, offset, 2).reshape(6, -1))
    np.testing.assert_array_equal(moved[:, PIXELS:], seen[:, PIXELS:])


FIELDS: dict[str, Any] = {"learning_starts": 200, "learning_rate": 2e-3, "buffer_size": 2000, "net_arch": (64,), "batch_size": 64}


@pytest.mark.parametrize("algo", ["gem", "sac", "gem-discrete"])
def test_both_parts_are_learned(algo: str) -> None:
    """Who sees only one of them has a return of -2.5 at best, with three actions of -3.5; who sees both 0, or -2.5."""
    discrete = algo == "gem-discrete"
    rounds = {"gradient_steps": 100, "target_update_interval": 100} if algo == "gem" else {}
    if discrete:
        rounds = {"exploration_steps": 500, "train_freq": 10, "gradient_steps": 10, "target_update_interval": 50}
    model = MODELS[algo](Both(discrete=discrete), seed=0, **FIELDS | rounds)
    model.learn(1200)
    assert model.memory.frames is not None
    assert int(model.memory.frames.written[0]) == 1200 + 120  # each observation once
    assert np.mean(model.evaluate(Both(discrete=discrete), episodes=20).returns) > (-3.0 if discrete else -1.7)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("algo", "action"), [("td3", STICK), ("sac", STICK), ("dueling-dqn", BUTTONS)])
def test_an_exported_policy_acts_like_the_model(algo: str, action: gym.Space, name: str, tmp_path: Path) -> None:
    """It takes the vector of all numbers, pixels first."""
    own = Spaces(CAMERA, action)
    model = MODELS[algo].from_recipe(RECIPES[algo].but(net_arch=(16, 12)), own, seed=1)
    several = samples(CAMERA, 1000)
    model.export(tmp_path, name)
    found = runner(tmp_path, name)(np.stack([own.numbers(one) for one in several]).astype(np.float32))
    expected = np.array([model.predict(one, deterministic=True)[0] for one in several])
    np.testing.assert_allclose(found, expected, atol=2e-5)
    assert len(np.unique(expected)) > 1


def test_masks_follow_images_too() -> None:
    space = spaces.Dict({**CAMERA.spaces, "action_mask": spaces.MultiBinary(ACTIONS)})
    own = Spaces(space, spaces.Discrete(ACTIONS))
    assert own.layout.unmasked.size == PIXELS + 4 * 5
    one = samples(space, 1)[0] | {"action_mask": np.array([0, 1, 0, 1], np.int8)}
    state, allowed = own.layout.split(own.agent_observation(one))
    assert allowed is not None
    assert allowed.tolist() == [False, True, False, True]
    np.testing.assert_array_equal(state, Spaces(CAMERA, STICK).agent_observation(one))
    fields: dict[str, Any] = {"learning_starts": 20, "train_freq": 10, "gradient_steps": 1, "buffer_size": 200, "net_arch": (8,)}
    gemrl.GEM(Doors(space), seed=0, **fields).learn(60)  # a forbidden action would fail
    model = gemrl.DQN(Doors(space), seed=0, **fields).learn(60)
    actions = [model.predict(sample | {"action_mask": np.eye(ACTIONS, dtype=np.int8)[2]})[0] for sample in samples(space, 5)]
    assert actions == [2] * 5


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"a": CAMERA["camera"], "b": CAMERA["camera"], "c": CAMERA["arm"]}, "the images 'a' and 'b'"),
        ({"a": IMAGE_OF_BITS, "c": CAMERA["arm"]}, "the image 'a' beside other entries holds bool"),
    ],
)
def test_other_mixtures_are_refused(space: dict[str, gym.Space], message: str) -> None:
    with pytest.raises(UnsupportedSpace, match=message):
        Spaces(spaces.Dict(space), STICK)


def test_what_needs_vectors_says_so() -> None:
    with pytest.raises(BadValue, match="normalize_observations is for vectors"):
        gemrl.SAC(Both(), normalize_observations=True)
    with pytest.raises(UnsupportedSpace, match="mfec needs"):
        gemrl.MFEC(Both(discrete=True))


def test_numbers_are_checked() -> None:
    one = samples(CAMERA, 1)[0]
    one["arm"][1] = np.nan
    with pytest.raises(EnvironmentFault, match="nan in number 1 of entry 'arm'"):
        checked_observation(Spaces(CAMERA, STICK), one, "step 1")


def test_recorded_data_is_packed(tmp_path: Path) -> None:
    env, rng = Both(), np.random.default_rng(0)
    observations, actions = [env.reset(seed=0)[0]], rng.uniform(-1, 1, (10, 1)).astype(np.float32)
    rewards = []
    for action in actions:
        observation, reward, *_ = env.step(action)
        observations.append(observation)
        rewards.append(reward)
    file, ends = tmp_path / "data.npz", np.arange(10) == 9
    columns: dict[str, Any] = {f"observations/{key}": np.stack([one[key] for one in observations]) for key in ("view", "shift")}
    endings: dict[str, Any] = {"terminated": ends, "truncated": np.zeros(10, bool)}
    np.savez(file, actions=actions, rewards=np.array(rewards), **endings, **columns)
    model = gemrl.TD3(Both(), seed=0, buffer_size=100)
    model.remember(gemrl.read_data(file, model))
    lane, position = np.zeros(10, int), np.arange(10)
    expected = [model.spaces.agent_observation(one) for one in observations]
    np.testing.assert_array_equal(model.memory.observation(lane, position), expected[:-1])
    np.testing.assert_array_equal(model.memory.next_observation(lane, position), expected[1:])
