"""Tabular GEM, the paper's Algorithm 3, and Q-learning and its relatives, as recipes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gemrl.algorithms import tabular
from gemrl.algorithms.planning import Planner
from gemrl.algorithms.recipe import BaseRecipe, choice, falling, number
from gemrl.algorithms.tabular import StepSize, TableBootstrap, Tabular
from gemrl.algorithms.targets import check_planner
from gemrl.core.exceptions import BadValue
from gemrl.core.layout import Layout

LARGEST_TABLE = 10_000_000
"""Pairs of a state and an action in a table; beyond that a network is the better memory."""


@dataclass(frozen=True)
class TabularRecipe(BaseRecipe):
    """Tables of values. The defaults are GEM's."""

    family: ClassVar[str] = "tables of values"
    needs: ClassVar[str] = f"discrete observations and actions, at most {LARGEST_TABLE:,} pairs of them"

    planner: Planner = choice(tabular.GEM.planner, "what turns rewards and values into returns", Planner)
    tables: int = number(tabular.GEM.tables, "tables, each with an estimate of its own; Twin and Crossed need two")
    bootstrap: TableBootstrap = choice(tabular.GEM.bootstrap, "how a table values a next state", TableBootstrap)
    step_size: StepSize = choice(StepSize(scale=10.0, power=0.6), "how far a pair moves toward its return", StepSize)
    initial_value: float = number(0.0, "what tables hold of a pair that was never tried", -1e9, 1e9)
    learning_starts: int = number(0, "steps of uniform random actions before any training", 0)
    exploration_final_eps: float = number(0.1, "share of random actions, in the end", 0, 1)
    exploration_steps: int = number(10_000, "steps over which that share falls from 1, behind the warm-up")
    buffer_size: int = number(100_000, "rows of the memory, over all environments")
    replays: int = number(0, "stored episodes that are planned and learnt again whenever one ends", 0)

    def epsilon(self, step: int) -> float:
        """The share of random actions at a step: 1 while warming up, then falling to its final value in a straight line."""
        return falling(step, self.learning_starts, self.exploration_steps, 1.0, self.exploration_final_eps)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_planner(self.planner, self.tables, "tables")
        needed = self.bootstrap.tables
        if needed not in (None, self.tables):
            raise BadValue(f"{self.bootstrap} needs {needed} tables: tables must be {needed}, not {self.tables}")

    def fits(self, layout: Layout) -> bool:
        """Whether it can act and learn there."""
        return 0 < layout.states * layout.choices <= LARGEST_TABLE

    def least_parameters(self, layout: Layout) -> int:
        """Numbers in its tables."""
        return self.tables * layout.states * layout.choices


def as_recipe(algorithm: Tabular) -> TabularRecipe:
    """The recipe that learns by the same rule as an algorithm of `gemrl theory`."""
    return TabularRecipe(planner=algorithm.planner, tables=algorithm.tables, bootstrap=algorithm.bootstrap)


GEM_TABULAR = as_recipe(tabular.GEM)
Q_LEARNING, DOUBLE_Q, NSTEP_Q = (as_recipe(rule) for rule in (tabular.Q_LEARNING, tabular.DOUBLE_Q, tabular.NSTEP_Q))
