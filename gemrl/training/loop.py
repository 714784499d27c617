"""The training loops: environment -> memory -> round, or rounds alone, and scheduled evaluation.

They work with any algorithm and write no file.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np

from gemrl.agents.protocol import Agent
from gemrl.core.exceptions import BadValue
from gemrl.core.steps import Step
from gemrl.core.validation import check_number
from gemrl.envs.making import EnvironmentMaker, NamedEnv
from gemrl.envs.vector import AnyTask
from gemrl.training.evaluation import Evaluation, Evaluator
from gemrl.training.hindsight import Hindsight


@dataclass(frozen=True)
class Event:
    """What happened in one step of the environments or, offline, in one round; or what is about to happen."""

    step: int
    """The number of steps taken, all of which are in the memory; offline, the number of gradient steps."""
    taken: Step | None = None
    """The step of the environments; None in events that announce a round, and offline."""
    compiling: bool = False
    """True just before the first round with, or the first without, a refresh: compiling it may take seconds."""
    refreshing: bool = False
    """True just before a round that updates target networks or recomputes stored returns, which may take long."""
    rounds: int = 0
    """Number of training rounds after this step."""
    losses: dict[str, float] | None = None
    """Losses of the last of these rounds."""
    evaluation: Evaluation | None = None

    @property
    def announces(self) -> bool:
        """Whether it announces a round, rather than telling what has happened."""
        return self.compiling or self.refreshing


@dataclass(frozen=True)
class Schedule:
    """When to evaluate: every `every` steps and at the end."""

    evaluator: Evaluator
    every: int = 10_000

    def evaluation(self, agent: Agent, before: int, step: int, steps: int) -> Evaluation | None:
        """The evaluation that is due after the steps from `before` to `step` of `steps`, if one is."""
        due = step // self.every > before // self.every or step >= steps
        return self.evaluator(agent) if due else None


def scheduled(env: str | EnvironmentMaker, every: int, episodes: int, seed: int) -> Schedule:
    """A schedule of evaluations on environments with this id, or made by this function."""
    check_number("eval_every", every, 1, whole=True)
    check_number("eval_episodes", episodes, 1, whole=True)
    if not (isinstance(env, str) or callable(env)):
        raise BadValue(f"eval_env must be an id or a function that makes an environment, not {type(env).__name__}")
    maker = NamedEnv(env) if isinstance(env, str) else env
    return Schedule(Evaluator(maker, episodes=episodes, seed=seed), every)


def train(
    agent: Agent,
    task: AnyTask,
    steps: int,
    *,
    start: int = 0,
    schedule: Schedule | None = None,
    observation: np.ndarray | None = None,
) -> Iterator[Event]:
    """Trains from step `start` to step `steps` and yields events. Given an `observation`, it continues the running episode."""
    if observation is None:
        observation = task.reset()
    compiled: set[bool] = set()
    hindsight = Hindsight.of(agent, task)
    step = start
    while step < steps:
        before = step
        taken = task.step(observation, agent.explore(observation, before))
        observation = taken.observation
        agent.observe(taken.transition)
        if hindsight:
            hindsight.add(taken.transition)
        step += int(taken.transition.stored.sum())
        losses, rounds = None, agent.rounds_due(before, step)
        for due in rounds:  # several may follow one step of many environments
            losses = yield from _round(agent, due, step, compiled)
        evaluation = schedule.evaluation(agent, before, step, steps) if schedule else None
        yield Event(step, taken, rounds=len(rounds), losses=losses, evaluation=evaluation)


def train_offline(agent: Agent, steps: int, *, start: int = 0, schedule: Schedule | None = None) -> Iterator[Event]:
    """Trains on the memory as it is, from gradient step `start` to gradient step `steps`, and yields an event for each round.

    The rounds are those that would be due if environments were stepped between them.
    """
    rounds_due, per_round = agent.rounds_due(0, sys.maxsize - 1), agent.recipe.gradient_steps
    compiled: set[bool] = set()
    step = start
    while step < steps:
        before, step = step, step + per_round
        losses = yield from _round(agent, rounds_due[before // per_round], before, compiled)
        evaluation = schedule.evaluation(agent, before, step, steps) if schedule else None
        yield Event(step, rounds=1, losses=losses, evaluation=evaluation)


def _round(agent: Agent, due: int, step: int, compiled: set[bool]) -> Generator[Event, None, dict[str, float]]:
    """The round that is due at an environment step; announces it first if it may take long. `compiled` are kinds of rounds."""
    refreshing = agent.refreshes(due)
    compiling = agent.recipe.compiles and refreshing not in compiled
    if refreshing or compiling:
        yield Event(step, compiling=compiling, refreshing=refreshing)
        compiled.add(refreshing)
    return agent.learn(due)
