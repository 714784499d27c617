"""Episodic backward update: its planner compared with the paper's algorithm on explicit tables of Q-values."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemrl.agents.discrete_learner import init_learner
from gemrl.agents.memory.ring import Memory, Rows
from gemrl.algorithms.backward import Backward
from gemrl.algorithms.bootstraps import best_other, value_of
from gemrl.algorithms.planning import NStep, Single
from gemrl.algorithms.registry import GEM, RECIPES
from gemrl.cli.main import main
from gemrl.core.exceptions import BadValue
from gemrl.core.layout import Layout
from gemrl.training.models import MODELS
from tests.compiled import discrete_update, insert
from tests.conftest import SMALL_WORDS

LAYOUT = Layout((2,), 1, 3)


class Steps(NamedTuple):
    """Consecutive steps of one lane, with the Q-values of the state after each."""

    reward: np.ndarray  # [N]
    discount: np.ndarray  # [N]
    last: np.ndarray  # [N]
    action: np.ndarray  # [N], the action of each step
    q: np.ndarray  # [N, A], of the next state


def backward_targets(steps: Steps, beta: float) -> np.ndarray:
    """The paper's algorithm for one episode after the other: from its last step back, each target enters the table of the
    step before it, in place of the action that led there [N]."""
    table, targets = steps.q.copy(), np.zeros(len(steps.reward))
    for t in reversed(range(len(targets))):
        if not steps.last[t] and t + 1 < len(targets):
            taken = steps.action[t + 1]
            table[t, taken] = beta * targets[t + 1] + (1 - beta) * table[t, taken]
        targets[t] = steps.reward[t] + steps.discount[t] * table[t].max()
    return targets


def up_to(steps: Steps, depth: int, beta: float) -> np.ndarray:
    """The same, where the target of step t knows of the steps t to t + depth - 1 only."""
    starts = range(len(steps.reward))
    return np.array([backward_targets(Steps(*(x[t : t + depth] for x in steps)), beta)[0] for t in starts])


def inputs_of(steps: Steps) -> dict[str, np.ndarray]:
    """What a planner sees of the steps; values of the next action are arbitrary where an episode ends."""
    after = np.append(steps.action[1:], 0)
    others = [np.delete(row, taken) for row, taken in zip(steps.q, after, strict=True)]
    other = np.array([row.max(initial=-np.inf) for row in others])
    ended = steps.last | (np.arange(len(after)) == len(after) - 1)
    return {
        "reward": steps.reward,
        "discount": steps.discount,
        "last": steps.last,
        "q_next": steps.q.max(axis=1)[None],
        "q_stored": np.where(ended, 7e3, steps.q[np.arange(len(after)), after])[None],
        "q_other": np.where(ended, 9e3, other)[None],
    }


@st.composite
def several_steps(draw: st.DrawFn) -> Steps:
    """Steps with terminations and time limits, and one to four actions."""
    count, actions = draw(st.integers(1, 40)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    ending = draw(st.sampled_from([0.0, 0.1, 0.5]))
    terminated, truncated = rng.random(count) < ending / 2, rng.random(count) < ending / 2
    discount = np.where(terminated, 0.0, draw(st.sampled_from([0.0, 0.5, 0.99, 1.0])))
    q = rng.normal(size=(count, actions)) * draw(st.sampled_from([0.1, 10.0]))
    return Steps(rng.normal(size=count), discount, terminated | truncated, rng.integers(0, actions, count), q)


@settings(max_examples=200, deadline=None)
@given(several_steps(), st.integers(1, 50), st.sampled_from([0.01, 0.3, 0.5, 1.0]))
def test_targets_equal_the_definition(steps: Steps, depth: int, beta: float) -> None:
    planned = Backward(beta, depth)(**inputs_of(steps))[0]
    np.testing.assert_allclose(planned, up_to(steps, depth, beta), rtol=1e-9, atol=1e-9)
    whole = Backward(beta, len(steps.reward))(**inputs_of(steps))[0]
    np.testing.assert_allclose(whole, backward_targets(steps, beta), rtol=1e-9, atol=1e-9)


@settings(max_examples=100, deadline=None)
@given(several_steps(), st.integers(1, 50))
def test_lengths_count_the_steps_at_which_the_taken_action_was_best(steps: Steps, depth: int) -> None:
    beta, inputs = 0.5, inputs_of(steps)
    lengths = Backward(beta, depth).chosen(**inputs)[0]
    for t, length in enumerate(lengths):
        followed = Steps(*(x[t : t + depth] for x in steps))
        targets, count = backward_targets(followed, beta), 1
        while count < len(targets) and not followed.last[count - 1]:
            entry = beta * targets[count] + (1 - beta) * followed.q[count - 1, followed.action[count]]
            if entry <= inputs["q_other"][0, t + count - 1] or followed.discount[count - 1] == 0:
                break
            count += 1
        if steps.discount[t]:  # without a discount all lengths have the same return
            assert length == count


def test_special_cases() -> None:
    """One step is Q-learning. If other actions are worth nothing, beta = 1 gives the return of the episode."""
    rng = np.random.default_rng(0)
    steps = Steps(rng.normal(size=30), np.full(30, 0.9), rng.random(30) < 0.1, np.zeros(30, int), rng.normal(size=(30, 2)))
    inputs = inputs_of(steps)
    plain = {name: inputs[name] for name in ("reward", "discount", "last", "q_next")}
    np.testing.assert_allclose(Backward(0.5, 1)(**inputs), NStep(1)(**plain), rtol=1e-12)
    alone = inputs | {"q_other": np.full((1, 30), -np.inf)}
    np.testing.assert_allclose(Backward(1.0, 30)(**alone), NStep(30)(**plain), rtol=1e-12)
    never_best = steps._replace(q=np.stack([steps.q.min(1) - 9, steps.q.max(1)], axis=1))  # the taken action is the first one
    upper = Single(30)(**plain | {"q_next": never_best.q.max(1)[None]})
    np.testing.assert_allclose(Backward(1.0, 30)(**inputs_of(never_best)), upper, rtol=1e-12)


def test_values_of_the_taken_and_of_the_best_other_action() -> None:
    q, action = np.array([[[1.0, 5.0, 3.0], [4.0, 2.0, 0.0]]]), np.array([[1, 2]])
    assert value_of(q, action).tolist() == [[5, 0]]
    assert best_other(q, action).tolist() == [[3, 4]]
    assert best_other(q[..., :1], action * 0).tolist() == [[-np.inf, -np.inf]]


def test_missing_values_and_continuous_actions_are_refused() -> None:
    row, estimate = np.ones(3), np.ones((1, 3))
    with pytest.raises(BadValue, match=r"q_stored \[K, N\]"):
        Backward()(row, row, row > 1, estimate)
    with pytest.raises(BadValue, match=r"q_other \[K, N\]"):
        Backward()(row, row, row > 1, estimate, estimate)
    with pytest.raises(BadValue, match="needs discrete actions"):
        GEM.but(planner=Backward())
    with pytest.raises(BadValue, match=r"beta must be a number from 0\.01 to 1"):
        Backward(0.0)


def random_rows(rng: np.random.Generator, lanes: int, count: int) -> Rows:
    """Random rows of three actions; some terminate, some are truncated."""
    shape = lanes, count
    terminated, truncated = rng.random((2, *shape)) < 0.05
    states = rng.normal(size=(2, *shape, 2)).astype(np.float32)
    discount = np.where(terminated, 0, 0.9).astype(np.float32)
    actions = rng.integers(0, 3, (*shape, 1), dtype=np.int32)
    reward = rng.normal(size=shape).astype(np.float32)
    return Rows(states[0], actions, reward, discount, terminated | truncated, states[1])


def check_by_definition(recipe: Any, learner: Any, memory: Memory, lane: int) -> None:
    """The planned returns of a lane equal the targets of explicit tables."""
    rows = memory.lane(lane)
    q = np.array(learner.targets(rows["next_observation"]))[0].astype(float)
    steps = Steps(rows["reward"].astype(float), rows["discount"].astype(float), rows["last"], rows["action"][:, 0], q)
    np.testing.assert_allclose(rows["planned"][0], up_to(steps, recipe.planner.depth, 0.5), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("depth", [6, 1000])
def test_memory_holds_the_targets_by_definition(depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """After new rows, when only these are evaluated, and after the target networks were copied; the ring wraps twice."""
    monkeypatch.setattr("gemrl.agents.memory.refreshing.NEWEST", 9)
    recipe: Any = RECIPES["ebu"].but(net_arch=(16,), depth=depth, train_freq=4)
    learner, rng = init_learner(recipe, LAYOUT, seed=0), np.random.default_rng(1)
    memory = Memory.empty(2, 40, LAYOUT, 1, recipe.planner.extra)
    networks = [init_learner(recipe, LAYOUT, seed=seed).networks for seed in (1, 2)]
    for block in range(14):
        memory = insert(memory, random_rows(rng, 2, 8), jnp.array(rng.integers(0, 9, 2)))
        due = block % 5 == 0
        if due:
            learner = learner.__class__(**vars(learner) | {"networks": networks[block % 2]})
        learner, memory = discrete_update(recipe, learner, memory, due)
        for lane in range(2):
            check_by_definition(recipe, learner, memory, lane)


def test_tables_learn_with_it() -> None:
    """Numbered states: on a corridor with a reward at its end, one episode is enough for the values of all its steps."""
    model = MODELS["q-learning"](
        gym.make("FrozenLake-v1", is_slippery=False),
        seed=0,
        planner=Backward(1.0),
        power=0.0,
        exploration_steps=3000,
        gamma=0.9,
    ).learn(6000)
    best = model.agent.learner.q[0].max(axis=1)
    np.testing.assert_allclose(best[[0, 4, 8, 9, 13, 14]], 0.9 ** np.array([5, 4, 3, 2, 1, 0]), rtol=1e-6)


def test_command_shows_its_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "CartPole-v1", "--algo", "ebu", "--steps", "300", "--eval-every", "300", "--eval-episodes", "1"]
    assert main([*words, *SMALL_WORDS, "depth=20", "--run", str(tmp_path)]) == 0
    capsys.readouterr()
    assert main(["memory", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "ebu on CartPole-v1, seed 0, step 300: Backward(beta=0.5, depth=20)" in shown
    assert "300 in" in shown
    assert (tmp_path / "memory.png").read_bytes()[:4] == b"\x89PNG"
