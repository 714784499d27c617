"""The interface of agents. The training loop uses nothing else of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from gemrl.algorithms.registry import AnyRecipe
from gemrl.core.snapshot import Snapshot
from gemrl.core.steps import Trajectory, Transition


class Agent(Protocol):
    """What training and evaluation need of an agent."""

    @property
    def recipe(self) -> AnyRecipe:
        """The recipe that it was made from."""

    @property
    def gamma(self) -> float:
        """The discount factor of its returns."""

    def act(self, observation: np.ndarray) -> np.ndarray:
        """The policy's actions. [B, *O] -> [B, A]."""

    def explore(self, observation: np.ndarray, step: int) -> np.ndarray:
        """Actions for training. [E, *O] -> [E, A]."""

    def observe(self, transition: Transition) -> None:
        """Stores one step of every environment."""

    def abandon(self) -> None:
        """Ends the running trajectories in memory: their environments are about to be reset."""

    def rounds_due(self, before: int, step: int) -> Sequence[int]:
        """The environment steps after `before`, up to `step`, at which a round of training is due."""

    def refreshes(self, step: int) -> bool:
        """Whether the next round moves targets or computes stored returns again."""

    def learn(self, step: int) -> dict[str, float]:
        """One round of training; its mean losses."""

    def values(self, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
        """The mean of the online critics' Q(s, a). [B, *O], [B, A] -> [B]."""


class LearningAgent(Agent, Protocol):
    """What a model needs of its agent in addition."""

    lanes: int

    @property
    def learner(self) -> Any:
        """Everything that learning changes, except the memory: a pytree of arrays."""

    @property
    def memory(self) -> Any:
        """The memory of the agent."""

    @property
    def notes(self) -> dict[str, str]:
        """What it remembers beside its memory, in words, for `gemrl memory`."""

    def sample(self, observation: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Actions drawn from the policy; the greedy ones if it is deterministic. [B, *O] -> [B, A]."""

    def remember(self, trajectories: Sequence[Trajectory], *, keep: bool) -> None:
        """Stores recorded trajectories; with `keep`, they are never overwritten. Raises before it stores any if not all fit."""

    def set_learner(self, learner: Any) -> None:
        """Restores a saved learner."""

    def snapshot(self) -> Snapshot:
        """All state except the learner."""

    def restore(self, saved: Snapshot) -> None:
        """Restores a snapshot."""
