"""Several environments at once: every kind stores the trajectories that single environments would have given."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from gemrl.agents.off_policy import OffPolicyAgent, remembered
from gemrl.core.exceptions import BadValue, EnvironmentFault
from gemrl.training.models import GEM, MODELS
from gemrl.training.pytrees import named_arrays
from tests import probes
from tests.conftest import SMALL


class Counter(probes.Probe):
    """Counts its steps in observation and reward; ends after `length` of them, by death or by a time limit."""

    observation_space = gym.spaces.Box(-1000, 1000, (2,))

    def __init__(self, number: int, length: int, dies: bool) -> None:
        self.number, self.length, self.dies = number, length, dies

    def first(self) -> np.ndarray:
        return np.array([self.number, 0], np.float32)

    def answer(self, action: float) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        over = self.time == self.length
        seen = np.array([self.number, self.time], np.float32)
        return seen, self.time, over and self.dies, over and not self.dies, {}


LENGTHS = (3, 5, 4)


def makers() -> list[Any]:
    return [lambda n=n, length=length: Counter(n, length, dies=n == 1) for n, length in enumerate(LENGTHS)]


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
        place = np.arange(count) % length
        np.testing.assert_array_equal(rows["reward"], place + 1)
        np.testing.assert_array_equal(rows["observation"], np.stack([np.full(count, lane), place], axis=1))
        np.testing.assert_array_equal(rows["next_observation"][:, 1], place + 1)  # the state reached, not that of the reset
        np.testing.assert_array_equal(rows["last"], place == length - 1)
        np.testing.assert_allclose(rows["discount"], np.where((place == length - 1) & (lane == 1), 0.0, 0.99))


@pytest.mark.parametrize("name", ["gem", "td3", "sac", "td3-sil", "optimality-tightening"])
def test_agents_learn_from_several_environments(name: str) -> None:
    """Where the reward is the observation and every step ends an episode, Q(s, a) = s, whatever the agent."""
    fields = SMALL | {"train_freq": 48, "learning_rate": 3e-3, "gradient_steps": 60, "net_arch": (32,)}
    model = MODELS[name]([probes.ObservationDependent() for _ in range(3)], seed=0, **fields).learn(600)
    assert (model.n_envs, model.num_timesteps, len(model.memory)) == (3, 600, 600)
    seen = {model.memory.lane(lane)["observation"].tobytes() for lane in range(3)}
    assert len(seen) == 3
    states = np.array([[-1.0], [1.0]], np.float32)
    np.testing.assert_allclose(model.agent.values(states, np.zeros((2, 1), np.float32)), [-1, 1], atol=0.1)


@pytest.mark.parametrize(("before", "after"), [("same step", "list"), ("list", "next step")])
def test_a_memory_can_go_on_with_another_kind_of_environments(tmp_path: Path, before: str, after: str) -> None:
    """Their running episodes cannot: new ones begin."""
    model = GEM.from_recipe(GEM(Counter(0, 3, False), **SMALL).recipe, KINDS[before](), seed=0)
    model.learn(120)
    model.save(tmp_path / "model", memory=True)
    for again in (GEM.load(tmp_path / "model", KINDS[after]()), GEM.load(tmp_path / "model")):
        again.set_env(KINDS[after]())
        assert again.replay() is None
        again.learn(30, reset_num_timesteps=False)
        assert len(again.memory) == again.num_timesteps >= 150


def test_one_of_several_is_as_one() -> None:
    one, listed = (
        GEM("Pendulum-v1", seed=0, **SMALL),
        GEM.from_recipe(GEM("Pendulum-v1", **SMALL).recipe, [gym.make("Pendulum-v1")], seed=0),
    )
    one.learn(250)
    listed.learn(250)
    ours, theirs = named_arrays(one.agent.learner), named_arrays(listed.agent.learner)
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


def test_bad_vector_input() -> None:
    with pytest.raises(BadValue, match="n_envs makes several environments of an id"):
        GEM(gym.make("Pendulum-v1"), n_envs=2)
    with pytest.raises(BadValue, match="n_envs must be"):
        GEM("Pendulum-v1", n_envs=0)
    env = SyncVectorEnv([probes.Poisoned(observation=np.array([np.nan])).__class__] * 2)
    env.metadata = {}
    with pytest.raises(BadValue, match="autoreset_mode"):
        GEM(env)


@pytest.mark.parametrize("kind", ["next step", "stable-baselines3"])
def test_a_faulty_vector_environment_is_told(kind: str) -> None:
    def faulty() -> gym.Env:
        return probes.Poisoned(reward=float("nan"))

    if kind == "next step":
        env: Any = SyncVectorEnv([faulty, faulty])
    else:
        pytest.importorskip("stable_baselines3")
        from stable_baselines3.common.vec_env import DummyVecEnv

        env = DummyVecEnv([faulty, faulty])
    with pytest.raises(EnvironmentFault, match="a reward that is not finite at step 1"):
        GEM(env, seed=0, **SMALL).learn(1000)


@pytest.mark.parametrize("n_envs", [1, 3, 8, 120])
@pytest.mark.parametrize("algo", ["td3", "gem", "dqn"])
def test_cadences_count_single_steps(algo: str, n_envs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many rounds per environment step with several environments as with one; and targets that move as often."""
    steps, period = 240, {"td3": None, "gem": 50, "dqn": 50}[algo]
    fields: dict[str, Any] = {"learning_starts": 0, "net_arch": (8,), "buffer_size": 500}
    fields |= {"train_freq": 20, "target_update_interval": period} if period else {}
    model = MODELS[algo]("CartPole-v1" if algo == "dqn" else "Pendulum-v1", n_envs=n_envs, seed=0, **fields)
    assert isinstance(model.agent, OffPolicyAgent)
    moves, family, entered = [], model.agent._family, remembered

    def counted(_: Any, learner: Any, memory: Any, rows: Any, count: Any, due: bool) -> tuple[Any, Any, dict[str, Any]]:
        moves.append(due)
        return *entered(learner, memory, rows, count), {}

    monkeypatch.setattr(model.agent, "_family", family._replace(train_round=counted))
    model.learn(steps)
    assert len(moves) == steps // (20 if period else 1)
    assert sum(moves) == (steps // period + 1 if period else 0)  # the first round, and one in every period after it


def test_the_memory_is_shared_among_environments() -> None:
    assert GEM("Pendulum-v1", n_envs=3, seed=0, **SMALL | {"buffer_size": 90}).memory.capacity == 30


class Told(Counter):
    """Says its number in its infos, and at the end of an episode how long it was."""

    def answer(self, action: float) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        *outcome, _ = super().answer(action)
        ends = outcome[2] or outcome[3]
        return *outcome, {"number": self.number} | ({"episode": {"l": self.time}} if ends else {})  # type: ignore[return-value]


@pytest.mark.parametrize("mode", AutoresetMode)
def test_infos_of_a_vector_environment_reach_callbacks(mode: AutoresetMode) -> None:
    """As those of single environments do: each lane's own."""
    env = SyncVectorEnv([partial(Told, n, LENGTHS[n], False) for n in range(3)], autoreset_mode=mode)
    ended: list[tuple[int, int]] = []

    def watch(local: dict[str, Any], _: Any) -> None:
        ended.extend((n, info["episode"]["l"]) for n, info in enumerate(local["infos"]) if "episode" in info)
        assert all(info.get("number", n) == n for n, info in enumerate(local["infos"]))

    GEM(env, seed=0, **SMALL | {"learning_starts": 1000}).learn(90, watch)
    assert {(n, length) for n, length in ended} == set(enumerate(LENGTHS))
