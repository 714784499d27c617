"""Episodic memory DQN: the best returns of equal states and actions, compared with a table that is filled episode by episode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.wrappers import FrameStackObservation

from gemrl.agents.discrete_learner import init_learner
from gemrl.agents.memory.equals import best_of_equals, digests, row_digests
from gemrl.agents.memory.ring import Memory, Rows
from gemrl.algorithms.planning import Twin
from gemrl.algorithms.registry import RECIPES
from gemrl.algorithms.targets import BestReturn, Fresh, Planned
from gemrl.cli.main import main
from gemrl.core.exceptions import BadValue
from gemrl.core.layout import Layout
from gemrl.envs.single import Task
from gemrl.training.models import MODELS
from tests.compiled import discrete_update, insert
from tests.conftest import SMALL, SMALL_WORDS
from tests.test_frames import LAYOUT as SCREENS
from tests.test_frames import Screen, stored_in_memory

LAYOUT, GAMMA = Layout((2,), 1, 3), 0.9
RECIPE: Any = RECIPES["emdqn"].but(net_arch=(8,), gamma=GAMMA)


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "bool"])
def test_digests_are_equal_only_for_equal_rows(dtype: str) -> None:
    """Every row of a few small numbers: many differ in one place, in their order or in a sign only."""
    of_type: dict[str, list[float]] = {"float32": [-1.5, 0.0, 1.5, 1e-30], "bool": [0, 1]}
    numbers = of_type.get(dtype, [0, 1, 2, 77])
    places = 10 if dtype == "bool" else 5
    rows = np.stack(np.meshgrid(*[numbers] * places), axis=-1).reshape(-1, places).astype(dtype)
    found = np.array(jax.jit(digests)(jnp.array(rows)))
    assert len(np.unique(found, axis=0)) == len(rows) == len(numbers) ** places
    np.testing.assert_array_equal(digests(jnp.array(rows[::-1])), found[::-1])


def test_zeros_of_both_signs_are_equal() -> None:
    found = jax.jit(digests)(jnp.array([[0.0, 1.0], [-0.0, 1.0]]))
    np.testing.assert_array_equal(found[0], found[1])


def test_best_value_of_each_group() -> None:
    rng = np.random.default_rng(0)
    digest, values = rng.integers(0, 5, (60, 2)).astype(np.uint32), rng.normal(size=(2, 60)).astype(np.float32)
    values[:, rng.random(60) < 0.2] = np.nan
    table: dict[tuple[int, ...], np.ndarray] = {}
    for row in np.flatnonzero(~np.isnan(values[0])):
        key = tuple(digest[row])
        table[key] = np.maximum(table.get(key, values[:, row]), values[:, row])
    expected = [np.full(2, np.nan) if np.isnan(values[0, row]) else table[tuple(digest[row])] for row in range(60)]
    np.testing.assert_array_equal(jax.jit(best_of_equals)(values, digest), np.array(expected).T)
    assert len(table) < 26 < (~np.isnan(values[0])).sum()


def random_rows(rng: np.random.Generator, lanes: int, count: int) -> Rows:
    """Rows of nine states, -0.0 among their numbers, and three actions; some terminate, some are truncated."""
    shape = lanes, count
    terminated, truncated = rng.random((2, *shape)) < 0.06
    states = rng.choice(np.array([-0.0, 0.0, 1.0], np.float32), (2, *shape, 2))
    discount = np.where(terminated, 0, GAMMA).astype(np.float32)
    reward, action = rng.normal(size=shape).astype(np.float32), rng.integers(0, 3, (*shape, 1), dtype=np.int32)
    return Rows(states[0], action, reward, discount, terminated | truncated, states[1])


def best_returns(learner: Any, lanes: list[dict[str, np.ndarray]]) -> list[np.ndarray]:
    """The table of the paper, filled from every stored episode; then the entry of each row of each lane [n]."""
    table: dict[tuple[float, ...], float] = {}
    keys = [[(*map(float, np.abs(s)), int(a[0])) for s, a in zip(x["observation"], x["action"], strict=True)] for x in lanes]
    for rows, own in zip(lanes, keys, strict=True):
        after = np.array(learner.targets(rows["next_observation"]))[0].max(axis=1).astype(float)
        following = 0.0
        for t in reversed(range(len(own))):
            if rows["last"][t] or t == len(own) - 1:
                following = after[t]  # multiplied by a discount of 0 if the episode terminated
            following = rows["reward"][t] + rows["discount"][t] * following
            table[own[t]] = max(table.get(own[t], -np.inf), following)
    return [np.array([table[key] for key in own]) for own in keys]


def test_memory_holds_the_best_returns_by_definition() -> None:
    """Whenever the target networks are copied; new rows have no return until then. The ring wraps."""
    learner, rng = init_learner(RECIPE, LAYOUT, seed=0), np.random.default_rng(1)
    memory = Memory.empty(2, 50, LAYOUT, 1)
    for count in ([7, 30], [20, 0], [35, 40]):
        memory = insert(memory, random_rows(rng, 2, 40), jnp.array(count))
        before = np.array(memory.planned)
        _, memory = discrete_update(RECIPE, learner, memory, False)
        np.testing.assert_array_equal(memory.planned, before)
        learner, memory = discrete_update(RECIPE, learner, memory, True)
        lanes = [memory.lane(lane) for lane in range(2)]
        for rows, expected in zip(lanes, best_returns(learner, lanes), strict=True):
            np.testing.assert_allclose(rows["planned"][0], expected, rtol=1e-4, atol=1e-5)
        assert np.isnan(memory.planned[0]).sum() == 100 - len(memory)
    assert len(np.unique(np.array(memory.planned))) <= 27  # states and actions repeat, so returns do


class FewScreens(Screen):
    """Only two different screens."""

    def _screen(self) -> np.ndarray:
        return np.full((6, 5), self.np_random.integers(2), np.uint8)


def test_stacks_of_images_are_compared_as_a_whole() -> None:
    """The rows of a memory that stores each image once form the same groups as the stacks themselves."""
    task, rng, transitions = Task(FrameStackObservation(FewScreens(), 4), 0), np.random.default_rng(0), []
    observation = task.reset()
    for _ in range(250):
        step = task.step(observation, SCREENS.random_actions(1, rng))
        transitions.append(step.transition)
        observation = step.observation
    compact = stored_in_memory(SCREENS, transitions, 100)
    whole = stored_in_memory(SCREENS._replace(frames=1), transitions, 100)
    assert compact.frames is not None
    digest = np.array(row_digests(compact))[0]
    stacks = np.concatenate([np.array(whole.rows.observation[0]).reshape(100, -1), np.array(whole.rows.action[0])], axis=1)
    same = (stacks[:, None] == stacks[None]).all(axis=-1)
    np.testing.assert_array_equal((digest[:, None] == digest[None]).all(axis=-1), same)
    assert 100 < same.sum() < 2000
    np.testing.assert_array_equal((np.array(row_digests(whole))[0][:, None] == row_digests(whole)[0]).all(-1), same)


def test_a_second_kind_of_stored_returns_is_refused() -> None:
    with pytest.raises(BadValue, match="BestReturn stores its own returns, so it needs Fresh targets"):
        RECIPE.but(targets=Planned(Twin(5)), n_pairs=2)
    with pytest.raises(BadValue, match="anchor must be NoAnchor or BestReturn"):
        RECIPE.but(anchor=Fresh())
    with pytest.raises(BadValue, match="weight must be a number of at least 0"):
        BestReturn(weight=-1)


class Corridor(gym.Env):
    """Four steps, reward 1 at the end of them; the other action goes back to the start."""

    observation_space, action_space = gym.spaces.Discrete(4), gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        self.place = self.time = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.place, self.time = self.place + 1 if action else 0, self.time + 1
        done = self.place == 4
        return self.place % 4, float(done), done, self.time == 30, {}


def test_best_returns_reach_the_start_before_targets_do() -> None:
    """With one copy of the target networks, a target knows of one step, but the best returns know the way to the reward."""
    fields = SMALL | {"target_update_interval": 10_000, "gradient_steps": 400, "learning_rate": 1e-2, "gamma": GAMMA}

    def value(**anchor: Any) -> float:
        model = MODELS["emdqn"](Corridor(), seed=0, **fields | {"exploration_steps": 10_000} | anchor)
        model.learn(400)
        q = model.agent.values(np.zeros((1, 1), np.int32), np.ones((1, 1), np.int32))
        return float(q[0])

    pulled, free = value(weight=100.0), value(weight=0.0)
    assert pulled == pytest.approx(GAMMA**3, abs=0.1)
    assert free < GAMMA**3 - 0.3


def test_command_shows_its_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where states repeat, the best return is above the one that followed."""
    words = ["train", "FrozenLake-v1", "--algo", "emdqn", "--steps", "1000", "--eval-every", "1000", "--eval-episodes", "1"]
    words += ["--env-args", "is_slippery=False", "--run", str(tmp_path)]
    assert main([*words, *SMALL_WORDS, "exploration_steps=5000"]) == 0
    capsys.readouterr()
    assert main(["memory", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "emdqn on FrozenLake-v1 (is_slippery=False), seed 0, step 1,000: NStep(n=1000)" in shown
    (gap,) = [line for line in shown.splitlines() if line.startswith("planned − observed")]
    assert float(gap.split()[3]) > 0
    assert "rows                 1,000 in" in shown
