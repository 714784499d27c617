"""Agents: what acts, remembers and learns. The training loop knows only this protocol."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from gemrl.environments import Transition


class Agent(Protocol):
    """What training and evaluation ask of an agent."""

    @property
    def gamma(self) -> float:
        """The discount factor of its returns."""

    def act(self, observation: np.ndarray) -> np.ndarray:
        """The policy's actions in [-1, 1]. [B, D] -> [B, A]."""

    def explore(self, observation: np.ndarray, step: int) -> np.ndarray:
        """Actions for training. [E, D] -> [E, A]."""

    def observe(self, transition: Transition) -> None:
        """Remembers one step of every environment."""

    def abandon(self) -> None:
        """Ends the running trajectories in memory: their environments are about to be reset."""

    def rounds_due(self, before: int, step: int) -> int:
        """How many rounds of training follow the environment steps from number `before` to number `step`."""

    def learn(self, step: int) -> dict[str, float]:
        """One round of training; its mean losses."""

    def values(self, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
        """The mean of the online critics' Q(s, a). [B, D], [B, A] -> [B]."""
