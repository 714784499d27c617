"""Planning on stored trajectories: the rollouts V[t, h] of the paper's equation 7, and ways to combine them into one return.

    V[t, 1] = r[t] + discount[t] * q_next[t]
    V[t, h] = r[t] + discount[t] * V[t+1, h-1]      unless row t is the last one of its trajectory

Every planner maps (reward [*B, N], discount [*B, N], last [*B, N], q_next [K, *B, N]) to returns [K, *B, N]. Rows are in
time order along the final axis, and nothing follows row N-1. `discount` is gamma, or 0 where the step terminated; `last` is
true where the trajectory cannot be followed further. K counts the value estimates of the next state, one per pair of critics.

Planners run on numpy and JAX arrays alike; this module does not import JAX.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from gemrl.algorithms.parts import part
from gemrl.algorithms.rollouts import Rollout, fold
from gemrl.core.arrays import Array
from gemrl.core.exceptions import BadValue
from gemrl.core.validation import check_number


class NextActions(NamedTuple):
    """Values of actions in the next state, each [K, *B, N] if the planner uses it; arbitrary where a trajectory ends."""

    stored: Array | None  # of the action that was taken
    other: Array | None  # of the best other action, -inf if there is none


def _as_arrays(reward: Array, discount: Array, last: Array, q_next: Array) -> tuple[Array, Array, Array, Array]:
    """The inputs as arrays of one library; raises if their shapes do not match."""
    xp = q_next.__array_namespace__() if hasattr(q_next, "__array_namespace__") else np
    reward, discount, last, q_next = xp.asarray(reward), xp.asarray(discount), xp.asarray(last), xp.asarray(q_next)
    rows = reward.shape
    if not (discount.shape == last.shape == q_next.shape[1:] == rows) or not rows or rows[-1] == 0:
        raise BadValue(
            "a planner takes reward, discount and last of one shape [N], N >= 1, and q_next [K, N]; got "
            f"{reward.shape}, {discount.shape}, {last.shape} and {q_next.shape}"
        )
    return reward, discount, last.astype(bool), q_next


class Planner(ABC):
    """Turns stored rewards and value estimates into the return of each row."""

    arguments: ClassVar[tuple[str, ...]] = ()
    """Numbers that compiled programs take as arguments (algorithms/arguments.py)."""
    cap: ClassVar[str] = "depth"
    """The name of the field that caps the length of rollouts."""
    mixes: ClassVar[bool] = False
    """Whether a return mixes several rollouts, rather than being the value of one."""
    bootstraps: ClassVar[bool] = True
    """Whether every rollout ends with the value of a state, unless its trajectory terminated."""
    swaps: ClassVar[bool] = False
    """Whether, of two estimates, the other one values the rollout that one chooses."""
    estimates: ClassVar[int | None] = None
    """How many estimates of the next state it needs, one per group of critics; None if any number works."""
    uses_stored: ClassVar[bool] = False
    """Whether it needs `q_stored`, the value of the action that was taken in the next state [K, *B, N]."""
    capped_by_task: ClassVar[bool] = True
    """Whether its cap should be the paper's for each task; a planner that stops by itself needs no such preset."""
    uses_other: ClassVar[bool] = False
    """Whether it needs `q_other`, the value of the best other action there [K, *B, N]; only discrete actions have it."""

    def __post_init__(self) -> None:
        check_number(self.cap, self.rollout_cap, 1, whole=True)

    def __call__(self, *inputs: Array, **named: Array) -> Array:
        """Planned returns [K, *B, N]; the inputs are those of `rollouts`."""
        return self.rollouts(*inputs, **named).other

    def chosen(self, *inputs: Array, **named: Array) -> Array:
        """The lengths h* of the chosen rollouts [K, *B, N]; the inputs are those of `rollouts`."""
        return self.rollouts(*inputs, **named).length

    def rollouts(
        self,
        reward: Array,
        discount: Array,
        last: Array,
        q_next: Array,
        q_stored: Array | None = None,
        q_other: Array | None = None,
    ) -> Rollout:
        """The rollout behind each return: from rewards, discounts and ends [*B, N], and values of next states [K, *B, N]."""
        actions = NextActions(q_stored, q_other)
        reward, discount, last, q_next = _as_arrays(reward, discount, last, q_next)
        if self.uses_stored and (actions.stored is None or actions.stored.shape != q_next.shape):
            raise BadValue(f"{self} also needs q_stored [K, N], the value of the action that was taken in the next state")
        if self.uses_other and (actions.other is None or actions.other.shape != q_next.shape):
            raise BadValue(f"{self} also needs q_other [K, N], the value of the best other action in the next state")
        return self.with_actions(reward, discount, last, q_next, actions)

    def with_actions(self, reward: Array, discount: Array, last: Array, q_next: Array, actions: NextActions) -> Rollout:
        """The rollout behind each return, given the values of next actions that it declares to use."""
        return self.rollout(reward, discount, last, q_next)

    @abstractmethod
    def rollout(self, reward: Array, discount: Array, last: Array, q_next: Array) -> Rollout:
        """The rollout behind each return."""

    @property
    def extra(self) -> tuple[str, ...]:
        """The names of the values that it needs in addition to `q_next`."""
        uses = {"q_stored": self.uses_stored, "q_other": self.uses_other}
        return tuple(name for name, used in uses.items() if used)

    @property
    def rollout_cap(self) -> int:
        """The length of the longest rollout that it considers."""
        return getattr(self, self.cap)


@part
@dataclass(frozen=True)
class NStep(Planner):
    """V[t, n], or the longest rollout if the trajectory ends before that."""

    n: int = 1
    cap: ClassVar[str] = "n"

    def rollout(self, reward: Array, discount: Array, last: Array, q_next: Array) -> Rollout:
        return fold(reward, discount, last, q_next, q_next, self.n, longest=True)


@part
@dataclass(frozen=True)
class LambdaReturn(Planner):
    """The mean of V[t, h] with weights (1 - lam) lam^(h-1); the longest rollout, of at most `depth` steps, gets the rest."""

    lam: float = 0.9
    depth: int = 5
    arguments: ClassVar[tuple[str, ...]] = ("lam",)
    mixes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("lam", self.lam, 0, 1)

    def rollout(self, reward: Array, discount: Array, last: Array, q_next: Array) -> Rollout:
        # R[t] = r + discount * ((1 - lam) * q_next + lam * R[t+1]): an n-step return with modified rewards and discounts.
        mixed = reward + (1 - self.lam) * discount * q_next
        return fold(mixed, self.lam * discount, last, q_next, q_next, self.depth, longest=True)


@part
@dataclass(frozen=True)
class Single(Planner):
    """Each estimate chooses and evaluates its best V[t, h]: equation 5, "without TBP"."""

    depth: int = 5

    def rollout(self, reward: Array, discount: Array, last: Array, q_next: Array) -> Rollout:
        return fold(reward, discount, last, q_next, q_next, self.depth)


@part
@dataclass(frozen=True)
class Twin(Planner):
    """Twin back-propagation, equations 7 and 8: each estimate chooses h*, and the other one evaluates it."""

    depth: int = 5
    estimates: ClassVar[int | None] = 2
    swaps: ClassVar[bool] = True

    def rollout(self, reward: Array, discount: Array, last: Array, q_next: Array) -> Rollout:
        return fold(reward, discount, last, q_next, _other(q_next), self.depth)


@part
@dataclass(frozen=True)
class Stopping(Planner):
    """Follows the trajectory as long as its actions are good, and stops before it sees what came of them.

    A rollout goes on to the next row only if the action taken there is worth, by the estimate that chooses, at least what the
    policy's action is worth, up to `margin`. It ends otherwise, and the other estimate values the state where it ends. Since the
    decision does not depend on the rewards that follow, lucky rewards are not preferred, as they are by a maximum of returns.
    With one estimate alone, the estimate that chooses also values the end.
    """

    depth: int = 1000
    margin: float = 0.0
    arguments: ClassVar[tuple[str, ...]] = ("margin",)
    swaps: ClassVar[bool] = True
    uses_stored: ClassVar[bool] = True
    capped_by_task: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("margin", self.margin, 0)

    def with_actions(self, reward: Array, discount: Array, last: Array, q_next: Array, actions: NextActions) -> Rollout:
        return self.rollout(reward, discount, last | (actions.stored < q_next - self.margin), q_next)

    def rollout(self, reward: Array, discount: Array, last: Array, q_next: Array) -> Rollout:
        value = q_next if q_next.shape[0] == 1 else _other(q_next)
        return fold(reward, discount, last, q_next, value, self.depth, longest=True)


@part
@dataclass(frozen=True)
class TwinReleased(Planner):
    """Twin back-propagation as the authors' released code computes it.

    It differs from `Twin` in two ways. If a trajectory was truncated, the sum of its rewards without a bootstrap is one more
    candidate, one step longer than the longest rollout. And the return is at least the estimate's own one-step target.
    """

    depth: int = 5
    estimates: ClassVar[int | None] = 2
    swaps: ClassVar[bool] = True
    bootstraps: ClassVar[bool] = False

    def rollout(self, reward: Array, discount: Array, last: Array, q_next: Array) -> Rollout:
        xp = q_next.__array_namespace__()
        best = Twin(self.depth).rollout(reward, discount, last, q_next)
        tail = NStep(self.depth).rollout(reward, discount, last, xp.zeros_like(q_next))
        ended = xp.cumsum(last[..., ::-1], axis=-1)[..., ::-1] > 0  # the newest trajectory may still be running
        nothing_after = ended & (tail.length < self.depth) & (tail.own > best.own)
        value = xp.where(nothing_after, tail.own, best.other)
        length = xp.where(nothing_after, tail.length + 1, best.length)
        one_step = reward + discount * q_next
        return Rollout(
            xp.where(nothing_after, tail.own, best.own),
            xp.maximum(value, one_step),
            xp.where(one_step > value, 1, length),
            xp.where(one_step > value, reward, xp.where(nothing_after, tail.reward, best.reward)),
        )


def _other(q_next: Array) -> Array:
    """The two estimates, swapped [2, *B, N]."""
    if q_next.shape[0] != 2:
        raise BadValue(f"twin back-propagation needs two estimates of the next state, not {q_next.shape[0]}")
    return q_next[::-1]
