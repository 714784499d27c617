"""Parts of a recipe that say what distribution over actions the policy is.

The networks are in gemrl/agents/networks: Actor and GaussianActor.
"""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar

from gemrl.algorithms.parts import part
from gemrl.core.validation import check_number


class Distribution(ABC):
    """How the policy chooses actions in training, in bootstraps and in its own objective."""

    outputs: ClassVar[int]
    """How many numbers the actor computes for each dimension of an action."""
    stochastic: ClassVar[bool]
    """Whether actions are drawn from the policy, and its entropy is part of its objective."""
    entropy: float
    """Its entropy should be minus this for each dimension of an action."""
    temperature: float
    """The weight of its entropy before the first update."""


@part
@dataclass(frozen=True)
class Deterministic(Distribution):
    """One action per state. Exploration and target policy smoothing add noise to it, as in TD3."""

    outputs: ClassVar[int] = 1
    stochastic: ClassVar[bool] = False
    entropy: ClassVar[float] = 0.0  # type: ignore[misc]
    temperature: ClassVar[float] = 0.0  # type: ignore[misc]


@part
@dataclass(frozen=True)
class Gaussian(Distribution):
    """A normal distribution squashed by tanh, as in SAC: it explores by drawing actions, and bootstraps draw them too.

    The policy maximizes value plus temperature times entropy. The temperature is learned, so that the entropy stays near
    -entropy times the number of action dimensions. Entropy is not part of the values, so returns are planned as ever.
    """

    entropy: float = 0.5
    temperature: float = 0.1
    arguments: ClassVar[tuple[str, ...]] = ("entropy",)
    outputs: ClassVar[int] = 2
    stochastic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number("entropy", self.entropy, 0)
        check_number("temperature", self.temperature, 1e-6)
