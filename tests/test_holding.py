"""The policy that is held for evaluations, compared with a plain loop over all training episodes so far."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import jax
import numpy as np
import pytest

from gemrl.agents.making import make_agent
from gemrl.agents.off_policy import OffPolicyAgent
from gemrl.agents.record import WINDOW, Record
from gemrl.algorithms.registry import RECIPES
from gemrl.core.snapshot import Snapshot
from gemrl.core.steps import Trajectory, Transition
from gemrl.envs.vector import as_task
from gemrl.training.loop import train
from tests.conftest import SMALL

PATIENCE = 2_500


def play(rng: np.random.Generator, steps: int, lanes: int) -> list[Transition]:
    """Random steps of environments whose episodes end at random, some by a time limit; some steps only reset."""
    empty, found = np.zeros((lanes, 1)), list[Transition]()
    for _ in range(steps):
        reward, end = rng.normal(size=lanes), rng.random((2, lanes)) < 0.002
        found.append(Transition(empty, empty, reward, *end, empty, rng.random(lanes) < 0.9))
    return found


def plain_decisions(steps: list[Transition], lanes: int) -> list[bool]:
    """The rule from its definition, with nothing but the list of all finished episodes."""
    time, running, finished = 0, [0.0] * lanes, list[tuple[int, float]]()
    best, held, decisions = -np.inf, None, list[bool]()
    for step in steps:
        time += int(step.stored.sum())
        ended = [bool(step.stored[lane] and (step.terminated[lane] or step.truncated[lane])) for lane in range(lanes)]
        for lane in range(lanes):
            running[lane] += step.reward[lane] if step.stored[lane] else 0.0
            if ended[lane]:
                finished.append((time, running[lane]))
                running[lane] = 0.0
        recent = [total for when, total in finished if when > time - WINDOW]
        hold = any(ended) and (held is None or time - held > PATIENCE or np.mean(recent) >= best)
        if hold:
            best, held = np.mean(recent), time
        decisions.append(hold)
    return decisions


@pytest.mark.parametrize("lanes", [1, 3])
def test_decisions_are_those_of_the_definition(lanes: int) -> None:
    """Also if the record is saved and restored on the way."""
    steps = play(np.random.default_rng(lanes), 12_000, lanes)
    record, found = Record(PATIENCE, lanes), list[bool]()
    for number, step in enumerate(steps):
        if number % 1_000 == 500:
            saved, record = record.snapshot(), Record(PATIENCE, lanes)
            record.restore(Snapshot(dict(saved.facts), {name: array.copy() for name, array in saved.arrays.items()}))
        found.append(record.add(step))
    expected = plain_decisions(steps, lanes)
    assert found == expected
    assert 3 < sum(expected) < sum(bool((step.stored & (step.terminated | step.truncated)).any()) for step in steps)


def made(**fields: Any) -> tuple[OffPolicyAgent, Any]:
    """A small agent and its task."""
    task = as_task(gym.make("InvertedPendulum-v5"), 3)
    recipe = RECIPES["gem"].but(**SMALL | {"policy_average": 20} | fields)
    agent: Any = make_agent(recipe, task.spaces.layout, lanes=1, seed=3, device=None)
    return agent, task


def leaves(tree: Any) -> list[np.ndarray]:
    return [np.array(leaf) for leaf in jax.tree.leaves(tree)]


def test_the_policy_of_the_best_episodes_acts_greedily() -> None:
    """It is the average of the newest policies at the last decision; until the first one, that of the newest round."""
    agent, task = made(policy_patience=120)
    record, expected, held = Record(120, 1), leaves(agent.learner.newest), 0
    states = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    for event in train(agent, task, 400):
        assert event.taken is not None or event.compiling or event.refreshing
        if event.taken is None:
            continue
        chosen = record.add(event.taken.transition) and event.step > 150  # the first round is at step 150
        held += chosen
        if chosen and not event.rounds:
            expected = leaves(agent.learner.newest)
        elif chosen:  # it was held before the round that followed
            expected = leaves(agent.learner.held.policy)
        if not held:
            expected = leaves(agent.learner.newest)
        for ours, theirs in zip(leaves(agent.learner.greedy), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert held > 2
    assert not np.array_equal(agent.learner.newest.actor(states), agent.act(states))
    np.testing.assert_allclose(agent.act(states), agent.learner.held.policy.actor(states), rtol=1e-5)


def test_training_is_the_same_without_it() -> None:
    """Up to rounding, since they are two programs."""
    (holding, task), (plain, other) = made(policy_patience=120), made()
    for agent, where in ((holding, task), (plain, other)):
        list(train(agent, where, 300))
    np.testing.assert_allclose(holding.memory.rows.action, plain.memory.rows.action, rtol=1e-3, atol=1e-4)
    for ours, theirs in zip(leaves(holding.learner.actor), leaves(plain.learner.actor), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-2, atol=1e-4)


def test_recorded_data_is_not_judged() -> None:
    """An expert's returns say nothing about the policy."""
    agent, _ = made(policy_patience=120)
    expert = Trajectory(np.zeros((6, 4), np.float32), np.zeros((5, 1), np.float32), np.full(5, 1000.0), terminated=True)
    agent.remember([expert], keep=False)
    assert agent.snapshot().part("record").facts["steps"] == 0
