"""How Q-values of discrete actions become the value of a state, and an action: parts of a recipe.

Networks come in K groups of C. The parts compute on numpy and JAX arrays alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from gemrl.algorithms.parts import part
from gemrl.core.arrays import Array


class Bootstrap(ABC):
    """The value of a next state."""

    uses_online: ClassVar[bool] = False
    """Whether it looks at the online networks, which change with every gradient step."""

    @abstractmethod
    def __call__(self, online: Array, target: Array) -> Array:
        """Values [K, *B] from the Q-values of online and target networks [K, C, *B, A]."""


@part
@dataclass(frozen=True)
class Greatest(Bootstrap):
    """max_a of the smallest target of a group: DQN's with one network, GEM's with a pair."""

    def __call__(self, online: Array, target: Array) -> Array:
        return target.min(axis=1).max(axis=-1)


@part
@dataclass(frozen=True)
class OnlineChoice(Bootstrap):
    """Double DQN: the online networks choose the action, the target networks give its value."""

    uses_online: ClassVar[bool] = True

    def __call__(self, online: Array, target: Array) -> Array:
        return _at(target.min(axis=1), online.min(axis=1).argmax(axis=-1))


@part
@dataclass(frozen=True)
class FirstChoice(Bootstrap):
    """Clipped double DQN: a group's first target chooses the action, the smallest of the group is its value."""

    def __call__(self, online: Array, target: Array) -> Array:
        return _at(target.min(axis=1), target[:, 0].argmax(axis=-1))


def _at(q: Array, action: Array) -> Array:
    """Q-values [*S, A] of actions [*S]."""
    xp = q.__array_namespace__()
    return xp.take_along_axis(q, action[..., None], axis=-1)[..., 0]


class Acting(ABC):
    """The Q-values that an agent acts on."""

    @abstractmethod
    def __call__(self, q: Array) -> Array:
        """Q-values of all networks [K, C, B, A] as those to act on [B, A]."""


@part
@dataclass(frozen=True)
class MeanOfMinima(Acting):
    """Acts on the mean over groups of the smallest value."""

    def __call__(self, q: Array) -> Array:
        return q.min(axis=1).mean(axis=0)


@part
@dataclass(frozen=True)
class FirstNetwork(Acting):
    """Acts on the first network."""

    def __call__(self, q: Array) -> Array:
        return q[0, 0]
