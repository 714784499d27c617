"""Hindsight: copies of episodes with goals that they reached, as trajectories in the memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import gemrl
from gemrl.agents.memory.newest import newest_trajectory
from gemrl.agents.memory.ring import Memory
from gemrl.cli.main import main
from gemrl.core.exceptions import BadValue, EnvironmentFault
from gemrl.core.layout import Layout
from gemrl.core.steps import Trajectory
from gemrl.envs.goals import goals_of
from gemrl.envs.spaces import Spaces
from gemrl.training.hindsight import relabelled
from gemrl.training.models import MODELS
from tests.compiled import insert
from tests.conftest import SMALL
from tests.goal_worlds import NEAR, Ending, Reach
from tests.test_continuous import LAYOUT, random_rows
from tests.torture import differences

ACHIEVED, DESIRED, OBSERVATION = slice(0, 2), slice(2, 4), slice(4, 7)
"""Where the vector of an observation has its entries: gymnasium sorts those of a Dict by name."""


def episode(env: Reach, seed: int = 0) -> Trajectory:
    """Random play, as an agent sees it."""
    rng, spaces = np.random.default_rng(seed), Spaces.of(env)
    observation = [spaces.agent_observation(env.reset(seed=seed)[0])]
    actions, rewards = [], []
    while True:
        action = rng.uniform(-1, 1, 2).astype(np.float32)
        after, reward, terminated, truncated, _ = env.step(action)
        observation.append(spaces.agent_observation(after))
        actions.append(action)
        rewards.append(reward)
        if terminated or truncated:
            return Trajectory(np.array(observation), np.array(actions), np.array(rewards, np.float32), terminated)


def check_copy(copy: Trajectory, original: Trajectory, *, ends: bool) -> None:
    """A copy has the same steps with another goal, which its last step reached, and the rewards of that goal."""
    goal, steps = copy.observation[0, DESIRED], copy.steps
    np.testing.assert_array_equal(copy.observation[:, DESIRED], np.tile(goal, (steps + 1, 1)))
    for part in (OBSERVATION, ACHIEVED):
        np.testing.assert_array_equal(copy.observation[:, part], original.observation[: steps + 1, part])
    np.testing.assert_array_equal(copy.action, original.action[:steps])
    near = [float(np.sqrt(((place - goal) ** 2).sum())) <= NEAR for place in copy.observation[1:, ACHIEVED]]
    np.testing.assert_array_equal(copy.reward, [0.0 if one else -1.0 for one in near])
    assert near[-1]
    assert copy.terminated == ends
    if ends:
        assert not any(near[:-1])


@pytest.mark.parametrize("kind", [Reach, Ending])
def test_copies_are_what_would_have_happened_with_the_goal(kind: type[Reach]) -> None:
    env = kind()
    goals = goals_of(env, Spaces.of(env))
    assert (goals.desired, goals.achieved) == (DESIRED, ACHIEVED)
    original = episode(env)
    lengths = []
    for end in range(original.steps):
        copy = relabelled(goals, original, end)
        check_copy(copy, original, ends=kind is Ending)
        lengths.append(copy.steps)
    if kind is Reach:
        assert lengths == list(range(1, original.steps + 1))
        assert not original.terminated


def test_a_terminal_state_stays_one_if_the_environment_does_not_say_more() -> None:
    env = Reach()
    goals, original = goals_of(env, Spaces.of(env)), episode(env)._replace(terminated=True)
    assert relabelled(goals, original, original.steps - 1).terminated
    assert not relabelled(goals, original, original.steps - 2).terminated


def test_newest_trajectory_is_read_back() -> None:
    """Against a list of all rows, while the ring wraps, for episodes of one step and for those longer than the first look."""
    memory = Memory.empty(2, 150, LAYOUT, 1)
    rng = np.random.default_rng(0)
    kept: list[list[dict[str, np.ndarray]]] = [[], []]
    for number, ending in enumerate([0.5, 0.0, 0.0, 0.02, 0.0, 0.0, 0.3]):
        rows = random_rows(40, number, lanes=2)
        rows = rows._replace(last=rng.random((2, 40)) < ending)
        memory = insert(memory, rows, np.array([40, 25]))
        for lane, count in ((0, 40), (1, 25)):
            kept[lane] += [{name: column[lane, row] for name, column in rows.columns().items()} for row in range(count)]
            kept[lane] = kept[lane][-150:]
            newest = len(kept[lane]) - 1
            first = newest
            while first > 0 and not kept[lane][first - 1]["last"]:
                first -= 1
            found = newest_trajectory(memory, lane)
            wanted = kept[lane][first:]
            assert found.steps == len(wanted)
            np.testing.assert_array_equal(found.observation[:-1], [row["observation"] for row in wanted])
            np.testing.assert_array_equal(found.observation[-1], wanted[-1]["next_observation"])
            np.testing.assert_array_equal(found.reward, [row["reward"] for row in wanted])
            np.testing.assert_array_equal(found.action, [row["action"] for row in wanted])
            assert found.terminated == (wanted[-1]["discount"] == 0)


def trajectories(memory: Memory, lane: int) -> list[dict[str, np.ndarray]]:
    """The rows of a lane, split where a trajectory ends."""
    rows = memory.lane(lane)
    ends = np.flatnonzero(rows["last"])
    columns = ("observation", "action", "reward", "discount", "next_observation")
    starts = np.append(0, ends[:-1] + 1)
    return [{name: rows[name][a : b + 1] for name in columns} for a, b in zip(starts, ends, strict=True)]


@pytest.mark.parametrize("kind", [Reach, Ending])
def test_memory_holds_each_episode_and_its_copies(kind: type[Reach]) -> None:
    model = gemrl.TD3([kind(12), kind(7)], seed=0, hindsight=3, **SMALL)
    model.learn(150)
    for lane in range(2):
        found = trajectories(model.agent.memory, lane)
        for start in range(0, len(found) - len(found) % 4, 4):
            one, *copies = found[start : start + 4]
            assert len(one["reward"]) <= (12, 7)[lane]
            original = Trajectory(
                np.append(one["observation"], one["next_observation"][-1:], axis=0), one["action"], one["reward"], False
            )
            for copy in copies:
                whole = np.append(copy["observation"], copy["next_observation"][-1:], axis=0)
                again = Trajectory(whole, copy["action"], copy["reward"], bool(copy["discount"][-1] == 0))
                check_copy(again, original, ends=kind is Ending)
        assert len(found) >= 8


@pytest.mark.parametrize("algo", ["gem2", "sac"])
def test_resumed_run_is_the_same(tmp_path: Path, algo: str) -> None:
    words = [
        "train",
        "tests.goal_worlds:Reach-v0",
        "--algo",
        algo,
        "--eval-every",
        "100",
        "--eval-episodes",
        "2",
        "--n-envs",
        "2",
    ]
    words += ["--set", "net_arch=(16,)", "learning_starts=100", "buffer_size=500", "batch_size=16", "hindsight=2"]
    words += ["train_freq=50", "gradient_steps=4", *(["features=8", "every=50"] if algo == "gem2" else [])]
    assert main([*words, "--steps", "400", "--run", str(tmp_path / "one")]) == 0
    assert main([*words, "--steps", "250", "--run", str(tmp_path / "two")]) == 0
    assert main(["resume", str(tmp_path / "two"), "--steps", "400"]) == 0
    assert set(differences(tmp_path / "one", tmp_path / "two")) <= {"evaluations.csv", "checkpoint evaluations.csv"}


def successes(model: Any) -> float:
    """The fraction of 40 episodes that end at their goal."""
    env, reached = Reach(), 0
    for seed in range(40):
        observation, _ = env.reset(seed=1000 + seed)
        done = False
        while not done:
            observation, reward, _, done, _ = env.step(model.predict(observation, deterministic=True)[0])
        reached += reward == 0
    return reached / 40


def test_it_learns_what_is_hardly_ever_rewarded_by_chance() -> None:
    """td3 reaches most goals with hindsight, and few without."""
    fields: dict[str, Any] = {"net_arch": (64, 64), "learning_starts": 400, "batch_size": 128, "buffer_size": 30_000}
    fields |= {"train_freq": 20, "gradient_steps": 20, "gamma": 0.9, "tau": 0.02}
    rates = [successes(MODELS["td3"](Reach(), seed=0, hindsight=copies, **fields).learn(3000)) for copies in (8, 0)]
    assert rates[0] >= 0.9
    assert rates[1] <= 0.5


class Silent(gym.ObservationWrapper):
    """Leaves the goals out."""

    def __init__(self) -> None:
        super().__init__(Reach())
        self.observation_space = gym.spaces.Dict({"observation": gym.spaces.Box(-1, 1, (3,)), "x": gym.spaces.Box(-1, 1, (1,))})

    def observation(self, observation: dict[str, Any]) -> dict[str, Any]:
        return {"observation": observation["observation"], "x": np.zeros(1, np.float32)}


class Broken(Reach):
    """Answers one goal at a time."""

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return -1.0


def test_environments_without_goals_are_refused() -> None:
    with pytest.raises(BadValue, match="no achieved_goal"):
        gemrl.TD3(Silent(), hindsight=1, **SMALL).learn(10)
    with pytest.raises(BadValue, match="Dict observations"):
        gemrl.TD3("Pendulum-v1", hindsight=1, **SMALL).learn(10)


def test_rewards_of_many_goals_must_be_as_many() -> None:
    goals = goals_of(Broken(), Spaces.of(Broken()))
    with pytest.raises(EnvironmentFault, match="20 goals at once"):
        goals.reward(np.zeros((20, 2)), np.zeros((20, 2)))


def test_goals_of_another_size_are_refused() -> None:
    env = Reach()
    spaces = Spaces(
        gym.spaces.Dict({"achieved_goal": env.action_space, "desired_goal": gym.spaces.Box(-1, 1, (3,))}), env.action_space
    )
    with pytest.raises(BadValue, match="same shape"):
        goals_of(env, spaces)


class OneByOne(Reach):
    """Says for one goal at a time whether it ends an episode, as gymnasium-robotics does."""

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> bool:
        raise AssertionError("it is not called")


def test_a_method_for_single_goals_is_not_called() -> None:
    env = OneByOne()
    goals, original = goals_of(env, Spaces.of(env)), episode(env)
    assert relabelled(goals, original, 5).steps == 6


class Grid(Reach):
    """Goals of two axes."""

    def __init__(self) -> None:
        super().__init__()
        place = gym.spaces.Box(-1, 1, (1, 2))
        spaces: dict[str, gym.Space] = {"observation": gym.spaces.Box(-1, 1, (3,)), "desired_goal": place, "achieved_goal": place}
        self.observation_space = gym.spaces.Dict(spaces)

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        assert achieved.shape[1:] == desired.shape[1:] == (1, 2)
        return np.zeros(len(achieved))


def test_goals_have_their_own_shape() -> None:
    env = Grid()
    assert goals_of(env, Spaces.of(env)).reward(np.zeros((4, 2)), np.zeros((4, 2))).shape == (4,)


def test_layout_is_that_of_vectors() -> None:
    assert Spaces.of(Reach()).layout == Layout((7,), 2)
