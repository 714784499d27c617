"""How values of discrete actions are turned into a state's value and into an action: parts of a recipe.

Networks come in K groups of C. They compute on numpy and JAX arrays alike.
"""

from __future__ import annotations

from dataclasses import dataclass

from gemrl.core.arrays import Array


@dataclass(frozen=True)
class Greatest:
    """max_a of the smallest target of a group: DQN's with one network, GEM's with a pair."""

    def __call__(self, online: Array, target: Array) -> Array:
        """Values [K, *B] of online and target networks [K, C, *B, A]."""
        return target.min(axis=1).max(axis=-1)


@dataclass(frozen=True)
class OnlineChoice:
    """Double DQN: the online networks choose the action, the targets tell its value."""

    def __call__(self, online: Array, target: Array) -> Array:
        """Values [K, *B] of online and target networks [K, C, *B, A]."""
        return _at(target.min(axis=1), online.min(axis=1).argmax(axis=-1))


@dataclass(frozen=True)
class FirstChoice:
    """Clipped double DQN: a group's first target chooses the action, the smallest of the group is its value."""

    def __call__(self, online: Array, target: Array) -> Array:
        """Values [K, *B] of online and target networks [K, C, *B, A]."""
        return _at(target.min(axis=1), target[:, 0].argmax(axis=-1))


def _at(q: Array, action: Array) -> Array:
    """Values [*S, A] of actions [*S]."""
    xp = q.__array_namespace__()
    return xp.take_along_axis(q, action[..., None], axis=-1)[..., 0]


@dataclass(frozen=True)
class MeanOfMinima:
    """Acts on the mean over groups of the smallest value."""

    def __call__(self, q: Array) -> Array:
        """[K, C, B, A] -> [B, A]."""
        return q.min(axis=1).mean(axis=0)


@dataclass(frozen=True)
class FirstNetwork:
    """Acts on the first network."""

    def __call__(self, q: Array) -> Array:
        """[K, C, B, A] -> [B, A]."""
        return q[0, 0]
