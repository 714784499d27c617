"""The tabular agent: compared with Algorithm 3 in plain loops, on solved MDPs, with lanes, and restored from snapshots."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import gemrl
from gemrl.agents.tabular import TabularAgent, TabularLearner
from gemrl.algorithms.planning import NStep, Single, Twin
from gemrl.algorithms.registry import GEM_TABULAR, RECIPES, TabularRecipe, algorithm_for
from gemrl.algorithms.tabular import Crossed, StepSize
from gemrl.analysis.theory.mdps import q_star, random_deterministic
from gemrl.core.exceptions import BadValue, ModelFileError, UnsupportedSpace
from gemrl.core.files import write_sealed
from gemrl.core.layout import Layout
from gemrl.core.seeding import stream
from gemrl.core.steps import Transition
from gemrl.training.models import MODELS
from tests.worlds import World, live

LAYOUT = Layout((1,), 1, choices=2, dtype="int32", states=5)
GAMMA = 0.9
Row = tuple[int, int, float, int, bool, bool]
"""State, action, reward, next state, terminated, truncated."""


def step_of(*rows: Row) -> Transition:
    """One step with one row per lane."""
    state, action, reward, next_state, terminated, truncated = (np.array(column) for column in zip(*rows, strict=True))
    stored = np.ones(len(rows), bool)
    numbers = (column[:, None].astype(np.int32) for column in (state, action, next_state))
    state, action, next_state = numbers
    return Transition(state, action, reward.astype(np.float32), terminated, truncated, next_state, stored)


def episode(rng: np.random.Generator, length: int, terminated: bool) -> list[Row]:
    """A random episode over five states; its rewards are multiples of 1/4, which are exact in single precision."""
    states = rng.integers(5, size=length + 1)
    ends = [t == length - 1 for t in range(length)]
    return [
        (
            int(states[t]),
            int(rng.integers(2)),
            float(rng.integers(-8, 8)) / 4,
            int(states[t + 1]),
            end and terminated,
            end and not terminated,
        )
        for t, end in enumerate(ends)
    ]


def feed(agent: TabularAgent, *lanes: list[Row]) -> None:
    """Lets an agent observe episodes of equal length, one per lane, and learn whenever a round is due."""
    for number, rows in enumerate(zip(*lanes, strict=True)):
        agent.observe(step_of(*rows))
        for due in agent.rounds_due(number, number + 1):
            agent.learn(due)


def algorithm_3(q: np.ndarray, counts: np.ndarray, rows: list[Row], draws: np.random.Generator, size: StepSize) -> None:
    """Algorithm 3 of the paper for one episode, with every rollout summed up; it shares no code with gemrl."""
    count = len(rows)
    value = [[max(q[i, row[3]]) for row in rows] for i in range(2)]

    def rollout(i: int, t: int, h: int) -> float:
        rewards = sum(GAMMA**k * rows[t + k][2] for k in range(h))
        end = t + h - 1
        return rewards + (0.0 if rows[end][4] else GAMMA**h * value[i][end])

    returns = []
    for t in range(count):
        lengths = range(1, count - t + 1)
        best = [max(lengths, key=lambda h, i=i: rollout(i, t, h)) for i in range(2)]  # type: ignore[misc]
        returns.append([rollout(1, t, best[0]), rollout(0, t, best[1])])
    for t, i in enumerate(draws.integers(2, size=count)):
        pair = i, rows[t][0], rows[t][1]
        alpha = size.first * (1 + counts[pair] / size.scale) ** -size.power
        q[pair] += alpha * (returns[t][i] - q[pair])
        counts[pair] += 1


def random_learner(rng: np.random.Generator, tables: int = 2) -> TabularLearner:
    return TabularLearner(rng.normal(size=(tables, 5, 2)), np.zeros((tables, 5, 2), np.int64))


def test_episodes_are_learned_as_in_algorithm_3() -> None:
    rng = np.random.default_rng(0)
    recipe = GEM_TABULAR.but(gamma=GAMMA)
    agent = TabularAgent(recipe, LAYOUT, seed=3)
    agent.set_learner(random_learner(rng))
    q, counts = agent.learner.q.copy(), agent.learner.updates.copy()
    draws = stream(3, "tables")
    draws.integers(2, size=1)  # the table that acts in the first episode
    for number in range(12):
        rows = episode(rng, int(rng.integers(1, 15)), terminated=number % 2 == 0)
        feed(agent, rows)
        draws.integers(2)  # the table that acts in the next episode
        algorithm_3(q, counts, rows, draws, recipe.step_size)
        np.testing.assert_allclose(agent.learner.q, q, atol=1e-12)
        np.testing.assert_array_equal(agent.learner.updates, counts)
    assert counts.max() > 2


def test_lanes_learn_their_own_episodes_into_the_same_tables() -> None:
    rng = np.random.default_rng(1)
    agent = TabularAgent(GEM_TABULAR.but(gamma=GAMMA), LAYOUT, lanes=2, seed=3)
    agent.set_learner(random_learner(rng))
    q, counts = agent.learner.q.copy(), agent.learner.updates.copy()
    draws = stream(3, "tables")
    draws.integers(2, size=2)
    for length in (5, 9, 1):
        lanes = [episode(rng, length, terminated=True), episode(rng, length, terminated=False)]
        feed(agent, *lanes)
        for _ in lanes:
            draws.integers(2)
        for rows in lanes:
            algorithm_3(q, counts, rows, draws, agent.recipe.step_size)
        np.testing.assert_allclose(agent.learner.q, q, atol=1e-12)
    for lane in range(2):
        stored = agent.memory.lane(lane)
        assert np.flatnonzero(stored["last"]).tolist() == [4, 13, 14]
        assert not np.isnan(stored["planned"]).any()


@pytest.mark.parametrize("n", [1, 3])
def test_n_step_q_learns_a_row_after_n_steps(n: int) -> None:
    """Compared with a textbook loop. With n = 1 it is Q-learning, which learns after every step."""
    rng = np.random.default_rng(2)
    recipe = RECIPES["nstep-q"].but(gamma=GAMMA, n=n, step_size=StepSize(0.5, 1.0, 0.0))
    assert isinstance(recipe, TabularRecipe)
    agent = TabularAgent(recipe, LAYOUT, seed=0)
    agent.set_learner(random_learner(rng, tables=1))
    q, rows = agent.learner.q[0].copy(), episode(rng, 40, terminated=True)
    for t in range(40):
        feed(agent, rows[t : t + 1])
        final = []  # n-step returns that are complete after this step, from the current table
        for begin in range(max(0, t - n + 1), t + 1):
            if begin == t - n + 1 or t == 39:
                rewards = sum(GAMMA**k * rows[begin + k][2] for k in range(t - begin + 1))
                final.append((begin, rewards + (0 if t == 39 else GAMMA ** (t - begin + 1) * max(q[rows[t][3]]))))
        for begin, target in final:
            q[rows[begin][0], rows[begin][1]] += 0.5 * (target - q[rows[begin][0], rows[begin][1]])
        np.testing.assert_allclose(agent.learner.q[0], q, atol=1e-12)


def test_an_endless_episode_is_learned() -> None:
    rng = np.random.default_rng(3)
    agent = TabularAgent(GEM_TABULAR.but(depth=4), LAYOUT)
    endless = [(*row[:4], False, False) for row in episode(rng, 30, terminated=True)]
    feed(agent, endless)
    assert agent.learner.updates.sum() == 27  # the last three may still be followed by longer rollouts
    assert int(agent.memory.unplanned[0]) == 3
    agent.abandon()
    assert agent.rounds_due(30, 31) == [31]
    agent.learn(31)
    assert agent.learner.updates.sum() == 30


def test_truncation_bootstraps_and_termination_does_not() -> None:
    learner = TabularLearner(np.full((2, 5, 2), 7.0), np.zeros((2, 5, 2), np.int64))
    for terminated, expected in ((True, 1 + 0.9 * 2), (False, 1 + 0.9 * 2 + 0.81 * 7)):
        agent = TabularAgent(GEM_TABULAR.but(gamma=GAMMA, planner=NStep(1000)), LAYOUT)
        agent.set_learner(learner)
        feed(agent, [(0, 1, 1.0, 1, False, False), (1, 0, 2.0, 2, terminated, not terminated)])
        changed = agent.learner.q[:, 0, 1]
        np.testing.assert_allclose(changed[changed != 7.0], [expected])  # the first step size is 1


@pytest.mark.parametrize(("algo", "converges"), [("gem", True), ("q-learning", True), ("double-q", True), ("nstep-q", False)])
def test_convergence_to_the_solved_optimum(algo: str, converges: bool) -> None:
    """Each pair is updated about 100 times or more, with step sizes that sum to more than 60: e^(-60 (1 - gamma)) is 1e-13.
    n-step returns follow random actions, so they do not converge to the optimum."""
    mdp = random_deterministic(np.random.default_rng(5), 1, states=5, actions=2, gamma=0.5)
    model = MODELS[algo](World(mdp), seed=0, gamma=0.5, exploration_final_eps=1.0).learn(3000)
    error = abs(live(model.agent.learner.q - q_star(mdp)[0], mdp)).max()
    assert (error < 1e-6) == converges, error
    if converges:
        states = np.flatnonzero(~mdp.terminal[0])
        assert model.predict(states)[0].tolist() == q_star(mdp)[0, states].argmax(-1).tolist()


def trained(**fields: Any) -> gemrl.Model:
    """A model after 300 steps in a random MDP."""
    mdp = random_deterministic(np.random.default_rng(6), 1, states=6, actions=3)
    return gemrl.GEM(World(mdp, limit=8), seed=0, **({"exploration_steps": 100, "replays": 1} | fields)).learn(300)


OTHER_VALUES: dict[str, Any] = {
    "gamma": 0.9,
    "planner": Single(1000),
    "tables": 3,
    "bootstrap": Crossed(),
    "step_size": StepSize(0.5),
    "initial_value": 1.0,
    "learning_starts": 100,
    "exploration_final_eps": 0.5,
    "exploration_steps": 200,
    "buffer_size": 50,
    "replays": 2,
}


def test_every_field_has_an_effect() -> None:
    """Including the fields of parts."""
    assert OTHER_VALUES.keys() == {field.name for field in dataclasses.fields(TabularRecipe)}
    for name, value in {**OTHER_VALUES, "depth": 2, "first": 0.5, "scale": 1.0, "power": 1.0}.items():
        needed: dict[str, Any] = {"planner": Single(5)} if name == "tables" else {}
        before, after = trained(**needed).agent.learner.q, trained(**(needed | {name: value})).agent.learner.q
        assert before.shape != after.shape or abs(before - after).max() > 1e-3, name


def test_the_fraction_of_random_actions() -> None:
    recipe = GEM_TABULAR.but(learning_starts=100, exploration_steps=200, exploration_final_eps=0.2)
    assert [round(recipe.epsilon(step), 3) for step in (0, 100, 200, 300, 9999)] == [1.0, 1.0, 0.6, 0.2, 0.2]
    agent = TabularAgent(GEM_TABULAR.but(exploration_final_eps=0.25, exploration_steps=1), LAYOUT, lanes=4000)
    agent.set_learner(TabularLearner(np.broadcast_to([0.0, 1.0], (2, 5, 2)), np.zeros((2, 5, 2), np.int64)))
    fraction = (agent.explore(np.zeros((4000, 1), np.int32), 10) == 0).mean()  # half of the random actions
    assert abs(fraction - 0.125) < 4 * np.sqrt(0.125 * 0.875 / 4000)
    agent.set_learner(TabularLearner(np.zeros((2, 5, 2)), np.zeros((2, 5, 2), np.int64)))
    fraction = agent.explore(np.zeros((4000, 1), np.int32), 10).mean()  # ties are broken evenly
    assert abs(fraction - 0.5) < 4 * 0.5 / np.sqrt(4000)


def test_an_agent_restored_from_a_snapshot_continues_identically() -> None:
    """In the middle of an episode, with unplanned rows, a wrapped ring, and replays of stored episodes."""
    recipe, rng = GEM_TABULAR.but(replays=2, buffer_size=60, depth=7), np.random.default_rng(7)
    one, two = (TabularAgent(recipe, LAYOUT, lanes=2, seed=seed) for seed in (0, 1))
    for length in (20, 15):
        feed(one, episode(rng, length, terminated=True), episode(rng, length, terminated=False))
    running = [episode(rng, 12, terminated=True) for _ in range(2)]
    feed(one, *(rows[:9] for rows in running))
    two.set_learner(one.learner)
    saved = one.snapshot()
    two.restore(type(saved)(json.loads(json.dumps(saved.facts)), {name: array.copy() for name, array in saved.arrays.items()}))
    for agent in (one, two):
        feed(agent, *(rows[9:] for rows in running))
    np.testing.assert_array_equal(one.learner.q, two.learner.q)
    np.testing.assert_array_equal(one.explore(np.zeros((2, 1), np.int32), 5), two.explore(np.zeros((2, 1), np.int32), 5))
    for lane in range(2):
        for name, column in one.memory.lane(lane).items():
            np.testing.assert_array_equal(column, two.memory.lane(lane)[name], err_msg=name)


def test_whole_episodes_are_replayed() -> None:
    """Every episode in a wrapped ring is drawn, without its overwritten rows; and a replay updates its pairs."""
    rng = np.random.default_rng(9)
    agent = TabularAgent(GEM_TABULAR.but(buffer_size=25), LAYOUT)
    episodes = [episode(rng, length, terminated=True) for length in (9, 8, 7, 6, 5)]
    for rows in episodes:
        feed(agent, rows)
    stored = agent.memory.rows
    drawn = set()
    for _ in range(200):
        lane, positions, count = agent._draw_episode()
        assert (lane, count) == (0, len(positions))
        drawn.add(tuple(zip(stored.observation[0, positions, 0].tolist(), stored.reward[0, positions].tolist(), strict=True)))
    survived = [episodes[1][-7:], *episodes[2:]]  # 25 rows: 7 of the 8 rows of the second episode, and all later ones
    assert drawn == {tuple((row[0], row[2]) for row in rows) for rows in survived}
    replaying = TabularAgent(GEM_TABULAR.but(replays=3), LAYOUT)
    feed(replaying, episodes[0])
    assert replaying.learner.updates.sum() == 4 * 9


def test_gem_is_gem_tabular_for_discrete_states_and_actions(tmp_path: Path) -> None:
    env = gym.make("FrozenLake-v1", is_slippery=False)
    model = gemrl.GEM(env, seed=0, exploration_steps=1500, exploration_final_eps=0.2, replays=3)
    assert (model.algo, type(model.agent)) == ("gem-tabular", TabularAgent)
    model.learn(3000)
    state, steps, ended = env.reset()[0], 0, False
    while not ended and steps < 20:
        state, reward, ended, *_ = env.step(model.predict(state, deterministic=True)[0])
        steps += 1
    assert (steps, reward) == (6, 1.0)  # the shortest path
    np.testing.assert_allclose(model.agent.learner.q[:, 0].max(-1), 0.99**5, rtol=1e-3)
    model.save(tmp_path / "lake")
    again = gemrl.load(tmp_path / "lake")
    np.testing.assert_array_equal(again.agent.learner.q, model.agent.learner.q)
    assert again.agent.learner.q.dtype == np.float64
    header = json.loads((tmp_path / "lake.json").read_text())
    header["observation_space"]["n"] = 10**6
    write_sealed(tmp_path / "lake.json", {name: value for name, value in header.items() if name != "seal"})
    with pytest.raises(ModelFileError, match="too small"):
        gemrl.load(tmp_path / "lake")


def test_invalid_spaces_and_fields_are_refused() -> None:
    with pytest.raises(UnsupportedSpace, match="q-learning needs discrete observations and actions"):
        algorithm_for("q-learning", Layout((3,), 1, choices=2))
    assert not GEM_TABULAR.fits(Layout((1,), 1, choices=10, dtype="int32", states=10**7))
    with pytest.raises(BadValue, match="tables must be 2"):
        GEM_TABULAR.but(tables=1)
    with pytest.raises(BadValue, match="tables must be 2"):
        RECIPES["double-q"].but(tables=3)
    with pytest.raises(BadValue, match="first must be a number from 0 to 1"):
        GEM_TABULAR.but(first=2.0)
    with pytest.raises(BadValue, match="not in the observation space"):
        trained().predict(6)


@pytest.mark.parametrize("mode", list(gym.vector.AutoresetMode))
def test_vector_environments(mode: gym.vector.AutoresetMode) -> None:
    """Consecutive rows are consecutive transitions of the MDP, in every autoreset mode."""
    mdp = random_deterministic(np.random.default_rng(8), 1, states=6, actions=3)
    envs = gym.vector.SyncVectorEnv([lambda: World(mdp, limit=8)] * 3, autoreset_mode=mode)
    model = gemrl.GEM(envs, seed=0).learn(300)
    assert len(model.memory) == model.num_timesteps
    for lane in range(3):
        rows = model.memory.lane(lane)
        state, action, next_state = (rows[name][:, 0] for name in ("observation", "action", "next_observation"))
        assert mdp.transition[0, state, action, next_state].all()
        inside = ~rows["last"][:-1]
        np.testing.assert_array_equal(next_state[:-1][inside], state[1:][inside])
    assert Twin(1000) == model.recipe.settable()["planner"]
