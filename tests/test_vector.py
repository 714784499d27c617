"""Several environments at once: every kind stores the trajectories that single environments would produce."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from gemrl.agents.off_policy import OffPolicyAgent, remembered
from gemrl.algorithms.registry import RECIPES
from gemrl.core.exceptions import BadValue, EnvironmentFault
from gemrl.training.models import GEM, MODELS
from gemrl.training.pytrees import named_arrays
from tests import probes
from tests.conftest import SMALL


class Counter(probes.Probe):
    """Counts its steps in observation and reward; after `length` steps it terminates or is truncated."""

    observation_space = gym.spaces.Box(-1000, 1000, (2,))

    def __init__(self, number: int, length: int, terminates: bool) -> None:
        self.number, self.length, self.terminates = number, length, terminates

    def first(self) -> np.ndarray:
        return np.array([self.number, 0], np.float32)

    def answer(self, action: float) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        over = self.time == self.length
        observation = np.array([self.number, self.time], np.float32)
        return observation, self.time, over and self.terminates, over and not self.terminates, {}


LENGTHS = (3, 5, 4)


def makers() -> list[Any]:
    return [lambda n=n, length=length: Counter(n, length, terminates=n == 1) for n, length in enumerate(LENGTHS)]


def vector(mode: AutoresetMode) -> VectorEnv:
    return SyncVectorEnv(makers(), autoreset_mode=mode)


def vec_env() -> Any:
    pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.vec_env import DummyVecEnv

    return DummyVecEnv(makers())


KINDS = {
    "list": lambda: [make() for make in makers()],
    "next step": lambda: vector(AutoresetMode.NEXT_STEP),
    "same step": lambda: vector(AutoresetMode.SAME_STEP),
    "disabled": lambda: vector(AutoresetMode.DISABLED),
    "stable-baselines3": vec_env,
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_lane_holds_the_trajectories_of_its_environment(kind: str) -> None:
    model = GEM.from_recipe(GEM(Counter(0, 3, False), **SMALL).recipe.but(learning_starts=10_000), KINDS[kind](), seed=0)
    finished = [episode for event in model.training(90) if event.taken for episode in event.taken.ended]
    assert {(episode.length, episode.total) for episode in finished} == {(n, n * (n + 1) / 2) for n in LENGTHS}
    assert model.num_timesteps >= 90
    assert len(model.memory) == model.num_timesteps
    for lane, length in enumerate(LENGTHS):
        rows = model.memory.lane(lane)
        count = len(rows["reward"])
        assert count >= 20
        time = np.arange(count) % length
        np.testing.assert_array_equal(rows["reward"], time + 1)
        np.testing.assert_array_equal(rows["observation"], np.stack([np.full(count, lane), time], axis=1))
        np.testing.assert_array_equal(rows["next_observation"][:, 1], time + 1)  # the state reached, not the one after the reset
        np.testing.assert_array_equal(rows["last"], time == length - 1)
        np.testing.assert_allclose(rows["discount"], np.where((time == length - 1) & (lane == 1), 0.0, 0.99))


@pytest.mark.parametrize("name", ["gem", "td3", "sac", "td3-sil", "optimality-tightening"])
def test_agents_learn_from_several_environments(name: str) -> None:
    """The reward is the observation and every step ends an episode, so every agent must learn Q(s, a) = s."""
    fields = SMALL | {"train_freq": 48, "learning_rate": 3e-3, "gradient_steps": 60, "net_arch": (32,)}
    fields |= {"horizon": 5} if name == "td3-sil" else {}  # a shorter plan compiles faster
    model = MODELS[name]([probes.ObservationDependent() for _ in range(3)], seed=0, **fields).learn(600)
    assert (model.n_envs, model.num_timesteps, len(model.memory)) == (3, 600, 600)
    distinct = {model.memory.lane(lane)["observation"].tobytes() for lane in range(3)}
    assert len(distinct) == 3
    states = np.array([[-1.0], [1.0]], np.float32)
    np.testing.assert_allclose(model.agent.values(states, np.zeros((2, 1), np.float32)), [-1, 1], atol=0.1)


@pytest.mark.parametrize(("before", "after"), [("same step", "list"), ("list", "next step")])
def test_a_memory_can_be_used_with_another_kind_of_environment(tmp_path: Path, before: str, after: str) -> None:
    """Running episodes cannot be continued there: new ones begin."""
    model = GEM.from_recipe(GEM(Counter(0, 3, False), **SMALL).recipe, KINDS[before](), seed=0)
    model.learn(120)
    model.save(tmp_path / "model", memory=True)
    for again in (GEM.load(tmp_path / "model", KINDS[after]()), GEM.load(tmp_path / "model")):
        again.set_env(KINDS[after]())
        assert again.replay() is None
        again.learn(30, reset_num_timesteps=False)
        assert len(again.memory) == again.num_timesteps >= 150


def test_a_list_of_one_environment_equals_that_environment() -> None:
    one, listed = (
        GEM("Pendulum-v1", seed=0, **SMALL),
        GEM.from_recipe(GEM("Pendulum-v1", **SMALL).recipe, [gym.make("Pendulum-v1")], seed=0),
    )
    one.learn(250)
    listed.learn(250)
    ours, theirs = named_arrays(one.agent.learner), named_arrays(listed.agent.learner)
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


def test_invalid_vector_environments() -> None:
    with pytest.raises(BadValue, match="n_envs needs an environment id"):
        GEM(gym.make("Pendulum-v1"), n_envs=2)
    with pytest.raises(BadValue, match="n_envs must be"):
        GEM("Pendulum-v1", n_envs=0)
    env = SyncVectorEnv([probes.Poisoned(observation=np.array([np.nan])).__class__] * 2)
    env.metadata = {}
    with pytest.raises(BadValue, match="autoreset_mode"):
        GEM(env)


@pytest.mark.parametrize("kind", ["next step", "stable-baselines3"])
def test_an_error_in_a_vector_environment_names_its_step(kind: str) -> None:
    def faulty() -> gym.Env:
        return probes.Poisoned(reward=float("nan"))

    if kind == "next step":
        env: Any = SyncVectorEnv([faulty, faulty])
    else:
        pytest.importorskip("stable_baselines3")
        from stable_baselines3.common.vec_env import DummyVecEnv

        env = DummyVecEnv([faulty, faulty])
    with pytest.raises(EnvironmentFault, match="the reward nan at step 1"):
        GEM(env, seed=0, **SMALL | {"learning_starts": 1000}).learn(1000)


@pytest.mark.parametrize("n_envs", [1, 3, 8, 120])
@pytest.mark.parametrize("algo", ["td3", "gem", "dqn"])
def test_rounds_and_targets_follow_single_steps(algo: str, n_envs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With several environments there are as many rounds and target updates per environment step as with one."""
    steps, period = 240, {"td3": None, "gem": 50, "dqn": 50}[algo]
    fields: dict[str, Any] = {"learning_starts": 0, "net_arch": (8,), "buffer_size": 500}
    fields |= {"train_freq": 20, "target_update_interval": period} if period else {}
    model = MODELS[algo]("CartPole-v1" if algo == "dqn" else "Pendulum-v1", n_envs=n_envs, seed=0, **fields)
    assert isinstance(model.agent, OffPolicyAgent)
    updates, family, stored = [], model.agent._family, remembered

    def counted(_: Any, learner: Any, memory: Any, rows: Any, count: Any, due: bool) -> tuple[Any, Any, dict[str, Any]]:
        updates.append(due)
        return *stored(learner, memory, rows, count), {}

    monkeypatch.setattr(model.agent, "_family", family._replace(train_round=counted))
    model.learn(steps)
    assert len(updates) == steps // (20 if period else 1)
    assert sum(updates) == (steps // period + 1 if period else 0)  # in the first round, and in one round of every period after it


def test_environments_share_the_memory_s_capacity() -> None:
    assert GEM("Pendulum-v1", n_envs=3, seed=0, **SMALL | {"buffer_size": 90}).memory.capacity == 30


class Informative(Counter):
    """Its infos contain its number and, at the end of an episode, the length."""

    def answer(self, action: float) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        *outcome, _ = super().answer(action)
        ends = outcome[2] or outcome[3]
        return *outcome, {"number": self.number} | ({"episode": {"l": self.time}} if ends else {})  # type: ignore[return-value]


@pytest.mark.parametrize("mode", AutoresetMode)
def test_infos_of_a_vector_environment_reach_callbacks(mode: AutoresetMode) -> None:
    """Each lane has its own info, as with single environments."""
    env = SyncVectorEnv([partial(Informative, n, LENGTHS[n], False) for n in range(3)], autoreset_mode=mode)
    ended: list[tuple[int, int]] = []

    def watch(local: dict[str, Any], _: Any) -> None:
        ended.extend((n, info["episode"]["l"]) for n, info in enumerate(local["infos"]) if "episode" in info)
        assert all(info.get("number", n) == n for n, info in enumerate(local["infos"]))

    GEM(env, seed=0, **SMALL | {"learning_starts": 1000}).learn(90, watch)
    assert {(n, length) for n, length in ended} == set(enumerate(LENGTHS))


@pytest.mark.parametrize("algo", ["dqn", "gem"])
def test_targets_that_move_more_often_than_all_environments_step(algo: str) -> None:
    env = "CartPole-v1" if algo == "dqn" else "Pendulum-v1"
    model = MODELS[algo](env, n_envs=3, seed=0, **SMALL | {"target_update_interval": 2})
    with pytest.warns(UserWarning, match="every 2 steps, more often than all 3 environments step; set target_update_interval=3"):
        model.learn(3)
    for interval, algorithm in ((3, algo), (2, "td3")):  # td3 counts gradient steps
        assert not RECIPES[algorithm].but(target_update_interval=interval).warnings(10**6, 3)
