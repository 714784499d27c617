"""Images with continuous actions: the encoder that actor and critics share, its memory, and learning from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.wrappers import FrameStackObservation

import gemrl
from gemrl.agents import continuous, soft
from gemrl.agents.drawing import drawn_shift
from gemrl.agents.learner import init_learner
from gemrl.agents.memory.ring import Memory, row_bytes
from gemrl.agents.memory.staging import Staging
from gemrl.agents.minibatches import batch_of
from gemrl.agents.networks.q_networks import as_input
from gemrl.agents.networks.vision import FEATURES, Vision, shifted
from gemrl.algorithms.bodies import Perceptron
from gemrl.algorithms.embeddings import StateAction
from gemrl.algorithms.recipes.continuous import Recipe
from gemrl.algorithms.registry import RECIPES
from gemrl.core.exceptions import BadValue
from gemrl.core.layout import Layout
from gemrl.core.steps import Trajectory
from gemrl.envs.spaces import Spaces
from gemrl.training.models import MODELS
from tests.compiled import draw_randomness, insert, refresh
from tests.dots import Dots

torch = pytest.importorskip("torch")

LAST, FIRST = Layout((9, 8, 2), 3, dtype="uint8"), Layout((2, 9, 8), 3, dtype="uint8")
GREY_STACK, COLOUR_STACK = Layout((3, 9, 8), 3, dtype="uint8", frames=3), Layout((3, 9, 8, 2), 3, dtype="uint8", frames=3)
LAYOUTS = [LAST, FIRST, GREY_STACK, COLOUR_STACK]
SMALL: dict[str, Any] = {"body": Perceptron((8,)), "batch_size": 6, "gradient_steps": 2, "buffer_size": 50}


def images(layout: Layout, *batch: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (*batch, *layout.observation), dtype=np.uint8)


def plain_input(layout: Layout, image: np.ndarray) -> np.ndarray:
    """One image as [C, H, W], axis by axis."""
    if layout == LAST:
        return image.transpose(2, 0, 1)
    if layout == COLOUR_STACK:
        return np.concatenate([frame.transpose(2, 0, 1) for frame in image])
    return image


def filled(layout: Layout, recipe: Any, episodes: list[int]) -> tuple[Memory, list[dict[str, np.ndarray]]]:
    """A memory of random episodes of these lengths, and the same steps one by one."""
    rng, steps, pairs = np.random.default_rng(0), [], getattr(recipe, "n_pairs", 1)
    extra = continuous.extra_columns(recipe) if isinstance(recipe, Recipe) else ()
    memory, staging = Memory.empty(1, recipe.buffer_size, layout, pairs, extra), Staging(1, 64, layout)
    for length in episodes:
        frames = rng.integers(0, 256, (length + 1, *layout.single), dtype=np.uint8)
        seen = np.stack([stacked(layout, frames, time) for time in range(length + 1)])
        action = rng.uniform(-1, 1, (length, layout.action)).astype(np.float32)
        columns = zip(seen[:-1], seen[1:], action, strict=True)
        steps += [{"observation": now, "next_observation": after, "action": taken} for now, after, taken in columns]
        for transition in Trajectory(seen, action, rng.normal(size=length).astype(np.float32), terminated=True).transitions():
            staging.add(transition, 0.99)
    return insert(memory, *staging.take()), steps


def stacked(layout: Layout, frames: np.ndarray, time: int) -> np.ndarray:
    """The observation at a time: the newest frames, the first one repeated."""
    if layout.frames == 1:
        return frames[time]
    return np.stack([frames[max(0, time - back)] for back in range(layout.frames - 1, -1, -1)])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_features_equal_pytorch(layout: Layout) -> None:
    vision = Vision.init(np.random.default_rng(1), layout)
    seen = images(layout, 4)
    x = torch.tensor(np.stack([plain_input(layout, image) for image in seen]).astype(np.float32) / 255 - 0.5)
    noise = np.random.default_rng(2)
    vision = jax.tree.map(lambda leaf: leaf + noise.normal(0, 0.05, leaf.shape).astype(np.float32), vision)  # biases start at 0
    for one in vision.convolutions:
        kernel = one.layer.weight.reshape(one.size, one.size, x.shape[1], -1).transpose(3, 2, 0, 1)
        x = torch.relu(torch.nn.functional.conv2d(x, torch.tensor(kernel.copy()), torch.tensor(one.layer.bias), one.stride))
    x = x.permute(0, 2, 3, 1).flatten(1) @ torch.tensor(vision.last.weight) + torch.tensor(vision.last.bias)
    scale, shift = torch.tensor(vision.last.scale), torch.tensor(vision.last.shift)
    expected = torch.tanh(torch.nn.functional.layer_norm(x, (FEATURES,), scale, shift))
    np.testing.assert_allclose(vision(seen), expected, atol=1e-5)
    np.testing.assert_allclose(vision(jnp.array(seen.reshape(2, 2, *layout.observation))).reshape(4, -1), expected, atol=1e-5)


def test_weights_start_orthogonal() -> None:
    vision = Vision.init(np.random.default_rng(1), Layout((40, 40, 3), 3, dtype="uint8"))
    for layer, gain in [*((one.layer, 2**0.5) for one in vision.convolutions), (vision.last, 1.0)]:
        weight = layer.weight if layer.weight.shape[0] >= layer.weight.shape[1] else layer.weight.T
        np.testing.assert_allclose(weight.T @ weight, gain**2 * np.eye(weight.shape[1]), atol=1e-5)
        assert (layer.bias == 0).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_shifts_move_images_and_repeat_their_edges(layout: Layout) -> None:
    most, seen = 2, images(layout, 25)
    offset = np.stack(np.meshgrid(range(5), range(5)), axis=-1).reshape(25, 2)
    moved = shifted(layout, jnp.array(seen), jnp.array(offset), most)
    for image, result, (down, right) in zip(seen, moved, offset, strict=True):
        plain, found = plain_input(layout, image), plain_input(layout, np.asarray(result))
        _, height, width = plain.shape
        for y in range(height):
            for x in range(width):
                source = np.clip(y + down - most, 0, height - 1), np.clip(x + right - most, 0, width - 1)
                np.testing.assert_array_equal(found[:, y, x], plain[:, source[0], source[1]])


def test_shifts_are_drawn_uniformly() -> None:
    recipe = RECIPES["gem"].but(**SMALL)
    memory, _ = filled(LAST, recipe, [5, 5])
    offset = np.asarray(drawn_shift(2, memory, jax.random.key(0), (4000,)))
    counts = np.bincount(offset[:, 0] * 5 + offset[:, 1], minlength=25)
    assert counts.min() > 100
    assert counts.max() < 230  # 160 expected
    assert drawn_shift(0, memory, jax.random.key(0), (4,)) is None


@pytest.mark.parametrize("layout", LAYOUTS)
def test_images_are_stored_once(layout: Layout) -> None:
    recipe = RECIPES["gem"].but(**SMALL)
    memory, steps = filled(layout, recipe, [7, 1, 9])
    assert memory.frames is not None
    assert int(memory.frames.written[0]) == 17 + 3  # an episode has one frame more than it has steps
    lane, position = np.zeros(17, int), np.arange(17)
    for name in ("observation", "next_observation"):
        found = getattr(memory, name)(lane, position)
        np.testing.assert_array_equal(found, [step[name] for step in steps])
    assert row_bytes(layout, 2) < 2 * np.prod(layout.single) + 100


@pytest.mark.parametrize("layout", [LAST, COLOUR_STACK])
@pytest.mark.parametrize("planner", ["Twin(3)", "Stopping()"])
def test_stored_values_are_those_of_the_target_networks(layout: Layout, planner: str) -> None:
    """Computed one state at a time, from the next image: its features, the action, and the smaller value of each pair."""
    recipe: Any = RECIPES["gem"].but_from_text([("planner", planner)]).but(**SMALL, target_policy_noise=0.0)
    memory, steps = filled(layout, recipe, [7, 9])
    learner = init_learner(recipe, layout, 3)
    found = refresh(recipe, learner, memory, memory.size, jax.random.key(0))
    vision = learner.target_critics.vision
    assert vision is not None
    for row, step in enumerate(steps):
        features = vision(jnp.array(step["next_observation"])[None])
        values = learner.target_critics.values(features, learner.target_actor(features))[:, 0]
        np.testing.assert_allclose(found.q_next[:, 0, row], values.reshape(2, 2).min(axis=1), rtol=1e-3, atol=1e-5)
        if found.q_stored is not None and row + 1 < len(steps):
            values = learner.target_critics.values(features, jnp.array(steps[row + 1]["action"])[None])[:, 0]
            np.testing.assert_allclose(found.q_stored[:, 0, row], values.reshape(2, 2).min(axis=1), rtol=1e-3, atol=1e-5)


def test_minibatches_hold_shifted_images() -> None:
    recipe: Any = RECIPES["gem"].but(**SMALL, random_shift=2)
    memory, steps = filled(LAST, recipe, [7, 9])
    memory = eqx.tree_at(lambda m: (m.planned, m.unplanned), memory, (jnp.ones_like(memory.planned), jnp.zeros(1, int)))
    learner = init_learner(recipe, LAST, 3)
    drawn = draw_randomness(recipe, memory, jax.random.key(2))
    batch = batch_of(recipe, learner, memory, drawn)
    assert drawn.shift is not None
    originals = np.stack([steps[row]["observation"] for row in np.asarray(drawn.rows.position)[0]])
    expected = shifted(LAST, jnp.array(originals), drawn.shift[0], 2)
    np.testing.assert_array_equal(batch.observation, expected)
    np.testing.assert_array_equal(batch.states, expected)
    assert (np.asarray(batch.observation) != originals).any()


@pytest.mark.parametrize("algo", ["gem", "td3", "sac", "gem2"])
def test_only_the_critics_train_the_encoder(algo: str) -> None:
    """A gradient step with an update of the actor changes the encoder exactly as one without."""
    recipe: Any = RECIPES[algo].for_environment("", LAST).but(**SMALL)
    family: Any = soft if algo == "sac" else continuous
    memory, _ = filled(LAST, recipe, [7, 9])
    memory = eqx.tree_at(lambda m: (m.planned, m.unplanned), memory, (jnp.ones_like(memory.planned), jnp.zeros(1, int)))
    learner = family.init_learner(recipe, LAST, 3)
    drawn = (soft.draw_soft_randomness if algo == "sac" else draw_randomness)(recipe, memory, jax.random.key(2))
    step = jax.jit(family.gradient_step, static_argnums=0)
    acted, critics_only = (step(recipe.but(policy_delay=delay), memory, learner, drawn)[0] for delay in (1, 1000))
    start, *after = (jax.tree.leaves(one.critics.vision) for one in (learner, acted, critics_only))
    for one, other, before in zip(*after, start, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)
        assert (np.asarray(one) != before).any()
    leaves = zip(jax.tree.leaves(acted.actor), jax.tree.leaves(critics_only.actor), strict=True)
    assert any((np.asarray(one) != other).any() for one, other in leaves)


LEARNED: dict[str, Any] = {"learning_starts": 200, "learning_rate": 1e-3, "buffer_size": 1000}


@pytest.mark.parametrize("algo", ["gem", "td3", "sac", "gem2"])
def test_a_place_in_an_image_is_learned(algo: str) -> None:
    """Random actions have a return of -6.7, and the middle of the image -5."""
    average: dict[str, Any] = {"policy_average": 50} if algo == "gem2" else {}  # in proportion to the gradient steps
    model = MODELS[algo](Dots(), seed=0, **LEARNED, **average, net_arch=(64, 64)).learn(1000)
    assert np.mean(model.evaluate(Dots(), episodes=20).returns) > -3.5


@pytest.mark.parametrize("algo", ["td3", "sac"])
def test_shifts_change_what_is_learned(algo: str) -> None:
    fields: dict[str, Any] = LEARNED | {"learning_starts": 20, "net_arch": (8,), "batch_size": 4}
    seen = images(Spaces.of(Dots()).layout, 5)
    shifts = (MODELS[algo](Dots(), seed=0, **fields | {"random_shift": most}).learn(60) for most in (0, 1, 1))
    plain, moved, again = (model.agent.act(seen) for model in shifts)
    assert (plain != moved).any()
    np.testing.assert_array_equal(moved, again)


def test_stacks_of_colour_images_are_recognised() -> None:
    spaces = Spaces.of(FrameStackObservation(Dots((9, 9, 3)), 4))
    assert spaces.layout == Layout((4, 9, 9, 3), 1, dtype="uint8", frames=4)
    assert spaces.layout.image == (9, 9, 12)
    assert Layout((4, 3, 9, 9), 1, dtype="uint8", frames=4).image == (9, 9, 12)
    seen = images(spaces.layout, 2)
    joined = np.concatenate([seen[:, number] for number in range(4)], axis=-1)
    np.testing.assert_array_equal(as_input(spaces.layout, seen), joined)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"normalize_observations": True}, "normalize_observations is for vectors"),
        ({"embedding": StateAction(4)}, "embedding is for vectors"),
    ],
)
def test_fields_for_vectors_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadValue, match=message):
        gemrl.GEM(Dots(), **fields)


def test_the_policy_class_must_fit_the_observations() -> None:
    with pytest.raises(BadValue, match="CnnPolicy is for images"):
        gemrl.GEM("CnnPolicy", "Pendulum-v1")
    assert gemrl.SAC("CnnPolicy", Dots()).spaces.layout.is_image


def test_images_have_a_preset() -> None:
    """One update for every two steps, in rounds of the recipe's length."""
    for algo, every in {"gem": 100, "td3": 2, "sac": 2, "gem2": 10}.items():
        recipe: Any = MODELS[algo](Dots(), seed=0).recipe
        assert (recipe.train_freq, recipe.gradient_steps, recipe.batch_size) == (every, every // 2, 64)
        large = recipe.for_environment("", Layout((40, 40, 3), 1, dtype="uint8"))
        assert (recipe.random_shift, large.random_shift) == (0, 4)
    assert gemrl.GEM(Dots(), batch_size=32).recipe.settable()["batch_size"] == 32


def test_a_saved_model_acts_alike(tmp_path: Path) -> None:
    model = gemrl.TD3(Dots(), seed=1, **LEARNED | {"learning_starts": 30}).learn(60)
    model.save(tmp_path / "dots")
    again = gemrl.load(tmp_path / "dots")
    seen = images(model.spaces.layout, 7)
    np.testing.assert_array_equal(model.predict(seen)[0], again.predict(seen)[0])
    assert isinstance(gym.make("Dots-v0").unwrapped, Dots)
