"""The normalizer and the reward scale: compared with numpy, and learning from observations and rewards of any scale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import numpy as np
import pytest

import gemrl
from gemrl.agents.memory.ring import Memory, empty_rows
from gemrl.agents.normalization import CLIP, Normalizer
from gemrl.agents.reward_scale import SMALLEST, RewardScale
from gemrl.core.layout import Layout
from gemrl.training.loop import Event
from gemrl.training.model import Model
from gemrl.training.model_files import ModelFiles
from gemrl.training.models import GEM, MODELS
from gemrl.training.pytrees import named_arrays
from tests import probes
from tests.compiled import insert

DISCRETE = ["gem-discrete", "dqn", "gem-discrete-released", "ebu", "emdqn"]
NAMES = ["gem", "td3", "sac", "optimality-tightening", "emac", *DISCRETE]


def test_blocks_of_any_size_give_the_mean_and_variance_of_all() -> None:
    rng = np.random.default_rng(0)
    seen = rng.normal(5.0, 3.0, (200, 4)).astype(np.float32)
    normalizer, start = Normalizer.start(4), 0
    for size in (1, 7, 0, 50, 142):
        block = np.zeros((2, 150, 4), np.float32)
        counts = np.zeros((2, 150), bool)
        half = size // 2
        block[0, :half], block[1, : size - half] = seen[start : start + half], seen[start + half : start + size]
        counts[0, :half], counts[1, : size - half] = True, True
        normalizer, start = normalizer.updated(block, counts), start + size
    assert normalizer.count == 200
    np.testing.assert_allclose(normalizer.mean, seen.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(normalizer.variance, seen.var(axis=0), rtol=1e-4)
    np.testing.assert_allclose(normalizer(seen).std(axis=0), 1, rtol=1e-3)
    assert normalizer(seen * 1e6).max() == CLIP


def test_a_new_normalizer_changes_nothing() -> None:
    seen = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    np.testing.assert_allclose(Normalizer.start(3)(seen), seen, rtol=1e-6)


def plain_returns(reward: np.ndarray, last: np.ndarray, gamma: float) -> np.ndarray:
    """The discounted return so far of every step of one lane, by its definition."""
    found, so_far = [], 0.0
    for t in range(len(reward)):
        so_far = reward[t] + (gamma * so_far if t > 0 and not last[t - 1] else 0.0)
        found.append(so_far)
    return np.array(found)


@pytest.mark.parametrize("capacity", [1200, 40])
def test_the_reward_scale_is_the_deviation_of_all_discounted_returns(capacity: int) -> None:
    """Blocks of different sizes in two lanes; in the small memory every episode is longer than what survives of it."""
    rng, gamma, total = np.random.default_rng(0), 0.9, 600
    reward = rng.normal(1.0, 2.0, (2, total)).astype(np.float32)
    last = rng.random((2, total)) < (0.02 if capacity > total else 0.0)
    discount = np.where(last & (rng.random((2, total)) < 0.5), 0.0, gamma).astype(np.float32)  # some of them are terminations
    memory, scale, done = Memory.empty(2, capacity, Layout((1,), 1), 1), RewardScale.start(), np.zeros(2, int)
    assert scale.scale == 1
    update = jax.jit(lambda scale, memory, new, count: scale.updated(memory, new, count))
    while (done < total).any():
        count = np.minimum(rng.integers(0, 31, 2), total - done)
        new = empty_rows(2, 30, Layout((1,), 1))
        for lane in range(2):
            rows = slice(done[lane], done[lane] + count[lane])
            for name, column in {"reward": reward, "discount": discount, "last": last}.items():
                getattr(new, name)[lane, : count[lane]] = column[lane, rows]
        memory = insert(memory, new, count)
        scale, done = update(scale, memory, new, count), done + count
    expected = np.concatenate([plain_returns(reward[lane], last[lane], gamma) for lane in range(2)])
    assert scale.returns.count == expected.size
    # In a memory of 40 rows a return so far has at least 10 rows of the past, so it lacks at most gamma^10 of it.
    np.testing.assert_allclose(scale.scale, expected.std(), rtol=1e-4 if capacity > total else 0.2)
    assert RewardScale(Normalizer.start(1).updated(np.zeros((1, 5, 1)), np.ones((1, 5), bool))).scale == pytest.approx(SMALLEST)


class Scaled(gym.Wrapper):
    """Observations times 1000, plus 5000; rewards times 1000."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.observation_space = gym.spaces.Box(-1e6, 1e6, (1,))

    def reset(self, **options: Any) -> tuple[np.ndarray, dict[str, Any]]:
        observation, info = self.env.reset(**options)
        return 1000 * observation + 5000, info

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return 1000 * observation + 5000, 1000 * float(reward), terminated, truncated, info


def make(name: str, **fields: Any) -> Model:
    fast: dict[str, Any] = {"net_arch": (32,), "learning_rate": 3e-3, "learning_starts": 300, "batch_size": 64}
    fast |= {"gamma": 0.5, "buffer_size": 2000, "train_freq": 100, "gradient_steps": 100, "target_update_interval": 1}
    fast |= {} if name in DISCRETE else {"tau": 0.1}
    probe = probes.ObservationDependent()
    env = Scaled(probes.Choices(probe) if name in DISCRETE else probe)
    return MODELS[name](env, seed=1, normalize_observations=True, normalize_rewards=True, **(fast | fields))


@pytest.mark.parametrize("name", NAMES)
def test_every_agent_learns_from_observations_and_rewards_of_any_scale(name: str, tmp_path: Path) -> None:
    """Q-values are in the units of the rewards, of which the networks know nothing."""
    model = make(name).learn(1500)
    kind = np.int32 if name in DISCRETE else np.float32
    states, zeros = np.array([[4000.0], [6000.0]], np.float32), np.zeros((2, 1), kind)
    np.testing.assert_allclose(model.agent.values(states, zeros), [-1000, 1000], atol=100)
    assert model.agent.learner.reward_scale.scale == pytest.approx(1000, rel=0.02)
    normalizer = model.agent.learner.normalizer
    assert normalizer.count == 1500
    np.testing.assert_allclose(normalizer.mean, [5000], rtol=0.02)
    model.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.agent.values(states, zeros), model.agent.values(states, zeros))
    np.testing.assert_array_equal(loaded.agent.act(states), model.agent.act(states))


@pytest.mark.parametrize("name", ["gem", "dqn"])
def test_reading_the_memory_does_not_change_training(name: str) -> None:
    """Staged rows are included, but the normalizer is not updated early."""

    class ReadMemory(gemrl.Callback):
        def on_step(self, model: Model, event: Event) -> None:
            assert len(model.memory) == event.step

    fields = {"learning_starts": 50, "train_freq": 40, "gradient_steps": 5}
    unwatched, watched = make(name, **fields).learn(200), make(name, **fields).learn(200, ReadMemory())
    for one, other in zip(unwatched.get_parameters().values(), watched.get_parameters().values(), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(unwatched.memory.lane()["observation"], watched.memory.lane()["observation"])
    np.testing.assert_array_equal(unwatched.memory.lane()["action"], watched.memory.lane()["action"])


class Drifting(probes.Probe):
    """Observations that grow with time, so that their mean and variance never settle; an episode is cut off after 20 steps."""

    observation_space = gym.spaces.Box(-1e6, 1e6, (1,))
    total = 0

    def answer(self, action: float) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.total += 1
        return np.array([self.total / 10 + action], np.float32), 1.0, False, self.time == 20, {}


def plain(layers: Any, x: np.ndarray) -> np.ndarray:
    """A perceptron without LayerNorm: x [N, inputs] -> [N, outputs]."""
    for layer in layers[:-1]:
        x = np.maximum(x @ layer.weight + layer.bias, 0)
    return x @ layers[-1].weight + layers[-1].bias


def plain_values(name: str, learner: Any, state: np.ndarray) -> np.ndarray:
    """The target networks' values of normalized states, of each pair of networks. [N, 1] -> [K, N]."""
    if name == "gem":
        action = np.tanh(plain(learner.target_actor.body.layers, state))
        inputs = np.concatenate([state, action], axis=1)
        return np.stack([plain(critic.layers, inputs)[:, 0] for critic in learner.target_critics.members])
    return np.stack([plain(network.streams[0].layers, state).max(axis=1) for network in learner.targets.members])


@pytest.mark.parametrize("name", ["gem", "gem-discrete"])
def test_stored_values_are_those_of_one_normalizer(name: str, tmp_path: Path) -> None:
    """Targets move every 120 steps, rounds are every 40: all rows have the values of one function, that of the last move."""
    fields: dict[str, Any] = {"normalize_observations": True, "net_arch": (8,), "buffer_size": 1000, "learning_starts": 60}
    fields |= {"train_freq": 40, "gradient_steps": 2, "batch_size": 8, "target_update_interval": 120, "n_critics": 1}
    fields |= {"layer_norm": False, "target_policy_noise": 0.0, "learning_rate": 1e-2} if name == "gem" else {}
    env = Drifting() if name == "gem" else probes.Choices(Drifting())
    model = MODELS[name](env, seed=0, **fields)
    # Rounds at steps 80, 120, ..., 320; the first moves the targets, and so do those at 120 and 240.
    model.learn(320)
    rows, learner = model.memory.lane(), jax.tree.map(np.asarray, eqx.tree_at(lambda x: x.key, model.agent.learner, 0))
    seen = rows["observation"][:240].astype(np.float64)
    state = np.clip((rows["next_observation"] - seen.mean(axis=0)) / np.sqrt(seen.var(axis=0) + 1e-8), -CLIP, CLIP)
    np.testing.assert_allclose(rows["q_next"], plain_values(name, learner, state), atol=1e-4)
    model.save(tmp_path / "model", memory=True)
    loaded = type(model).load(tmp_path / "model")
    for part in ("mean", "variance", "count"):
        saved, kept = (getattr(one.agent.learner.target_normalizer, part) for one in (loaded, model))
        np.testing.assert_array_equal(saved, kept)
        assert not np.array_equal(kept, getattr(model.agent.learner.normalizer, part))


def test_older_files_have_one_normalizer(tmp_path: Path) -> None:
    model = make("gem", target_update_interval=1000).learn(400)
    arrays = named_arrays(model.agent.learner)
    assert {name for name in arrays if name.startswith("target_normalizer.")} != set()
    older = {name: array for name, array in arrays.items() if not name.startswith("target_normalizer.")}
    model.save(tmp_path / "model")
    files = ModelFiles(tmp_path / "model")
    header = {name: value for name, value in files.read_header().items() if name not in ("format", "sha256", "state")}
    files.write(older, header)
    learner = GEM.load(tmp_path / "model").agent.learner
    for part in ("mean", "variance", "count"):
        np.testing.assert_array_equal(getattr(learner.target_normalizer, part), getattr(model.agent.learner.normalizer, part))
