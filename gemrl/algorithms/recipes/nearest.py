"""Model-free episodic control as a recipe of its own kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from gemrl.algorithms.recipe import BaseRecipe, falling, number
from gemrl.core.layout import Layout


@dataclass(frozen=True)
class NearestRecipe(BaseRecipe):
    """Model-free episodic control: a table of best returns for each action, read by its nearest neighbours."""

    family: ClassVar[str] = "nearest neighbours"
    needs: ClassVar[str] = "discrete actions"
    k: int = number(11, "neighbours whose mean is the value of what was never met")
    projection: int = number(64, "numbers that a longer observation is randomly projected to; 0 projects none", 0)
    rows_per_action: int = number(100_000, "rows of each action's table; the least recently used make way")
    learning_starts: int = number(0, "steps of uniform random actions", 0)
    exploration_initial_eps: float = number(1.0, "share of random actions, behind the warm-up", 0, 1)
    exploration_final_eps: float = number(0.005, "share of random actions, in the end", 0, 1)
    exploration_steps: int = number(5_000, "steps over which that share falls, behind the warm-up", 1)

    @property
    def neighbours(self) -> int:
        """How many rows an estimate is the mean of: k, or all there can be."""
        return min(self.k, self.rows_per_action)

    @property
    def gradient_steps(self) -> int:
        """One: a round writes the episodes that ended."""
        return 1

    @property
    def learning_rate(self) -> float:
        """One: a better return replaces the stored one."""
        return 1.0

    def epsilon(self, step: int) -> float:
        """The share of random actions at a step behind the warm-up."""
        first, last = self.exploration_initial_eps, self.exploration_final_eps
        return falling(step, self.learning_starts, self.exploration_steps, first, last)

    def width(self, numbers: int) -> int:
        """Numbers in the key of an observation of so many numbers."""
        return self.projection if 0 < self.projection < numbers else numbers

    def fits(self, layout: Layout) -> bool:
        """Whether it can act and learn there."""
        return layout.choices > 0

    def least_parameters(self, layout: Layout) -> int:
        """The numbers of its projection, if it has one."""
        numbers = layout.states or layout.size
        return self.projection * numbers if self.projection < numbers else 0

    def for_environment(self, env_id: str, layout: Layout) -> Self:
        """The mean over all states where they are numbered: they are all equally far from each other."""
        return self.but(k=layout.states) if layout.states else self
