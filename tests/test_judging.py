"""`model.evaluate` and `model.q_values`, compared with evaluations during training, plain loops and the networks themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

import gemrl
from gemrl.core.exceptions import BadValue
from gemrl.core.seeding import derived_seed
from gemrl.training.models import DQN, GEM, MODELS
from tests import probes
from tests.conftest import SMALL
from tests.nested import BUTTONS, ROOM, Nested

PAGE = Path(__file__).parents[1] / "docs" / "python.md"


@pytest.fixture(scope="module")
def cartpole() -> DQN:
    return DQN("CartPole-v1", seed=3, **SMALL).learn(200)


def played(model: Any, env: gym.Env, episodes: int) -> list[float]:
    """The returns of episodes, played in a plain loop."""
    returns = []
    for number in range(episodes):
        observation, _ = env.reset(seed=derived_seed(model.seed, "evaluation episode", number))
        total, over = 0.0, False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(model.predict(observation, deterministic=True)[0])
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    return returns


def test_every_way_to_name_the_environment_gives_the_same_returns(cartpole: DQN) -> None:
    expected = played(cartpole, gym.make("CartPole-v1"), 4)
    before = cartpole.num_timesteps, len(cartpole.memory)
    found = [cartpole.evaluate(env, 4) for env in (None, "CartPole-v1", lambda: gym.make("CartPole-v1"), gym.make("CartPole-v1"))]
    for one in found:
        assert list(one.returns) == expected
        assert one.lengths == tuple(int(total) for total in expected)
        assert one.estimation_error == pytest.approx(found[0].estimation_error, abs=1e-4)
    assert (cartpole.num_timesteps, len(cartpole.memory)) == before
    assert cartpole.evaluate(episodes=4, seed=9).returns != tuple(expected)


def test_the_model_s_own_environment_is_made_again_with_its_wrappers() -> None:
    env = gym.wrappers.TransformReward(gym.wrappers.TimeLimit(gym.make("CartPole-v1"), 5), lambda reward: 2 * float(reward))
    model = DQN(env, seed=0, **SMALL)
    assert model.evaluate(episodes=2).returns == (10.0, 10.0)
    several = DQN(SyncVectorEnv([lambda: gym.wrappers.TimeLimit(gym.make("CartPole-v1"), 5)] * 2), seed=0, **SMALL)
    assert several.evaluate(episodes=2).lengths == (5, 5)


def test_evaluating_does_not_change_the_training() -> None:
    plain, watched = (GEM("Pendulum-v1", seed=0, **SMALL) for _ in range(2))
    plain.learn(200)
    for event in watched.training(200):
        if event.step == 120 and event.taken:
            watched.evaluate(episodes=1)
    for name, array in plain.get_parameters().items():
        np.testing.assert_array_equal(watched.get_parameters()[name], array)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (None, "has no id to make another one by: pass env"),
        (SyncVectorEnv([lambda: gym.make("Pendulum-v1")]), "env must be an id, a gymnasium.Env or a function"),
        (3, "env must be an id, .* not int"),
        ("CartPole-v1", r"observation_space has shape \(4,\), the model's \(1,\)"),
        (gym.make("CartPole-v1"), r"observation_space has shape \(4,\), the model's \(1,\)"),
    ],
)
def test_environments_that_cannot_be_evaluated_in(env: Any, message: str) -> None:
    with pytest.raises(BadValue, match=message):
        GEM(probes.Constant(), seed=0, **SMALL).evaluate(env)


def test_wrong_numbers_of_episodes_and_no_environment(cartpole: DQN, tmp_path: Any) -> None:
    with pytest.raises(BadValue, match="episodes"):
        cartpole.evaluate(episodes=0)
    cartpole.save(tmp_path / "model")
    with pytest.raises(BadValue, match="this model has no environment: pass one"):
        DQN.load(tmp_path / "model").evaluate()


def test_q_values_of_discrete_actions(cartpole: DQN) -> None:
    observations = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
    networks = np.asarray(cartpole.agent.learner.networks(observations)).mean(axis=0)
    np.testing.assert_allclose(cartpole.q_values(observations), networks, rtol=1e-5)
    np.testing.assert_allclose(cartpole.q_values(observations[2]), networks[2], rtol=1e-5)
    actions = np.array([0, 1, 1, 0, 1, 0, 0])
    np.testing.assert_allclose(cartpole.q_values(observations, actions), networks[np.arange(7), actions], rtol=1e-5)
    assert cartpole.q_values(observations[2], 1) == pytest.approx(networks[2, 1], rel=1e-5)
    assert np.shape(cartpole.q_values(observations[2], 1)) == ()


def test_q_values_of_continuous_actions() -> None:
    model = GEM("Pendulum-v1", seed=0, **SMALL)
    observations = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    actions = np.linspace(-2, 2, 5, dtype=np.float32)[:, None]
    critics = np.asarray(model.agent.learner.critics(observations, actions / 2)).mean(axis=0)
    np.testing.assert_allclose(model.q_values(observations, actions), critics, rtol=1e-4)
    own = model.predict(observations, deterministic=True)[0]
    np.testing.assert_allclose(model.q_values(observations), model.q_values(observations, own), rtol=1e-4)
    assert np.shape(model.q_values(observations[0])) == ()


def test_q_values_of_tables_dicts_and_combinations() -> None:
    lake = MODELS["gem-tabular"]("FrozenLake-v1", seed=0).learn(300)
    np.testing.assert_array_equal(lake.q_values(np.arange(16)), lake.agent.learner.q.mean(axis=0))
    room = DQN(Nested(ROOM, BUTTONS), seed=0, **SMALL)
    observation = room.env.reset(seed=0)[0]
    assert room.q_values(observation).shape == (6,)
    assert room.q_values(observation, np.array([1, 6])) == pytest.approx(room.q_values(observation)[3], rel=1e-5)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (2, r"action is 2, which is not in the action space Discrete\(2\)"),
        ([0, 1], r"action must be an array of shape \(\)"),
        ("left", r"action must be an array of shape \(\)"),
    ],
)
def test_wrong_actions(cartpole: DQN, action: Any, message: str) -> None:
    with pytest.raises(BadValue, match=message):
        cartpole.q_values(np.zeros(4), action)
    with pytest.raises(BadValue, match="which is not in the action space Box"):
        GEM("Pendulum-v1", seed=0, **SMALL).q_values(np.zeros(3), [2.1])


def test_the_training_loop_of_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs as it is written, only with fewer steps."""
    section = PAGE.read_text().partition("## A training loop of your own")[2]
    code = section.partition("```python\n")[2].partition("```")[0]
    for steps, fewer in (("5000", "500"), ("3000", "300"), ("learning_starts=1000", "learning_starts=200, net_arch=(16,)")):
        assert steps in code
        code = code.replace(steps, fewer)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"gemrl": gemrl}
    exec(code, names)
    assert names["model"].num_timesteps == 500
    assert GEM.load("halfway", env="Pendulum-v1").replay() is not None
