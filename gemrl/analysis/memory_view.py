"""A view of a memory with planned returns: rollouts V[t, h], chosen lengths h*, and where rollouts leave their trajectory.

Everything here is numpy on the host. Statistics of lengths pool all critic pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gemrl.algorithms.planning import NStep, Planner
from gemrl.algorithms.registry import AnyRecipe, TabularRecipe
from gemrl.core.exceptions import BadValue

if TYPE_CHECKING:
    from gemrl.agents.memory.ring import Memory

TERMINATED, CUT, RUNNING = "terminated", "cut off", "still running"
"""How a trajectory in memory ends. A rollout bootstraps where its trajectory is cut off (time limit) or still running."""


@dataclass(frozen=True)
class MemoryView:
    """The planned rows of a memory, sorted by lane and trajectory; trajectory i begins at starts[i]."""

    planner: Planner
    reward: np.ndarray  # [N]
    discount: np.ndarray  # [N]
    last: np.ndarray  # [N] bool
    q_next: np.ndarray  # [K, N]
    planned: np.ndarray  # [K, N]
    length: np.ndarray  # [K, N], the chosen h*
    available: np.ndarray  # [N], steps from a row to the end of its trajectory, including its own
    monte_carlo: np.ndarray  # [K, N], discounted rewards to the end of the trajectory, plus the bootstrap where it was cut off
    starts: np.ndarray  # [M]
    waiting: int  # rows stored since the last planning, which are not in this view

    def __len__(self) -> int:
        return self.reward.size

    @property
    def pairs(self) -> int:
        """The number of critic pairs, K: each has its own estimate of the next state."""
        return self.q_next.shape[0]

    @property
    def to_the_end(self) -> np.ndarray:
        """Whether the chosen rollout follows its trajectory to the end [K, N]."""
        return self.length >= self.available

    @property
    def at_the_cap(self) -> np.ndarray:
        """Whether the chosen rollout stops at the largest length that the planner allows, before its trajectory ends [K, N]."""
        return (self.length >= self.planner.rollout_cap) & ~self.to_the_end

    @property
    def by_choice(self) -> np.ndarray:
        """Whether the chosen rollout bootstraps although it could have followed its trajectory further [K, N]."""
        return ~self.to_the_end & ~self.at_the_cap

    def trajectory(self, number: int) -> MemoryView:
        """One trajectory, counted from 1."""
        count = len(self.starts)
        if not 1 <= number <= count:
            raise BadValue(f"there is no episode {number}: the memory holds {count}, numbered from 1 (the oldest) to {count}")
        rows = slice(self.starts[number - 1], [*self.starts, len(self)][number])
        columns = {name: getattr(self, name)[..., rows] for name in COLUMNS}
        return MemoryView(self.planner, **columns, starts=np.zeros(1, int), waiting=0)

    @property
    def ending(self) -> str:
        """How the newest trajectory ends."""
        if not self.last[-1]:
            return RUNNING
        return CUT if self.discount[-1] else TERMINATED


COLUMNS = ("reward", "discount", "last", "q_next", "planned", "length", "available", "monte_carlo")


def view_memory(memory: Memory, planner: Planner) -> MemoryView:
    """The view of a memory whose returns were planned by `planner`."""
    lanes = [_lane(memory, planner, lane) for lane in range(memory.size.shape[0])]
    lanes = [lane for lane in lanes if lane["reward"].size]
    if not lanes:
        raise BadValue("no row of this memory was planned yet: it was saved before training began")
    columns = {name: np.concatenate([lane[name] for lane in lanes], axis=-1) for name in COLUMNS}
    starts = np.flatnonzero(np.append(1, columns["available"][:-1]) == 1)
    return MemoryView(planner, **columns, starts=starts, waiting=len(memory) - columns["reward"].size)


def _lane(memory: Memory, planner: Planner, lane: int) -> dict[str, np.ndarray]:
    """The columns of one lane's planned rows."""
    from gemrl.agents.memory.ring import planned_rows  # with JAX, which is imported only when it is needed

    stored = memory.lane(lane)
    count = planned_rows(stored)
    rows = {name: column[..., :count] for name, column in stored.items() if name in COLUMNS}
    rows["length"] = memory.chosen_lengths(planner, lane)[:, :count]
    rows["available"] = available(rows["last"])
    inputs = (rows[name].astype(float) for name in ("reward", "discount", "last", "q_next"))
    rows["monte_carlo"] = NStep(count)(*inputs) if count else rows["planned"]
    return rows


def available(last: np.ndarray) -> np.ndarray:
    """The number of steps that can be followed from each row, including its own. [N] -> [N]."""
    index = np.arange(last.size)
    ends = np.where(last | (index == last.size - 1), index, last.size)
    return np.minimum.accumulate(ends[::-1])[::-1] - index + 1


def rollouts(trajectory: MemoryView, rows: int, lengths: int) -> np.ndarray:
    """V[t, h] of the first `rows` rows of one trajectory, h = 1..lengths; NaN beyond its end. [K, rows, lengths]."""
    reward, discount, q_next = (
        np.pad(getattr(trajectory, name), [*[(0, 0)] * (getattr(trajectory, name).ndim - 1), (0, lengths)]).astype(float)
        for name in ("reward", "discount", "q_next")
    )
    values = np.full((trajectory.pairs, rows, lengths), np.nan)
    total, factor = np.zeros(rows), np.ones(rows)
    for h in range(1, lengths + 1):
        ahead = slice(h - 1, h - 1 + rows)
        total, factor = total + factor * reward[ahead], factor * discount[ahead]
        values[:, :, h - 1] = np.where(trajectory.available[:rows] >= h, total + factor * q_next[:, ahead], np.nan)
    return values


@dataclass(frozen=True)
class Numbers:
    """Summary statistics of a memory, over all rows and critic pairs."""

    rows: int
    trajectories: int
    mean_length: float
    median_length: float
    one_step: float  # fraction of rollouts with h* = 1
    to_the_end: float
    at_the_cap: float
    by_choice: float
    gap: float  # mean of planned return - Monte-Carlo return

    @staticmethod
    def of(memory: MemoryView) -> Numbers:
        """The statistics of a memory."""
        length = memory.length
        return Numbers(
            rows=len(memory),
            trajectories=len(memory.starts),
            mean_length=float(length.mean()),
            median_length=float(np.median(length)),
            one_step=float((length == 1).mean()),
            to_the_end=float(memory.to_the_end.mean()),
            at_the_cap=float(memory.at_the_cap.mean()),
            by_choice=float(memory.by_choice.mean()),
            gap=float((memory.planned - memory.monte_carlo).mean()),
        )


def planner_of(algo: str, chosen: AnyRecipe) -> Planner:
    """The planner of the returns in a recipe's memory; raises if it stores none."""
    if isinstance(chosen, TabularRecipe):
        raise BadValue(f"{algo} keeps its values in tables, which gemrl memory does not draw: model.agent.learner.q has them")
    if isinstance(own := vars(chosen).get("planner"), Planner):
        return own
    for name in ("targets", "anchor"):
        part = chosen.settable().get(name)
        if part is not None and (part.stored or getattr(part, "every", None)):
            return part.planner
    raise BadValue(f"{algo} plans no returns in its memory, so there is nothing to show; gem and its variants do")
