"""Soft actor-critic as a recipe of its own kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gemrl.algorithms.bodies import Body, Perceptron
from gemrl.algorithms.recipe import BaseRecipe, choice, number
from gemrl.core.layout import Layout


@dataclass(frozen=True)
class SoftRecipe(BaseRecipe):
    """Soft actor-critic with automatic temperature: a stochastic policy, and entropy in its values."""

    family: ClassVar[str] = "stochastic policy"
    needs: ClassVar[str] = "a Box of observations and continuous actions"

    learning_rate: float = number(3e-4, "Adam's step size, for actor, critics and temperature", 0)
    buffer_size: int = number(1_000_000, "rows of the memory, over all environments")
    learning_starts: int = number(10_000, "steps of uniform random actions before any training", 0)
    batch_size: int = number(256, "rows of a minibatch")
    tau: float = number(0.005, "how far targets move toward the critics, each time they move", 0, 1)
    train_freq: int = number(1, "environment steps between two rounds of training")
    gradient_steps: int = number(1, "gradient steps of a round")
    target_update_interval: int = number(1, "updates between two moves of the targets")
    body: Body = choice(Perceptron((256, 256), layer_norm=False), "the hidden layers of actor and critics", Body)
    n_critics: int = number(2, "critics, whose smallest value counts")
    target_entropy_scale: float = number(1.0, "the policy's entropy is held at minus this times the number of actions", 0)
    normalize_observations: bool = choice(False, "observations are scaled by their running mean and variance", bool)

    def fits(self, layout: Layout) -> bool:
        """Whether it can act and learn there."""
        return not layout.choices and not layout.states

    def least_parameters(self, layout: Layout) -> int:
        """Fewer than its networks have."""
        return self.n_critics * self.body.least_weights(layout.size)
