"""Model-free episodic control: its tables compared with a direct version of equations 1 and 2, and the agent."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemrl.agents.memory.neighbours import Columns, Table, nearest, squares
from gemrl.agents.nearest import NearestAgent
from gemrl.algorithms.registry import NearestRecipe, recipe
from gemrl.cli.main import main
from gemrl.core.exceptions import BadValue, ModelFileError
from gemrl.core.layout import Layout
from gemrl.core.steps import Transition
from gemrl.experiments.loading import load
from gemrl.training.models import MFEC
from gemrl.training.pytrees import named_arrays
from tests.torture import differences

PAIR = Layout((2,), choices=2)


def key(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


class Oracle:
    """Equations 1 and 2 of the paper, in exact arithmetic on whole numbers, with a dictionary and a sort."""

    def __init__(self) -> None:
        self.best: dict[tuple[int, ...], float] = {}

    def write(self, state: tuple[int, ...], value: float) -> None:
        self.best[state] = max(value, self.best.get(state, -np.inf))

    def reads(self, state: tuple[int, ...], k: int) -> tuple[float, float]:
        """The smallest and the largest value over all ways to break ties between neighbours."""
        if state in self.best:
            return self.best[state], self.best[state]
        neighbours = sorted((sum((a - b) ** 2 for a, b in zip(state, other, strict=True)), v) for other, v in self.best.items())
        radius = neighbours[min(k, len(neighbours)) - 1][0]
        inside = [value for distance, value in neighbours if distance < radius]
        ties = sorted(value for distance, value in neighbours if distance == radius)
        left = min(k, len(neighbours)) - len(inside)
        return tuple(sum(inside + some) / (len(inside) + left) for some in (ties[:left], ties[-left:]))  # type: ignore[return-value]


POINT = st.tuples(*[st.integers(-6, 6)] * 2)


def number_of(state: tuple[int, int]) -> int:
    return 100 * state[0] + state[1]


@given(
    st.lists(st.tuples(POINT, st.integers(-100, 100)), min_size=1, max_size=60), st.lists(POINT, min_size=1), st.integers(1, 12)
)
@settings(max_examples=200, deadline=None)
def test_a_table_follows_equations_1_and_2(written: list[tuple[Any, int]], queries: list[Any], k: int) -> None:
    table, oracle = Table(100, 2), Oracle()
    for state, value in written:
        table.write(number_of(state), key(*state), value)
        oracle.write(state, value)
    reading = table.read([number_of(state) for state in queries], np.array(queries, np.float32), k)
    for state, value, known in zip(queries, reading.values, reading.known, strict=True):
        low, high = oracle.reads(state, k)
        assert low - 1e-4 <= value <= high + 1e-4
        assert known == (state in oracle.best)


@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_neighbours_far_from_zero_are_not_lost_to_rounding(shift: float) -> None:
    """For numbers near 10,000, |a|^2 - 2ab + |b|^2 has an error of about 8, more than the distance between neighbours."""
    rng = np.random.default_rng(0)
    keys = (np.round(rng.uniform(0, 400, (2000, 2)) * 64) / 64 + shift).astype(np.float32)  # exact in float32
    queries = keys[::100] + np.float32(1 / 64)
    true = ((queries[:, None].astype(float) - keys) ** 2).sum(-1)
    found = nearest(keys, squares(keys), queries, 7)
    np.testing.assert_array_equal(found, true.argsort(1, kind="stable")[:, :7])


def test_the_block_size_does_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    keys, queries = rng.normal(size=(300, 5)).astype("f4"), rng.normal(size=(40, 5)).astype("f4")
    whole = nearest(keys, squares(keys), queries, 11)
    monkeypatch.setattr("gemrl.agents.memory.neighbours.BLOCK", 700)
    np.testing.assert_array_equal(nearest(keys, squares(keys), queries, 11), whole)
    brute = ((queries[:, None] - keys) ** 2).sum(-1).argsort(1)[:, :11]
    np.testing.assert_array_equal(whole, brute)


def test_the_least_recently_used_row_is_replaced() -> None:
    table = Table(3, 1)
    for number in (0, 1, 2):
        table.write(number, key(10.0 * number), float(number))
    table.write(0, key(0.0), -5.0)  # counts as used, although the worse return changes nothing
    table.touch(table.read([99], key(11.0)[None], 1).rows)  # the nearest row is 1
    table.write(3, key(30.0), 3.0)
    assert sorted(table.filled.digest) == [0, 1, 3]
    table.write(4, key(40.0), 4.0)
    assert sorted(table.filled.digest) == [1, 3, 4]
    assert table.read([0], key(0.0)[None], 1).values == [1.0]  # replaced: its nearest neighbour gives the value
    table.read([1], key(10.0)[None], 1)  # reading without `touch`, as in an evaluation, does not count as use
    table.write(5, key(50.0), 5.0)
    assert sorted(table.filled.digest) == [3, 4, 5]


def test_a_full_table_agrees_with_a_dictionary() -> None:
    """Without reading, the least recently used row is the least recently written one."""
    rng = np.random.default_rng(2)
    table, model = Table(20, 1), dict[int, float]()
    for number, value in zip(rng.integers(0, 40, 2000).tolist(), rng.normal(size=2000).astype("f4").tolist(), strict=True):
        table.write(number, key(number), value)
        kept = model.pop(number, -np.inf)
        if len(model) == 20:
            del model[next(iter(model))]
        model[number] = max(kept, value)
    assert dict(zip(table.filled.digest.tolist(), table.filled.value.tolist(), strict=True)) == model


def transition(
    state: list[float], action: int, reward: float, after: list[float], *, terminated: bool = False, truncated: bool = False
) -> Any:
    return Transition(
        np.array([state], np.float32),
        np.array([[action]], np.int32),
        np.array([reward]),
        np.array([terminated]),
        np.array([truncated]),
        np.array([after], np.float32),
        np.array([True]),
    )


def value_of(agent: NearestAgent, state: list[float], action: int) -> float:
    return float(agent.values(np.array([state], np.float32), np.array([[action]]))[0])


def test_stored_returns_are_those_of_the_whole_episode() -> None:
    agent = NearestAgent(NearestRecipe(gamma=0.5), PAIR)
    agent.observe(transition([0, 0], 0, 1.0, [1, 0]))
    agent.observe(transition([1, 0], 1, 2.0, [2, 0]))
    assert (agent.rounds_due(1, 2), value_of(agent, [0, 0], 0), len(agent.memory)) == ([], 0.0, 2)
    agent.observe(transition([2, 0], 0, 4.0, [3, 0], terminated=True))
    assert agent.rounds_due(2, 3) == [3]
    agent.learn(3)
    assert agent.rounds_due(3, 3) == []
    assert [value_of(agent, [x, 0], a) for x, a in ((0, 0), (1, 1), (2, 0))] == [3.0, 4.0, 4.0]
    agent.observe(transition([0, 0], 0, 2.5, [1, 0], terminated=True))  # worse, so the maximum stays
    agent.learn(4)
    assert value_of(agent, [0, 0], 0) == 3.0
    assert value_of(agent, [5, 5], 0) == 3.5  # fewer than k neighbours, so the mean of all


def test_truncated_episodes_bootstrap_from_the_memory() -> None:
    agent = NearestAgent(NearestRecipe(gamma=0.5, k=1), PAIR)
    agent.observe(transition([9, 9], 1, 8.0, [0, 0], terminated=True))
    agent.learn(1)
    agent.observe(transition([0, 0], 0, 1.0, [9, 9], truncated=True))
    agent.learn(2)
    assert value_of(agent, [0, 0], 0) == 1.0 + 0.5 * 8.0
    agent.observe(transition([1, 0], 0, 1.0, [9, 8]))
    agent.observe(transition([9, 8], 0, 100.0, [3, 3]))  # the abandoned step is dropped
    agent.abandon()
    assert value_of(agent, [1, 0], 0) == 1.0 + 0.5 * 8.0
    assert len(agent.memory) == 3


@pytest.mark.parametrize(("gamma", "value"), [(0.9, -10.0), (1.0, -2.0)])
def test_a_truncated_first_episode_bootstraps_from_its_mean_reward(gamma: float, value: float) -> None:
    agent = NearestAgent(NearestRecipe(gamma=gamma), PAIR)
    agent.observe(transition([0, 0], 0, -1.0, [1, 0]))
    agent.observe(transition([1, 0], 0, -1.0, [2, 0], truncated=True))
    agent.learn(2)
    assert value_of(agent, [0, 0], 0) == pytest.approx(value)


def test_endless_episodes_are_written_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gemrl.agents.nearest.EPISODE_CAP", 5)
    agent = NearestAgent(NearestRecipe(gamma=0.5), PAIR)
    for step in range(6):
        agent.observe(transition([step, 0], 0, 1.0, [step + 1, 0]))
    assert agent.rounds_due(5, 6) == [6]
    agent.learn(6)
    np.testing.assert_allclose([value_of(agent, [step, 0], 0) for step in range(5)], 2.0)


def test_actions_without_a_reliable_estimate_are_tried_first() -> None:
    agent = NearestAgent(NearestRecipe(k=2, exploration_initial_eps=0.0, exploration_final_eps=0.0), Layout((1,), choices=3))
    state = np.zeros((1, 1), np.float32)
    assert {int(agent.explore(state, 0)[0, 0]) for _ in range(60)} == {0, 1, 2}  # an empty memory has no preference
    for position, action, value in ((1.0, 0, 5.0), (2.0, 0, 5.0), (1.0, 1, 9.0), (3.0, 2, 1.0), (4.0, 2, 1.0)):
        agent.memory.tables[action].write(*agent.encode(key(position)[None])[0], value)
    assert {int(agent.explore(state, 0)[0, 0]) for _ in range(30)} == {1}  # fewer than k rows
    assert agent.act(state) == [[1]]
    assert {int(agent.explore(key(1.0)[None], 0)[0, 0]) for _ in range(30)} == {1}  # known here, and 9 is the best value
    agent.memory.tables[1].write(*agent.encode(key(2.0)[None])[0], -99.0)
    assert {int(agent.explore(state, 0)[0, 0]) for _ in range(30)} == {0}
    agent.memory.tables[2].write(*agent.encode(state)[0], 5.0)
    assert {int(agent.explore(state, 0)[0, 0]) for _ in range(30)} == {0, 2}  # a tie


def test_evaluation_does_not_count_as_use_of_rows() -> None:
    agent = NearestAgent(NearestRecipe(k=1), PAIR)
    agent.observe(transition([0, 0], 0, 1.0, [1, 0], terminated=True))
    agent.learn(1)
    before = named_arrays(agent.learner)
    agent.act(np.zeros((4, 2), np.float32))
    agent.values(np.zeros((4, 2), np.float32), np.zeros((4, 1), np.int32))
    for name, array in named_arrays(agent.learner).items():
        np.testing.assert_array_equal(array, before[name])


def test_negative_zero_equals_zero_and_digests_do_not_depend_on_the_batch() -> None:
    agent = NearestAgent(NearestRecipe(), Layout((100,), choices=2))  # projected to 64 dimensions
    rng = np.random.default_rng(0)
    states = rng.normal(size=(50, 100)).astype("f4")
    states[:, 0] = 0.0
    together, single = agent.encode(states), [agent.encode(one[None])[0] for one in states]
    assert [one.digest for one in together] == [one.digest for one in single]
    negative = states.copy()
    negative[:, 0] = -0.0
    assert [one.digest for one in agent.encode(negative)] == [one.digest for one in single]
    assert single[0].key.shape == (64,)


def test_projection_nearly_preserves_distances() -> None:
    """Johnson and Lindenstrauss: with 64 dimensions the relative error of a squared distance is about sqrt(2 / 64)."""
    agent = NearestAgent(NearestRecipe(), Layout((4, 84, 84), choices=2, dtype="uint8"))
    pictures = np.random.default_rng(0).integers(0, 256, (30, 4, 84, 84), dtype=np.uint8)
    keys = np.stack([one.key for one in agent.encode(pictures)])
    flat = pictures.reshape(30, -1) / 255
    ratio = ((keys[1:] - keys[:-1]) ** 2).sum(1) / ((flat[1:] - flat[:-1]) ** 2).sum(1)
    assert ratio.mean() == pytest.approx(1.0, abs=0.15)
    assert 0.05 < ratio.std() < 0.4


def test_discrete_states_use_all_others_as_neighbours() -> None:
    layout = Layout((1,), choices=2, dtype="int32", states=5)
    assert recipe("mfec").for_environment("", layout) == NearestRecipe(k=5)
    agent = NearestAgent(NearestRecipe(k=5), layout)
    keys = np.stack([one.key for one in agent.encode(np.arange(5, dtype=np.int32)[:, None])])
    np.testing.assert_array_equal(keys, np.eye(5))
    large = NearestAgent(NearestRecipe(), layout._replace(states=5000))
    assert large.encode(np.array([[4999]], np.int32))[0].key.shape == (64,)


class Signs(gym.Env):
    """Four states, each with one action that pays 1. Observations are images, or the states as integers."""

    def __init__(self, pictures: bool = True) -> None:
        self.pictures = np.random.default_rng(5).integers(0, 256, (4, 3, 8, 8), dtype=np.uint8)
        self.observation_space: Any = gym.spaces.Box(0, 255, (3, 8, 8), np.uint8) if pictures else gym.spaces.Discrete(4)
        self.action_space: Any = gym.spaces.Discrete(4)
        self.shows_pictures = pictures

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.state, self.time = int(self.np_random.integers(4)), 0
        return self.observed(), {}

    def observed(self) -> Any:
        return self.pictures[self.state] if self.shows_pictures else self.state

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward, self.time = float(action == (self.state * 3 + 1) % 4), self.time + 1
        self.state = (self.state + 1) % 4
        return self.observed(), reward, self.time == 3, False, {}


@pytest.mark.parametrize("pictures", [True, False])
def test_it_learns_from_pictures_and_from_discrete_states(pictures: bool, tmp_path: Path) -> None:
    env = Signs(pictures)
    model = MFEC(env, seed=0, k=1, gamma=0.0, exploration_steps=200).learn(400)
    best = [(state * 3 + 1) % 4 for state in range(4)]
    states = env.pictures if pictures else np.arange(4)
    np.testing.assert_array_equal(model.predict(states)[0], best)
    model.save(tmp_path / "signs")
    np.testing.assert_array_equal(load(tmp_path / "signs").predict(states)[0], best)


WORDS = ["--eval-every", "100", "--eval-episodes", "2", "--set", "rows_per_action=60", "k=5", "exploration_steps=200"]


@pytest.mark.parametrize("words", [["CartPole-v1"], ["CartPole-v1", "--n-envs", "3"], ["tests.test_nearest:Signs-v0"]])
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path, words: list[str]) -> None:
    """The first part ends with full tables and in the middle of episodes."""
    for name, steps in (("one", "500"), ("two", "370")):
        assert main(["train", *words, "--algo", "mfec", "--steps", steps, "--run", str(tmp_path / name), *WORDS]) == 0
    assert main(["resume", str(tmp_path / "two"), "--steps", "500"]) == 0
    assert set(differences(tmp_path / "one", tmp_path / "two")) == {"evaluations.csv", "checkpoint evaluations.csv"}


def test_a_model_saved_with_its_memory_continues_as_if_uninterrupted(tmp_path: Path) -> None:
    whole = MFEC("CartPole-v1", seed=3, rows_per_action=60).learn(300)
    whole.save(tmp_path / "half", memory=True)
    half = MFEC.load(tmp_path / "half", "CartPole-v1")
    for model in (whole, half):
        observation = None if model is whole else model.replay()
        assert model is whole or observation is not None
    assert len(half.memory) == len(whole.memory)
    whole.learn(100, reset_num_timesteps=False)
    half.learn(100, reset_num_timesteps=False)
    ours, theirs = named_arrays(whole.agent.learner), named_arrays(half.agent.learner)
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_array_equal(theirs[name], array)


def test_lanes_keep_their_episodes_separate() -> None:
    """Three environments in parallel fill the tables like the same three in turn."""
    rng = np.random.default_rng(0)
    fields: dict[str, Any] = {"gamma": 0.9, "k": 3}
    lanes = [
        [(rng.normal(size=2).tolist(), int(rng.integers(2)), float(rng.normal()), t % 4 == lane) for t in range(12)]
        for lane in (1, 2, 3)
    ]
    together, separate = NearestAgent(NearestRecipe(**fields), PAIR, lanes=3), NearestAgent(NearestRecipe(**fields), PAIR)
    for t in range(12):
        steps = [transition(*lane[t][:3], [0.0, 0.0], terminated=lane[t][3]) for lane in lanes]
        together.observe(Transition(*(np.concatenate(column) for column in zip(*steps, strict=True))))
        together.learn(t)
    for lane in lanes:
        for state, action, reward, terminated in lane:
            separate.observe(transition(state, action, reward, [0.0, 0.0], terminated=terminated))
        separate.learn(0)
        separate._memory.running[0].__init__()  # type: ignore[misc]
    for a, b in zip(together.memory.tables, separate.memory.tables, strict=True):
        ours, theirs = ({int(d): float(v) for d, v in zip(x.filled.digest, x.filled.value, strict=True)} for x in (a, b))
        assert ours == theirs


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c._replace(digest=c.digest * 0), "duplicate pairs"),
        (lambda c: c._replace(value=c.value * np.nan), "not finite"),
        (lambda c: Columns(*(np.concatenate([x, x]) for x in c)), "cannot hold 6"),
    ],
)
def test_damaged_tables_are_refused(change: Any, message: str) -> None:
    table = Table(4, 1)
    for number in range(3):
        table.write(number, key(number), number)
    with pytest.raises(ModelFileError, match=message):
        Table(4, 1).restore(change(table.filled))


def test_sizes_that_do_not_match_are_refused() -> None:
    agent = NearestAgent(NearestRecipe(), PAIR)
    learner = agent.learner
    with pytest.raises(ModelFileError, match="sizes do not match"):
        agent.set_learner(learner._replace(sizes=learner.sizes + 1))
    saved = agent.snapshot()
    with pytest.raises(ModelFileError):
        agent.restore(saved._replace(arrays=saved.arrays | {"length": np.array([2])}))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"k": 0}, "k must be a whole number of at least 1"),
        ({"rows_per_action": 10**9}, "GB are left here: set a smaller rows_per_action"),
        ({"rows_per_action": 10**13}, "rows_per_action must be a whole number of at most"),
    ],
)
def test_invalid_fields_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadValue, match=message):
        MFEC("CartPole-v1", **fields)


def test_continuous_actions_are_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "Pendulum-v1", "--algo", "mfec"]) == 2
    assert "mfec needs discrete actions" in capsys.readouterr().err


OTHER_VALUES: dict[str, Any] = {
    "gamma": 0.9,
    "k": 3,
    "projection": 2,
    "rows_per_action": 40,
    "learning_starts": 50,
    "exploration_initial_eps": 0.5,
    "exploration_final_eps": 0.5,
    "exploration_steps": 50,
}


def values_after(**fields: Any) -> np.ndarray:
    model = MFEC("CartPole-v1", seed=0, **fields).learn(300)
    states = np.random.default_rng(0).normal(size=(20, 4)).astype("f4") / 10
    return model.agent.values(states, np.zeros((20, 1), np.int32))


def test_every_field_has_an_effect() -> None:
    assert OTHER_VALUES.keys() == {field.name for field in dataclasses.fields(NearestRecipe)}
    default = values_after()
    for name, value in OTHER_VALUES.items():
        assert np.abs(values_after(**{name: value}) - default).max() > 1e-4, name


gym.register("Signs-v0", "tests.test_nearest:Signs")
