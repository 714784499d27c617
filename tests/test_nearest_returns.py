"""Episodic memory actor-critic: the mean returns of nearest neighbours, compared with the definition in plain numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemrl.agents.continuous import FAMILY, update_memory
from gemrl.agents.learner import init_learner
from gemrl.agents.memory.ring import Memory, cut
from gemrl.algorithms.registry import RECIPES
from gemrl.algorithms.targets import BestReturn, NearestReturn, Planned, PlannedLengths, SelfImitation
from gemrl.cli.main import main
from gemrl.core.exceptions import BadValue
from gemrl.core.layout import Layout
from gemrl.training.models import MODELS
from tests.compiled import insert
from tests.conftest import SMALL, SMALL_WORDS
from tests.test_continuous import LAYOUT, host, random_rows, values_of

RECIPE: Any = RECIPES["emac"].but(net_arch=(8,))
updated = jax.jit(update_memory, static_argnums=(0, 3))


def returns_of(learner: Any, recipe: Any, rows: dict[str, np.ndarray]) -> np.ndarray:
    """The return of each row of a lane [n]: of up to `horizon` steps in its trajectory, then a value unless it terminated."""
    after, found = values_of(learner, recipe, rows["next_observation"])[0].astype(float), []
    for start in range(len(after)):
        total, factor = 0.0, 1.0
        for t in range(start, len(after)):
            total, factor = total + factor * rows["reward"][t], factor * rows["discount"][t]
            if rows["last"][t] or t + 1 - start == recipe.anchor.horizon:
                break
        found.append(total + factor * after[t])
    return np.array(found)


def mean_returns(projection: np.ndarray, rows: dict[str, np.ndarray], returns: np.ndarray, k: int) -> np.ndarray:
    """For each row, the mean return of the k nearest rows, itself included, weighted by the softmax of negative distances."""
    keys = np.concatenate([rows["observation"], rows["action"]], axis=1).astype(float) @ projection
    found = []
    for key in keys:
        distance = np.sqrt(((keys - key) ** 2).sum(axis=1))
        nearest = np.argsort(distance, kind="stable")[:k]
        weight = np.exp(-distance[nearest])
        found.append((weight / weight.sum() * returns[nearest]).sum())
    return np.array(found)


@pytest.mark.parametrize(("k", "lanes", "fields"), [(1, 1, {}), (2, 2, {"horizon": 3}), (4, 2, {"projection": 2})])
def test_memory_holds_the_mean_returns_by_definition(k: int, lanes: int, fields: dict[str, int]) -> None:
    """Every time that they are due; new rows have none until then. The ring wraps, so neighbours are overwritten."""
    recipe = RECIPE.but(k=k, **fields)
    learner = init_learner(recipe, LAYOUT, seed=0)
    memory = Memory.empty(lanes, 50, LAYOUT, 1, (), k - 1)
    for number, count in enumerate(([2, 1], [30, 20], [40, 0], [5, 37], [0, 0], [50, 3])):
        memory = insert(memory, random_rows(50, seed=number, lanes=lanes), jnp.array(count[:lanes]))
        before = np.array(memory.planned)
        _, memory = updated(recipe, learner, memory, False, jax.random.key(0))
        np.testing.assert_array_equal(memory.planned, before)
        _, memory = updated(recipe, learner, memory, True, jax.random.key(0))
        by_lane = [memory.lane(lane) for lane in range(lanes)]
        returns = np.concatenate([returns_of(learner, recipe, rows) for rows in by_lane])
        together = {name: np.concatenate([rows[name] for rows in by_lane]) for name in ("observation", "action")}
        expected = mean_returns(np.array(learner.projection), together, returns, k)
        found = np.concatenate([rows["planned"][0] for rows in by_lane])
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
        assert np.isnan(memory.planned).sum() == 50 * lanes - len(memory)
    assert ((np.abs(found - returns) > 1e-3).mean() > 0.8) == (k > 1)


def test_equal_steps_share_their_returns() -> None:
    """At distance 0, two rows count the same, whichever is older."""
    learner, rows = init_learner(RECIPE, LAYOUT, seed=0), random_rows(30)
    rows.observation[0, 20], rows.action[0, 20] = rows.observation[0, 3], rows.action[0, 3]
    memory = insert(Memory.empty(1, 50, LAYOUT, 1, (), 1), rows, jnp.array([30]))
    _, memory = updated(RECIPE, learner, memory, True, jax.random.key(0))
    returns = returns_of(learner, RECIPE, memory.lane())
    np.testing.assert_allclose(np.array(memory.planned)[0, 0, [3, 20]], returns[[3, 20]].mean(), rtol=1e-5)
    assert abs(returns[3] - returns[20]) > 0.1


def test_each_seed_has_its_own_projection_which_training_does_not_change() -> None:
    fields = SMALL | {"learning_starts": 20, "train_freq": 10, "every": 20}
    model = MODELS["emac"]("Pendulum-v1", seed=0, **fields)
    before = np.array(model.agent.learner.projection)
    model.learn(40)
    np.testing.assert_array_equal(model.agent.learner.projection, before)
    assert before.shape == (3 + 1, 4)
    others = [init_learner(RECIPE, Layout((3,), 1), seed).projection for seed in (0, 1)]
    np.testing.assert_array_equal(others[0], before)
    assert (np.array(others[1]) != before).all()
    wide = np.array(init_learner(RECIPE.but(projection=5000), Layout((3,), 1), 0).projection)
    assert abs(wide.mean()) < 0.05
    assert wide.std() == pytest.approx(1, abs=0.05)


def test_an_abandoned_trajectory_bootstraps_where_it_was_left() -> None:
    learner = init_learner(RECIPE, LAYOUT, seed=0)
    rows = random_rows(10)._replace(last=np.zeros((1, 10), bool), discount=np.full((1, 10), 0.99, np.float32))
    recipe = RECIPE.but(k=1)
    memory = cut(insert(Memory.empty(1, 50, LAYOUT, 1), rows, jnp.array([10])), jnp.array(0))
    memory = insert(memory, random_rows(10, seed=1), jnp.array([10]))
    _, memory = updated(recipe, learner, memory, True, jax.random.key(0))
    expected = (
        sum(0.99**t * rows.reward[0, t] for t in range(10))
        + 0.99**10 * values_of(learner, recipe, rows.next_observation[0])[0, 9]
    )
    np.testing.assert_allclose(host(memory.planned)[0, 0, 0], expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            {"targets": Planned(), "n_pairs": 2},
            "NearestReturn stores its own returns, so it needs Fresh targets and no SelfImitation",
        ),
        ({"targets": PlannedLengths()}, "stores its own returns"),
        ({"bound": SelfImitation()}, "stores its own returns"),
        ({"anchor": BestReturn()}, "anchor must be NoAnchor or NearestReturn, not BestReturn"),
        ({"joint_critics": True}, "joint_critics does not work with NearestReturn: set anchor=NoAnchor"),
        ({"weight": 1.1}, "weight must be a number from 0 to 1"),
        ({"k": 0}, "k must be a whole number of at least 1"),
        ({"projection": 0}, "projection must be a whole number of at least 1"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], line: str) -> None:
    with pytest.raises(BadValue, match=line):
        RECIPE.but(**change)
    if "anchor" in change:
        with pytest.raises(BadValue, match="anchor must be NoAnchor or BestReturn, not NearestReturn"):
            RECIPES["dqn"].but(anchor=NearestReturn())


def test_images_are_refused() -> None:
    with pytest.raises(BadValue, match="NearestReturn compares vectors, but these observations are images: set anchor=NoAnchor"):
        init_learner(RECIPE, Layout((40, 40, 3), 2, dtype="uint8"), 0)


class Corridor(gym.Env):
    """Twenty steps, whatever the action, and reward 1 at the end of them; observations say how far it is."""

    observation_space, action_space = gym.spaces.Box(0, 1, (1,)), gym.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        self.place = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.place += 1
        return np.full(1, self.place / 20, np.float32), float(self.place == 20), self.place == 20, False, {}


def test_returns_reach_the_start_before_targets_do() -> None:
    """With target networks that hardly move, a target knows of one step, but returns know of the reward at the end."""
    fields = SMALL | {"learning_starts": 200, "train_freq": 200, "gradient_steps": 1000, "learning_rate": 3e-3, "gamma": 0.95}
    fields |= {"tau": 1e-4, "net_arch": (32,)}

    def value(weight: float) -> float:
        model = MODELS["emac"](Corridor(), seed=0, **fields, weight=weight).learn(400)
        return float(model.agent.values(np.zeros((1, 1), np.float32), np.zeros((1, 1), np.float32))[0])

    assert value(1.0) == pytest.approx(0.95**19, abs=0.1)
    assert value(0.0) < 0.15


def test_returns_are_due_every_so_many_steps() -> None:
    assert [FAMILY.update_period(RECIPE.but(every=steps)) for steps in (50, 70)] == [50, 70]


def test_command_shows_its_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "Pendulum-v1", "--algo", "emac", "--steps", "400", "--eval-every", "400", "--eval-episodes", "1"]
    assert main([*words, "--run", str(tmp_path), *SMALL_WORDS, "every=100"]) == 0
    capsys.readouterr()
    assert main(["memory", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "emac on Pendulum-v1, seed 0, step 400: NStep(n=1000)" in shown
    assert "rows                 400 in 2 trajectories" in shown
    (gap,) = [line for line in shown.splitlines() if line.startswith("planned − observed")]
    assert abs(float(gap.split()[3].replace("−", "-"))) < 100
