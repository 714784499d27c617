"""One step of E environments, as agents and the training loop see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np


class Transition(NamedTuple):
    """One step of E environments."""

    observation: np.ndarray  # [E, *O]
    action: np.ndarray  # [E, A], in [-1, 1] or the index of a discrete action
    reward: np.ndarray  # [E]
    terminated: np.ndarray  # [E] bool
    truncated: np.ndarray  # [E] bool
    next_observation: np.ndarray  # [E, *O], before any reset
    stored: np.ndarray  # [E] bool; False where the environment was only reset


class Trajectory(NamedTuple):
    """A recorded episode of T steps, as agents see it. It ended in a terminal state, or was cut off."""

    observation: np.ndarray  # [T + 1, *O]
    action: np.ndarray  # [T, A], in [-1, 1] or the index of a discrete action
    reward: np.ndarray  # [T]
    terminated: bool

    @property
    def steps(self) -> int:
        """The number of its steps, T."""
        return len(self.reward)

    def transitions(self, lane: int = 0, lanes: int = 1) -> Iterator[Transition]:
        """Its steps, each as a step of `lanes` environments of which only `lane` is stored."""
        here, never = np.arange(lanes) == lane, np.zeros(lanes, bool)

        def everywhere(value: Any) -> np.ndarray:
            return np.broadcast_to(value, (lanes, *np.shape(value)))

        for t in range(self.steps):
            ends = t == self.steps - 1
            yield Transition(
                everywhere(self.observation[t]),
                everywhere(self.action[t]),
                everywhere(self.reward[t]),
                here if ends and self.terminated else never,
                here if ends and not self.terminated else never,
                everywhere(self.observation[t + 1]),
                here,
            )


class EpisodeResult(NamedTuple):
    """Return and length of a finished episode."""

    total: float
    length: int


class Step(NamedTuple):
    """The result of one step of all environments."""

    transition: Transition
    observation: np.ndarray  # [E, *O], to act on next; the first of a new episode where one ended
    ended: list[EpisodeResult]
    infos: list[dict[str, Any]]  # one per environment


EPISODE_CAP = 27_000
"""Steps after which an evaluation episode is cut off, since some environments never end one."""
