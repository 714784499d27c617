"""Parts of a recipe that turn Q-values of discrete actions into state values, and into the values to act on.

Networks come in K groups of C. The parts run on numpy and JAX arrays alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gemrl.algorithms.parts import part
from gemrl.core.arrays import Array


class Bootstrap(ABC):
    """How a group of networks values a next state."""

    uses_online: ClassVar[bool] = False
    """Whether it uses the online networks, which change with every gradient step."""

    @abstractmethod
    def __call__(self, online: Array, target: Array) -> Array:
        """Values [K, *B] from the Q-values of online and target networks [K, C, *B, A]."""


@part
@dataclass(frozen=True)
class Greatest(Bootstrap):
    """max_a of the smallest target Q-value of a group: as in DQN with one network, as in GEM with a pair."""

    def __call__(self, online: Array, target: Array) -> Array:
        return target.min(axis=1).max(axis=-1)


@part
@dataclass(frozen=True)
class OnlineChoice(Bootstrap):
    """Double DQN: the online networks choose the action, the target networks give its value."""

    uses_online: ClassVar[bool] = True

    def __call__(self, online: Array, target: Array) -> Array:
        return value_of(target.min(axis=1), online.min(axis=1).argmax(axis=-1))


@part
@dataclass(frozen=True)
class FirstChoice(Bootstrap):
    """Clipped double DQN: a group's first target network chooses the action, and the smallest target gives its value."""

    def __call__(self, online: Array, target: Array) -> Array:
        return value_of(target.min(axis=1), target[:, 0].argmax(axis=-1))


def value_of(q: Array, action: Array) -> Array:
    """The Q-values of these actions. [*S, A], [*S] -> [*S]."""
    xp = q.__array_namespace__()
    return xp.take_along_axis(q, action[..., None], axis=-1)[..., 0]


def best_other(q: Array, action: Array) -> Array:
    """The greatest Q-value of all actions but these, -inf if there is only one. [*S, A], [*S] -> [*S]."""
    xp = q.__array_namespace__()
    return xp.where(xp.arange(q.shape[-1]) == action[..., None], -np.inf, q).max(axis=-1)


def permitted(q: Array, allowed: Array | None) -> Array:
    """Q-values with -inf for actions that are not allowed; all are if there is no mask. [*S, A]."""
    return q if allowed is None else q.__array_namespace__().where(allowed, q, -np.inf)


NEXT_ACTIONS: dict[str, Callable[[Array, Array | None, Array], Array]] = {
    "q_stored": lambda q, allowed, action: value_of(q, action),
    "q_other": lambda q, allowed, action: best_other(permitted(q, allowed), action),
}
"""What planners may need of the next state beside its value: from its Q-values, its allowed actions and the one taken there."""


class Acting(ABC):
    """The Q-values that an agent acts on."""

    @abstractmethod
    def __call__(self, q: Array) -> Array:
        """The Q-values to act on, from those of all networks. [K, C, B, A] -> [B, A]."""


@part
@dataclass(frozen=True)
class MeanOfMinima(Acting):
    """Acts on the smallest value of each group, averaged over groups."""

    def __call__(self, q: Array) -> Array:
        return q.min(axis=1).mean(axis=0)


@part
@dataclass(frozen=True)
class FirstNetwork(Acting):
    """Acts on the first network."""

    def __call__(self, q: Array) -> Array:
        return q[0, 0]
