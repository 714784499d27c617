"""One step of E environments, as agents and the training loop see it."""

from __future__ import annotations

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
