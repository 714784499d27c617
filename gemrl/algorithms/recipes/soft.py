"""The recipe of soft actor-critic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from gemrl.algorithms.bodies import BatchRenormalized, Body, Perceptron
from gemrl.algorithms.recipe import BaseRecipe, choice, number
from gemrl.algorithms.recipes.images import image_preset
from gemrl.algorithms.schedules import Constant, Schedule
from gemrl.core.layout import Layout


@dataclass(frozen=True)
class SoftRecipe(BaseRecipe):
    """Soft actor-critic with automatic temperature tuning: a stochastic policy, and values that include its entropy."""

    family: ClassVar[str] = "stochastic policy"
    needs: ClassVar[str] = "a Box of observations and continuous actions"

    learning_rate: float = number(3e-4, "learning rate of Adam, for actor, critics and temperature", 0)
    learning_rate_schedule: Schedule = choice(Constant(), "how the learning rate changes over a run", Schedule)
    max_grad_norm: float = number(0.0, "gradients of a network that are longer than this are scaled down to it; 0: none are", 0)
    buffer_size: int = number(1_000_000, "capacity of the memory in rows, over all environments")
    learning_starts: int = number(10_000, "steps of uniform random actions before training starts", 0)
    batch_size: int = number(256, "rows per minibatch")
    tau: float = number(0.005, "Polyak coefficient: how far target networks move toward the online ones at each update", 0, 1)
    train_freq: int = number(1, "environment steps between two rounds of training")
    gradient_steps: int = number(1, "gradient steps per round")
    overlap: bool = choice(
        False, "act with the policy of the round before while a round computes, so that the environment does not wait", bool
    )
    target_update_interval: int = number(1, "gradient steps between updates of the target networks")
    policy_delay: int = number(1, "critic updates per update of actor and temperature")
    adam_beta1: float = number(0.9, "decay rate of Adam's mean of gradients, for actor and critics", 0, 0.999)
    joint_critics: bool = choice(False, "critics value a step and the next in one pass, without target networks (CrossQ)", bool)
    body: Body = choice(Perceptron((256, 256), layer_norm=False), "hidden layers of actor and critics", Body)
    n_critics: int = number(2, "critics; the smallest value is used")
    target_entropy_scale: float = number(1.0, "the target entropy is minus this times the number of action dimensions", 0)
    initial_temperature: float = number(1.0, "weight of the entropy before the first update, from which it is learned", 1e-6)
    normalize_observations: bool = choice(False, "normalize observations by their running mean and variance", bool)
    normalize_rewards: bool = choice(False, "scale rewards by the running standard deviation of discounted returns", bool)
    hindsight: int = number(
        0, "copies of each episode with goals that it reached, stored after it, if the environment has goals; 0: none", 0
    )

    random_shift: int = number(4, "pixels by which the images of a minibatch are shifted at random (DrQ); 0: not at all", 0)

    def fits(self, layout: Layout) -> bool:
        """Whether it can act and learn with such observations and actions."""
        return not layout.choices and not layout.states

    def least_parameters(self, layout: Layout) -> int:
        """A lower bound on the number of its parameters."""
        return self.n_critics * self.body.least_weights(1 if layout.is_image else layout.size)

    def for_environment(self, env_id: str, layout: Layout) -> Self:
        """The recipe with the preset for images.

        With its few updates the temperature would stay near 1 for thousands of steps, and the policy near uniform.
        """
        if not layout.is_image:
            return self
        return self.but(**image_preset(self.train_freq, layout), initial_temperature=0.1, normalize_observations=False)


CROSSQ = SoftRecipe(learning_rate=1e-3, policy_delay=3, adam_beta1=0.5, joint_critics=True, body=BatchRenormalized((512, 512)))
