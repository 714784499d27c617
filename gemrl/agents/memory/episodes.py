"""Unfinished episodes on the host, for agents that learn from whole episodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gemrl.agents.memory.neighbours import Array
from gemrl.core.exceptions import ModelFileError
from gemrl.core.snapshot import fit


class Encoded(NamedTuple):
    """An observation as the tables store it."""

    digest: int  # equal for equal observations
    key: Array  # [D], for distances


@dataclass
class Episode:
    """One environment's steps since its reset."""

    observations: list[Encoded] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    final: Encoded | None = None
    """The last next observation of a truncated episode; None if it terminated or is still running."""

    def __len__(self) -> int:
        return len(self.actions)


class Running(NamedTuple):
    """The unfinished episodes of all lanes, concatenated, as arrays."""

    length: Array  # [E] int64
    digest: Array  # [n] int64
    key: Array  # [n, D] float32
    action: Array  # [n] int64
    reward: Array  # [n] float64


def packed(episodes: list[Episode], width: int) -> Running:
    """Unfinished episodes as arrays."""
    encoded = [one for episode in episodes for one in episode.observations]
    return Running(
        np.array([len(episode) for episode in episodes]),
        np.array([one.digest for one in encoded], np.int64),
        np.array([one.key for one in encoded], np.float32).reshape(-1, width),
        np.array([action for episode in episodes for action in episode.actions], np.int64),
        np.array([reward for episode in episodes for reward in episode.rewards], np.float64),
    )


def unpacked(arrays: dict[str, Array], lanes: int, width: int, choices: int) -> list[Episode]:
    """The episodes in arrays from `packed`."""
    running = Running(**arrays)
    length = fit("length", running.length, (lanes,), np.int64)
    steps = int(length.sum())
    shapes = {"digest": ((steps,), np.int64), "key": ((steps, width), np.float32)}
    shapes |= {"action": ((steps,), np.int64), "reward": ((steps,), np.float64)}
    for name, (shape, kind) in shapes.items():
        fit(name, arrays[name], shape, kind)
    if (length < 0).any() or not ((running.action >= 0) & (running.action < choices)).all():
        raise ModelFileError("the unfinished episodes are damaged: a length or an action is out of range")
    ends = np.cumsum(length)
    return [
        Episode(
            [Encoded(int(digest), key) for digest, key in zip(running.digest[a:b], running.key[a:b], strict=True)],
            running.action[a:b].tolist(),
            running.reward[a:b].tolist(),
        )
        for a, b in zip(ends - length, ends, strict=True)
    ]
