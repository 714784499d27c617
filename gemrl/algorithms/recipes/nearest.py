"""The recipe of model-free episodic control."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from gemrl.algorithms.recipe import WITHOUT_GRADIENTS, BaseRecipe, linear_schedule, number
from gemrl.core.layout import Layout


@dataclass(frozen=True)
class NearestRecipe(BaseRecipe):
    """Model-free episodic control: a table of best returns for each action, read by nearest neighbours."""

    family: ClassVar[str] = "nearest neighbours"
    needs: ClassVar[str] = "discrete actions without a mask"
    compiles: ClassVar[bool] = False
    k: int = number(11, "neighbours whose mean is the value of a new state-action pair")
    projection: int = number(64, "dimension to which longer observations are randomly projected; 0 for no projection", 0)
    rows_per_action: int = number(100_000, "capacity of each action's table; the least recently used rows are replaced")
    learning_starts: int = number(0, "steps of uniform random actions before training starts", 0)
    exploration_initial_eps: float = number(1.0, "fraction of random actions right after the warm-up", 0, 1)
    exploration_final_eps: float = number(0.005, "final fraction of random actions in training", 0, 1)
    exploration_steps: int = number(5_000, "steps after the warm-up over which this fraction falls", 1)

    @property
    def neighbours(self) -> int:
        """How many rows an estimate averages: k, but at most the capacity of a table."""
        return min(self.k, self.rows_per_action)

    @property
    def offline_problem(self) -> str:
        """Its gradient steps are none."""
        return WITHOUT_GRADIENTS

    @property
    def gradient_steps(self) -> int:
        """One: a round writes the finished episodes."""
        return 1

    @property
    def learning_rate(self) -> float:
        """One: a better return replaces the stored one."""
        return 1.0

    def epsilon(self, step: int) -> float:
        """The fraction of random actions in training at a step after the warm-up."""
        first, last = self.exploration_initial_eps, self.exploration_final_eps
        return linear_schedule(step, self.learning_starts, self.exploration_steps, first, last)

    def width(self, size: int) -> int:
        """The dimension of the key of an observation with `size` numbers."""
        return self.projection if 0 < self.projection < size else size

    def fits(self, layout: Layout) -> bool:
        """Whether it can act and learn with such observations and actions."""
        return layout.choices > 0 and not layout.masked and not layout.picture

    def least_parameters(self, layout: Layout) -> int:
        """The size of its projection, if it has one."""
        size = layout.states or layout.size
        return self.projection * size if self.projection < size else 0

    def for_environment(self, env_id: str, layout: Layout) -> Self:
        """With discrete observations, all states: they are equally far apart, so the k nearest would be arbitrary."""
        return self.but(k=layout.states) if layout.states else self
