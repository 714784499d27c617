"""Episodes that are not over yet, on the host: what an agent keeps that learns from whole episodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gemrl.agents.memory.neighbours import Array
from gemrl.core.exceptions import ModelFileError
from gemrl.core.snapshot import fit


class Seen(NamedTuple):
    """An observation as the memory knows it."""

    digest: int
    key: Array  # [D]


@dataclass
class Episode:
    """One environment's steps since its reset."""

    seen: list[Seen] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    end: Seen | None = None
    """The state it was cut at; None if it terminated, or is still running."""

    def __len__(self) -> int:
        return len(self.actions)


class Running(NamedTuple):
    """The running episodes of all environments behind each other, as arrays."""

    length: Array  # [E] int64
    digest: Array  # [n] int64
    key: Array  # [n, D] float32
    action: Array  # [n] int64
    reward: Array  # [n] float64


def packed(episodes: list[Episode], width: int) -> Running:
    """Running episodes as arrays."""
    seen = [one for episode in episodes for one in episode.seen]
    return Running(
        np.array([len(episode) for episode in episodes]),
        np.array([one.digest for one in seen], np.int64),
        np.array([one.key for one in seen], np.float32).reshape(-1, width),
        np.array([action for episode in episodes for action in episode.actions], np.int64),
        np.array([reward for episode in episodes for reward in episode.rewards], np.float64),
    )


def unpacked(arrays: dict[str, Array], lanes: int, width: int, choices: int) -> list[Episode]:
    """The episodes that `packed` made arrays of."""
    found = Running(**arrays)
    length = fit("length", found.length, (lanes,), np.int64)
    steps = int(length.sum())
    shapes = {"digest": ((steps,), np.int64), "key": ((steps, width), np.float32)}
    shapes |= {"action": ((steps,), np.int64), "reward": ((steps,), np.float64)}
    for name, (shape, kind) in shapes.items():
        fit(name, arrays[name], shape, kind)
    if (length < 0).any() or not ((found.action >= 0) & (found.action < choices)).all():
        raise ModelFileError("the running episodes are damaged: they hold what cannot be")
    ends = np.cumsum(length)
    return [
        Episode(
            [Seen(int(digest), key) for digest, key in zip(found.digest[a:b], found.key[a:b], strict=True)],
            found.action[a:b].tolist(),
            found.reward[a:b].tolist(),
        )
        for a, b in zip(ends - length, ends, strict=True)
    ]
