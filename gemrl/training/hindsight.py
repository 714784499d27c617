"""Hindsight experience replay (Andrychowicz et al., 2017): episodes stored again with goals that they did reach.

Each copy is a trajectory of its own, from the first step of an episode to the one that reached its new goal, so that returns can
be planned along it like along any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gemrl.core.steps import Trajectory, Transition
from gemrl.envs.goals import Goals, goals_of
from gemrl.envs.vector import AnyTask


def relabelled(goals: Goals, episode: Trajectory, end: int) -> Trajectory:
    """The first end + 1 steps of an episode, as if the goal that the last of them achieved had been desired from the start."""
    observation = episode.observation[: end + 2].copy()
    observation[:, goals.desired] = observation[-1, goals.achieved]
    achieved, desired = observation[1:, goals.achieved], observation[1:, goals.desired]
    terminates = goals.terminated(achieved, desired)
    if goals.compute_terminations is None and episode.terminated:
        terminates[-1] = end == episode.steps - 1
    steps = int(np.argmax(terminates)) + 1 if terminates.any() else end + 1  # the new goal may end it earlier
    reward = goals.reward(achieved, desired)[:steps]
    return Trajectory(observation[: steps + 1], episode.action[:steps], reward, bool(terminates[steps - 1]))


class Storing(Protocol):
    """What it needs of an agent: a memory of trajectories, and random numbers that are part of its snapshots."""

    lanes: int

    @property
    def rng(self) -> np.random.Generator:
        """Its random numbers on the host."""

    def newest_trajectory(self, lane: int) -> Trajectory:
        """The newest trajectory of a lane."""

    def store(self, transition: Transition) -> None:
        """Stores one step of every environment, recorded or played."""


@dataclass(frozen=True)
class Hindsight:
    """Stores `copies` of each episode that ends, each with the goal of one of its steps, drawn uniformly."""

    agent: Storing
    goals: Goals
    copies: int

    @staticmethod
    def of(agent: Any, task: AnyTask) -> Hindsight | None:
        """What an agent's recipe asks for in an environment; None if it is no hindsight. Raises if there are no goals."""
        copies = agent.recipe.hindsight
        return Hindsight(agent, goals_of(task.env, task.spaces), copies) if copies else None

    def add(self, taken: Transition) -> None:
        """Stores the copies of all episodes that ended with this step, which the agent has stored already."""
        for lane in map(int, np.flatnonzero(taken.stored & (taken.terminated | taken.truncated))):
            episode = self.agent.newest_trajectory(lane)
            for end in self.agent.rng.integers(0, episode.steps, self.copies):
                for transition in relabelled(self.goals, episode, int(end)).transitions(lane, self.agent.lanes):
                    self.agent.store(transition)
