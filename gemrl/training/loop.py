"""The training loop: environment -> memory -> round, and evaluation on a schedule. It knows no algorithm and writes no file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gemrl.agents.protocol import Agent
from gemrl.core.exceptions import BadValue
from gemrl.core.steps import Step
from gemrl.core.validation import check_number
from gemrl.envs.making import EnvironmentMaker, NamedEnv
from gemrl.envs.vector import AnyTask
from gemrl.training.evaluation import Evaluation, Evaluator


@dataclass(frozen=True)
class Event:
    """What happened in one step of training."""

    step: int
    taken: Step | None = None
    compiling: bool = False
    """True just before the first round of a kind, with or without a refresh, which may take seconds to compile."""
    refreshing: bool = False
    """True just before a round that moves targets or computes stored returns anew, which may take long."""
    rounds: int = 0
    losses: dict[str, float] | None = None
    """Of the last of these rounds."""
    evaluation: Evaluation | None = None


@dataclass(frozen=True)
class Schedule:
    """When to evaluate: every so many steps and at the end."""

    evaluator: Evaluator
    every: int = 10_000


def scheduled(env: str | EnvironmentMaker, every: int, episodes: int, seed: int) -> Schedule:
    """Evaluations on environments of that id, or that a function makes."""
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
    """Trains from step `start` to step `steps`; yields what happens. An `observation` goes on in a running episode."""
    if observation is None:
        observation = task.reset()
    compiled: set[bool] = set()
    step = start
    while step < steps:
        before = step
        taken = task.step(observation, agent.explore(observation, before))
        observation = taken.observation
        agent.observe(taken.transition)
        step += int(taken.transition.stored.sum())
        losses, rounds = None, agent.rounds_due(before, step)
        for due in rounds:  # several may follow one step of many environments
            refreshing = agent.refreshes(due)
            if refreshing or refreshing not in compiled:
                yield Event(before, compiling=refreshing not in compiled, refreshing=refreshing)
                compiled.add(refreshing)
            losses = agent.learn(due)
        evaluation = None
        if schedule and (step // schedule.every > before // schedule.every or step >= steps):
            evaluation = schedule.evaluator(agent)
        yield Event(step, taken, rounds=len(rounds), losses=losses, evaluation=evaluation)
