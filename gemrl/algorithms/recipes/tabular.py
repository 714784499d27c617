"""Tabular recipes: GEM (the paper's Algorithm 3), Q-learning and its variants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gemrl.algorithms import tabular
from gemrl.algorithms.planning import Planner, Stopping
from gemrl.algorithms.recipe import BaseRecipe, choice, linear_schedule, number
from gemrl.algorithms.tabular import StepSize, TableBootstrap, Tabular
from gemrl.algorithms.targets import check_planner
from gemrl.core.exceptions import BadValue
from gemrl.core.layout import Layout

LARGEST_TABLE = 10_000_000
"""The most state-action pairs in a table; for more, use an algorithm with networks."""


@dataclass(frozen=True)
class TabularRecipe(BaseRecipe):
    """Tables of Q-values. The defaults are those of GEM."""

    family: ClassVar[str] = "tables of values"
    needs: ClassVar[str] = f"discrete observations and actions, at most {LARGEST_TABLE:,} pairs of them"
    compiles: ClassVar[bool] = False

    planner: Planner = choice(tabular.GEM.planner, "how returns are planned from rewards and values", Planner)
    tables: int = number(tabular.GEM.tables, "tables, each with its own value estimate; Twin and Crossed need two")
    bootstrap: TableBootstrap = choice(tabular.GEM.bootstrap, "how a table values a next state", TableBootstrap)
    step_size: StepSize = choice(StepSize(scale=10.0, power=0.6), "step size for each number of updates of a pair", StepSize)
    initial_value: float = number(0.0, "initial Q-value of every state-action pair", -1e9, 1e9)
    learning_starts: int = number(0, "steps of uniform random actions before training starts", 0)
    exploration_final_eps: float = number(0.1, "final fraction of random actions in training", 0, 1)
    exploration_steps: int = number(10_000, "steps after the warm-up over which this fraction falls from 1")
    buffer_size: int = number(100_000, "capacity of the memory in rows, over all environments")
    replays: int = number(0, "stored episodes that are planned and learned again whenever an episode ends", 0)

    def epsilon(self, step: int) -> float:
        """The fraction of random actions in training at a step: 1 during warm-up, then falling linearly to its final value."""
        return linear_schedule(step, self.learning_starts, self.exploration_steps, 1.0, self.exploration_final_eps)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_planner(self.planner, self.tables, "tables", discrete=True)
        need = self.bootstrap.tables
        if need not in (None, self.tables):
            raise BadValue(f"{self.bootstrap} needs {need} tables: tables must be {need}, not {self.tables}")

    def fits(self, layout: Layout) -> bool:
        """Whether it can act and learn with such observations and actions."""
        return 0 < layout.states * layout.choices <= LARGEST_TABLE

    def least_parameters(self, layout: Layout) -> int:
        """The number of Q-values in its tables."""
        return self.tables * layout.states * layout.choices


def as_recipe(algorithm: Tabular) -> TabularRecipe:
    """The recipe with the same learning rule as an algorithm of `gemrl theory`."""
    return TabularRecipe(planner=algorithm.planner, tables=algorithm.tables, bootstrap=algorithm.bootstrap)


GEM_TABULAR = as_recipe(tabular.GEM)
GEM2_TABULAR = GEM_TABULAR.but(planner=Stopping())
Q_LEARNING, DOUBLE_Q, NSTEP_Q = (as_recipe(rule) for rule in (tabular.Q_LEARNING, tabular.DOUBLE_Q, tabular.NSTEP_Q))
