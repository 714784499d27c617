"""Episodic backward update (Lee et al., 2019): the targets of a whole trajectory, computed from its end to its beginning.

A table holds the Q-values of the next state of each step, Q~[t, a] = Q(s[t+1], a). From the last step backwards, the entry of the
action that was taken next is mixed with the target of that step:

    Q~[t, a[t+1]] = beta y[t+1] + (1 - beta) Q(s[t+1], a[t+1])        unless row t is the last one of its trajectory
    y[t] = r[t] + discount[t] * max_a Q~[t, a]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gemrl.algorithms.parts import part
from gemrl.algorithms.planning import NextActions, NStep, Planner, Single
from gemrl.algorithms.rollouts import Rollout
from gemrl.core.arrays import Array
from gemrl.core.validation import check_number


@part
@dataclass(frozen=True)
class Backward(Planner):
    """The target y[t] of episodic backward update, over at most `depth` steps; beta is the paper's diffusion factor.

    A rollout's length says for how many steps the action that was taken had the greatest entry in the table.
    """

    beta: float = 0.5
    depth: int = 1000
    arguments: ClassVar[tuple[str, ...]] = ("beta",)
    mixes: ClassVar[bool] = True
    uses_stored: ClassVar[bool] = True
    uses_other: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("beta", self.beta, 0.01, 1)  # with 0 nothing is propagated, as by NStep(1)

    def with_actions(self, reward: Array, discount: Array, last: Array, q_next: Array, actions: NextActions) -> Rollout:
        xp = q_next.__array_namespace__()
        count = last.shape[-1]
        ended = last | (xp.arange(count) == count - 1)  # no action was taken in the next state
        stored, other = (xp.where(ended, q_next, value) for value in (actions.stored, actions.other))
        # y[t] = max(r + discount * other, mixed + decay * y[t+1]) is the best rollout with modified rewards and discounts, if
        # stopping has the value for which mixed + decay * stop = r + discount * other.
        kept = (1 - self.beta) * stored
        mixed, decay = reward + discount * kept, self.beta * discount
        best = self.rollout(mixed, decay, ended, (other - kept) / self.beta)
        # Where `depth` cuts the recursion off, the table still has the value of every action.
        longest = NStep(self.depth).rollout(mixed, decay, ended, (q_next - kept) / self.beta)
        taken = ~(best.own >= longest.own)  # also where `best` is NaN: no other action exists, and the discount is 0
        return Rollout(*(xp.where(taken, after, before) for before, after in zip(best, longest, strict=True)))

    def rollout(self, reward: Array, discount: Array, last: Array, q_next: Array) -> Rollout:
        return Single(self.depth).rollout(reward, discount, last, q_next)
