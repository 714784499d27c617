"""Trials of policies in training, compared with a plain simulation, and who acts in them and after them."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import numpy as np
import pytest

from gemrl.agents.averaging import follow, judge, try_out
from gemrl.agents.making import make_agent
from gemrl.agents.off_policy import OffPolicyAgent
from gemrl.agents.trials import TRIAL_STEPS, Change, Trials
from gemrl.algorithms.distributions import Gaussian
from gemrl.algorithms.registry import GEM, RECIPES
from gemrl.core.snapshot import Snapshot
from gemrl.core.steps import Trajectory, Transition
from gemrl.envs.vector import as_task
from gemrl.training.loop import train
from tests.conftest import SMALL


def play(rng: np.random.Generator, steps: int, lanes: int) -> list[Transition]:
    """Random steps of environments whose episodes end at random, some by a time limit; some steps only reset."""
    empty, found = np.zeros((lanes, 1)), list[Transition]()
    for _ in range(steps):
        terminated, truncated = rng.random((2, lanes)) < 0.004
        found.append(Transition(empty, empty, rng.normal(size=lanes), terminated, truncated, empty, rng.random(lanes) < 0.9))
    return found


def simulated(steps: list[Transition], lanes: int, every: int, start: int) -> list[Change]:
    """The rule as its definition says it: lists of episodes, each with whether it belongs to the trial."""
    trial: Any = None
    time, due = 0, start + every
    episodes: list[dict[str, Any]] = [{"rewards": [], "trial": None} for _ in range(lanes)]
    changes = list[Change]()
    for step in steps:
        ended = [lane for lane in range(lanes) if step.stored[lane] and (step.terminated[lane] or step.truncated[lane])]
        time += int(step.stored.sum())
        for lane in range(lanes):
            if step.stored[lane]:
                episodes[lane]["rewards"].append(float(step.reward[lane]))
                if episodes[lane]["trial"] is not None:
                    episodes[lane]["trial"]["steps"] += 1
        for lane in ended:
            if episodes[lane]["trial"] is not None:
                episodes[lane]["trial"]["returns"].append(sum(episodes[lane]["rewards"]))
        starts = trial is None and time >= due and bool(ended)
        if starts:
            trial, due = {"steps": 0, "returns": []}, time + every
        for lane in ended:
            joins = trial is not None and trial["steps"] < TRIAL_STEPS
            episodes[lane] = {"rewards": [], "trial": trial if joins else None}
        over = trial and trial["steps"] >= TRIAL_STEPS and all(episode["trial"] is None for episode in episodes)
        changes.append(Change(starts, float(np.mean(trial["returns"])) if over and trial else None))
        trial = None if over else trial
    return changes


@pytest.mark.parametrize("lanes", [1, 3])
def test_trials_are_those_of_the_definition(lanes: int) -> None:
    """Also if they are saved and restored on the way."""
    steps = play(np.random.default_rng(lanes), 15_000, lanes)
    trials, found = Trials(2_500, 500, lanes), list[Change]()
    for number, step in enumerate(steps):
        if number % 1_000 == 500:
            saved, trials = trials.snapshot(), Trials(2_500, 500, lanes)
            trials.restore(Snapshot(dict(saved.facts), {name: array.copy() for name, array in saved.arrays.items()}))
        found.append(trials.add(step))
    expected = simulated(steps, lanes, 2_500, 500)
    assert [change.starts for change in found] == [change.starts for change in expected]
    ours, theirs = ([np.nan if change.score is None else change.score for change in changes] for changes in (found, expected))
    np.testing.assert_allclose(ours, theirs)
    assert np.isfinite(ours).sum() >= 4


def made(**fields: Any) -> tuple[OffPolicyAgent, Any]:
    """A small agent and its task."""
    task = as_task(gym.make("InvertedPendulum-v5"), 3)
    recipe = RECIPES["gem"].but(**SMALL | {"policy_average": 20, "distribution": Gaussian()} | fields)
    agent: Any = make_agent(recipe, task.spaces.layout, lanes=1, seed=3, device=None)
    return agent, task


def leaves(tree: Any) -> list[np.ndarray]:
    return [np.array(leaf) for leaf in jax.tree.leaves(tree)]


def assert_same(ours: Any, theirs: Any) -> None:
    for one, other in zip(leaves(ours), leaves(theirs), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_newest_policy_plays_a_trial_and_the_best_one_acts_greedily(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four trials are kept; before the first one has ended, the newest policy acts greedily."""
    monkeypatch.setattr("gemrl.agents.trials.TRIAL_STEPS", 20)
    agent, task = made(trial_every=60)
    trials, known, played = Trials(60, 100, 1), list[list[Any]](), 0
    for event in train(agent, task, 900):
        if event.taken is None:
            continue
        step, trying = event.taken.transition, bool(trials.trying[0])
        if trying:
            played += 1
            expected = known[-1][0].actor(step.observation)
            np.testing.assert_allclose(step.action, expected, rtol=1e-4, atol=1e-5)
        starts, score = trials.add(step)
        if score is not None:
            known[-1][1] = score
            best = max(known[:-5:-1], key=lambda one: one[1])[0]  # the newest of equals
            assert_same(agent.learner.greedy, best)
        if starts:
            newest = jax.tree.map(lambda x: x[0], agent.learner.tried.policies)
            known.append([jax.tree.map(np.array, newest), -np.inf])
            if not event.rounds:
                assert_same(newest, agent.learner.newest)
        if not any(np.isfinite(one[1]) for one in known):
            assert_same(agent.learner.greedy, agent.learner.newest)
    assert len(known) > 6
    assert played > 100


def test_the_best_of_the_last_four_trials_acts_greedily() -> None:
    """The newest of equals, and nothing older than four trials."""
    agent, _ = made(trial_every=60)
    learner, policies, scores = agent.learner, list[Any](), [3.0, 1.0, 2.0, 2.0, 0.0, -1.0, 5.0, 5.0, 4.0]
    for number, score in enumerate(scores):
        newest = jax.tree.map(lambda x, number=number: x + number, learner.average)
        learner = judge(try_out(eqx.tree_at(lambda x: x.average, learner, newest)), score)
        policies.append(newest)
        best = max(range(max(0, number - 3), number + 1), key=lambda trial: (scores[trial], trial))
        assert_same(learner.greedy, policies[best])
        assert_same(follow(GEM.but(policy_average=20), learner).greedy, policies[best])


def test_recorded_data_does_not_count() -> None:
    """An expert's returns say nothing about the policy."""
    agent, _ = made(trial_every=120)
    expert = Trajectory(np.zeros((6, 4), np.float32), np.zeros((5, 1), np.float32), np.full(5, 1000.0), terminated=True)
    agent.remember([expert], keep=False)
    assert agent.snapshot().part("trials").facts["steps"] == 0


def test_a_trial_goes_on_after_its_episode_was_cut_off() -> None:
    """A second call of `learn` begins new episodes, whose returns do not include the old ones."""
    empty, never = np.zeros((1, 1)), np.zeros(1, bool)

    def step(reward: float, *, ends: bool = False) -> Transition:
        return Transition(empty, empty, np.array([reward]), np.array([ends]), never, empty, ~never)

    trials = Trials(1, 0, 1)
    assert trials.add(step(1, ends=True)).starts
    trials.add(step(100))
    trials.abandon()
    assert trials.trying.all()
    assert [trials.add(step(1)) for _ in range(TRIAL_STEPS - 2)] == [Change()] * (TRIAL_STEPS - 2)
    assert trials.add(step(2, ends=True)).score == TRIAL_STEPS
