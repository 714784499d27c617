"""Parts of a recipe that turn Q-values of discrete actions into state values, and into the values to act on.

Networks come in K groups of C. The parts run on numpy and JAX arrays alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

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
        return _at(target.min(axis=1), online.min(axis=1).argmax(axis=-1))


@part
@dataclass(frozen=True)
class FirstChoice(Bootstrap):
    """Clipped double DQN: a group's first target network chooses the action, and the smallest target gives its value."""

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
