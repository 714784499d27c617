"""Parts of a recipe that say what a policy learns from stored actions: the losses of the actor.

They run on numpy and JAX arrays alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from gemrl.algorithms.parts import part
from gemrl.core.arrays import Array
from gemrl.core.validation import check_number


class PolicyBatch(NamedTuple):
    """What the loss of a policy may depend on, for each row of a minibatch."""

    value: Array  # [B], what the actor objective says the policy's action is worth
    constant: Array  # [B], the same without a gradient
    distance: Array  # [B], the mean squared distance of the policy's action to the stored one
    advantage: Array | None  # [B], the stored return minus this value, if the part needs it


class Imitation(ABC):
    """The loss of a policy."""

    arguments: ClassVar[tuple[str, ...]] = ()
    """Numbers that compiled programs take as arguments (algorithms/arguments.py)."""
    climbs: ClassVar[bool]
    """Whether the policy follows the gradient of its values."""
    weighs: ClassVar[bool] = False
    """Whether it needs the advantages of stored actions."""

    @abstractmethod
    def __call__(self, batch: PolicyBatch) -> Array:
        """The loss of a minibatch []."""


@part
@dataclass(frozen=True)
class NoImitation(Imitation):
    """The policy maximizes its values, wherever they lead."""

    climbs: ClassVar[bool] = True

    def __call__(self, batch: PolicyBatch) -> Array:
        return -batch.value.mean()


@part
@dataclass(frozen=True)
class BehaviorCloning(Imitation):
    """The policy maximizes lambda Q - (pi(s) - a)^2 with lambda = q_weight / mean |Q| (TD3+BC, Fujimoto and Gu, 2021).

    The mean is that of the minibatch, so the weight suits rewards of any size. With q_weight 0, it is plain behavior cloning.
    """

    q_weight: float = 2.5
    arguments: ClassVar[tuple[str, ...]] = ("q_weight",)
    climbs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number("q_weight", self.q_weight, 0)

    def __call__(self, batch: PolicyBatch) -> Array:
        size = abs(batch.constant).mean() + 1e-8
        return batch.distance.mean() - self.q_weight / size * batch.value.mean()


@part
@dataclass(frozen=True)
class AdvantageWeighted(Imitation):
    """The policy imitates stored actions, each weighted by exp(beta A / std A), with A the advantage of its stored return.

    Weights are at most `weight_cap`, since a few large advantages would else be all that counts, and are then divided by their
    mean in the minibatch. With beta 0, it is plain behavior cloning.
    """

    beta: float = 3.0
    weight_cap: float = 20.0
    arguments: ClassVar[tuple[str, ...]] = ("beta", "weight_cap")
    climbs: ClassVar[bool] = False
    weighs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number("beta", self.beta, 0)
        check_number("weight_cap", self.weight_cap, 1)

    def __call__(self, batch: PolicyBatch) -> Array:
        assert batch.advantage is not None
        xp = batch.advantage.__array_namespace__()
        score = self.beta * batch.advantage / (batch.advantage.std() + 1e-8)
        weight = xp.minimum(xp.exp(xp.minimum(score, 80.0)), self.weight_cap)  # exp(80) is still a number
        return (weight / weight.mean() * batch.distance).mean()
