"""The recipe of neural episodic control."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from gemrl.algorithms.bodies import count_weights
from gemrl.algorithms.planning import NStep, Planner
from gemrl.algorithms.recipe import BaseRecipe, choice, linear_schedule, number
from gemrl.algorithms.recipes.discrete import LARGEST_VECTOR, image_preset
from gemrl.algorithms.schedules import Constant, Schedule
from gemrl.algorithms.targets import check_planner
from gemrl.core.exceptions import BadValue
from gemrl.core.layout import Layout


@dataclass(frozen=True)
class DictionaryRecipe(BaseRecipe):
    """Neural episodic control: a network that embeds states, and for each action a dictionary of embeddings and values."""

    family: ClassVar[str] = "dictionaries of values"
    needs: ClassVar[str] = "discrete actions"

    learning_rate: float = number(5e-4, "learning rate: Adam's for the network, RMSprop's for the keys of dictionaries", 0)
    learning_rate_schedule: Schedule = choice(Constant(), "how the learning rate changes over a run", Schedule)
    adam_epsilon: float = number(1e-8, "epsilon in the denominator of Adam", 0)
    value_rate: float = number(0.5, "step size of gradient descent on the values in dictionaries", 0, 2)
    buffer_size: int = number(100_000, "capacity of the memory in rows, over all environments")
    learning_starts: int = number(1_000, "steps of uniform random actions before training starts", 0)
    batch_size: int = number(32, "rows per minibatch")
    train_freq: int = number(4, "environment steps between two rounds of training")
    gradient_steps: int = number(1, "gradient steps per round")
    overlap: bool = choice(
        False, "act with the policy of the round before while a round computes, so that the environment does not wait", bool
    )
    exploration_final_eps: float = number(0.01, "final fraction of random actions in training", 0, 1)
    exploration_steps: int = number(5_000, "steps after the warm-up over which this fraction falls from 1", 1)
    evaluation_eps: float = number(0.0, "fraction of random actions in evaluations", 0, 1)
    reward_bound: float = number(1e6, "rewards are clipped to +- this for learning; evaluations report them unclipped", 0)
    net_arch: tuple[int, ...] = choice((128,), "hidden layer widths, after convolutions if observations are images", tuple)
    key_size: int = number(32, "numbers in the embedding of a state, which is a key of the dictionaries")
    rows_per_action: int = number(4_000, "capacity of each action's dictionary; the least recently used rows are replaced")
    k: int = number(50, "neighbours whose weighted mean is the value of a state-action pair")
    delta: float = number(1e-3, "added to squared distances in the kernel that weighs neighbours", 1e-9)
    write_rate: float = number(0.1, "how far a new return moves the value of a state that is in the dictionary already", 0, 1)
    planner: Planner = choice(NStep(100), "how returns are planned from rewards and values", Planner)
    normalize_observations: bool = choice(False, "normalize observations by their running mean and variance; vectors only", bool)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_planner(self.planner, 1, "the number of estimates", discrete=True)
        if self.planner.extra:
            raise BadValue(f"{self.planner} needs values of the actions that follow, which dictionaries do not store")

    @property
    def neighbours(self) -> int:
        """How many rows an estimate averages: k, but at most the capacity of a dictionary."""
        return min(self.k, self.rows_per_action)

    def epsilon(self, step: int) -> float:
        """The fraction of random actions in training at a step."""
        return linear_schedule(step, self.learning_starts, self.exploration_steps, 1.0, self.exploration_final_eps)

    def fits(self, layout: Layout) -> bool:
        """Whether it can act and learn with such observations and actions."""
        return layout.choices > 0

    def least_parameters(self, layout: Layout) -> int:
        """A lower bound on the number of its parameters: those of its dictionaries, and of its network without convolutions."""
        size = layout.unmasked.size
        inputs = 1 if size > LARGEST_VECTOR else size
        return self.dictionary_size(layout.choices) + count_weights(inputs, (*self.net_arch, self.key_size))

    def dictionary_size(self, choices: int) -> int:
        """The numbers in the dictionaries of all actions: of each row its key, value, norm, time of use, and digest of two."""
        return choices * self.rows_per_action * (self.key_size + 5)

    def for_environment(self, env_id: str, layout: Layout) -> Self:
        """The recipe with the preset of dqn and its relatives for images, and larger dictionaries. A changed field stays."""
        own, default = self.settable(), type(self)().settable()
        preset = image_preset(env_id, layout) | ({"rows_per_action": 20_000} if layout.is_image else {})
        return self.but(**{name: value for name, value in preset.items() if name in own and own[name] == default[name]})

    def warnings(self, steps: int, n_envs: int) -> list[str]:
        """Those of all recipes, and whether rows are overwritten before their return is known."""
        found, waiting = super().warnings(steps, n_envs), self.planner.rollout_cap
        if self.buffer_size // n_envs < waiting:
            rows = f"{self.buffer_size // n_envs:,} rows for each environment"
            found.append(f"returns look {waiting:,} steps ahead, but there are {rows}: set a larger buffer_size")
        return found
