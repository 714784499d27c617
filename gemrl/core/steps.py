"""One step of E environments, as agents and the training loop see it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Transition(NamedTuple):
    """One step of E environments."""

    observation: np.ndarray  # [E, *O]
    action: np.ndarray  # [E, A], in [-1, 1] or numbers of choices
    reward: np.ndarray  # [E]
    terminated: np.ndarray  # [E] bool
    truncated: np.ndarray  # [E] bool
    next_observation: np.ndarray  # [E, *O], before any reset
    stored: np.ndarray  # [E] bool; False where the environment was only reset


class EpisodeResult(NamedTuple):
    """What a finished episode came to."""

    total: float
    length: int


class Step(NamedTuple):
    """What one step of all environments brought."""

    transition: Transition
    observation: np.ndarray  # [E, *O], to act on next: of a new episode, where one ended
    ended: list[EpisodeResult]
    infos: list[dict[str, Any]]  # one of each environment


EPISODE_CAP = 27_000
"""Steps after which an evaluation episode is cut, since some environments never end one."""
