"""The normalizer: its mean and variance compared with numpy's, and learning from observations of any scale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import gemrl
from gemrl.agents.normalization import CLIP, Normalizer
from gemrl.training.loop import Event
from gemrl.training.model import Model
from gemrl.training.models import MODELS
from tests import probes

DISCRETE = ["gem-discrete", "dqn", "gem-discrete-released"]
NAMES = ["gem", "td3", "sac", "optimality-tightening", *DISCRETE]


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


class Scaled(gym.ObservationWrapper):
    """Observations times 1000, plus 5000."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.observation_space = gym.spaces.Box(-1e6, 1e6, (1,))

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return 1000 * observation + 5000


def make(name: str, **fields: Any) -> Model:
    fast: dict[str, Any] = {"net_arch": (32,), "learning_rate": 3e-3, "learning_starts": 300, "batch_size": 64}
    fast |= {"gamma": 0.5, "buffer_size": 2000, "train_freq": 100, "gradient_steps": 100, "target_update_interval": 1}
    fast |= {} if name in DISCRETE else {"tau": 0.1}
    probe = probes.ObservationDependent()
    env = Scaled(probes.Choices(probe) if name in DISCRETE else probe)
    return MODELS[name](env, seed=1, normalize_observations=True, **(fast | fields))


@pytest.mark.parametrize("name", NAMES)
def test_every_agent_learns_from_observations_of_any_scale(name: str, tmp_path: Path) -> None:
    model = make(name).learn(1500)
    kind = np.int32 if name in DISCRETE else np.float32
    states, zeros = np.array([[4000.0], [6000.0]], np.float32), np.zeros((2, 1), kind)
    np.testing.assert_allclose(model.agent.values(states, zeros), [-1, 1], atol=0.1)
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
