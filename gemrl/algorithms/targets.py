"""Parts of a recipe that describe how a critic's targets are computed, and what else its values are pushed to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from gemrl.algorithms.parts import part, parts_of
from gemrl.algorithms.planning import NStep, Planner, Stopping, Twin
from gemrl.core.exceptions import BadValue
from gemrl.core.validation import check_number


def check_planner(planner: object, estimates: int, field: str, *, discrete: bool = False) -> None:
    """Raises unless `planner` works with this many estimates, whose number `field` sets, and with such actions."""
    if not isinstance(planner, Planner):
        raise BadValue(f"planner must be one of {', '.join(parts_of(Planner))}, not {planner!r}")
    if planner.estimates not in (None, estimates):
        raise BadValue(f"{planner} needs {planner.estimates} estimates: {field} must be {planner.estimates}, not {estimates}")
    if planner.swaps and estimates not in (1, 2):
        raise BadValue(f"{planner} lets one of two estimates value what the other chose: {field} must be 1 or 2, not {estimates}")
    if planner.uses_other and not discrete:
        raise BadValue(f"{planner} compares the action that was taken with all others, so it needs discrete actions")


class Targets(ABC):
    """How a critic's targets are computed."""

    stored: ClassVar[bool]
    """Whether returns are planned over the whole memory and stored in it, or computed for each minibatch."""
    every: int | None = None
    """Environment steps between two plans of stored rollouts; None if it stores none."""

    @property
    @abstractmethod
    def planner(self) -> Planner:
        """The planner of these targets."""


@part
@dataclass(frozen=True)
class Planned(Targets):
    """Returns planned over the whole memory and stored in it; target networks are updated by environment steps."""

    planner: Planner = Twin(5)
    stored: ClassVar[bool] = True


@part
@dataclass(frozen=True)
class PlannedLengths(Targets):
    """Rollouts planned over the whole memory and stored in it; their returns are computed for each minibatch.

    The plan says how far the rollout of each row goes, and what rewards are on the way. The value of the state where it ends is
    computed with each minibatch, so that returns follow the networks at every gradient step. Rows are planned every `every`
    environment steps; until then a new row has a rollout of one step. Target networks are updated by gradient steps.
    """

    planner: Planner = Stopping()
    every: int = 500
    stored: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_number("every", self.every, 1, whole=True)
        if isinstance(self.planner, Planner) and (self.planner.mixes or not self.planner.bootstraps):
            raise BadValue(f"PlannedLengths needs a planner whose rollouts all bootstrap where they end, not {self.planner}")


@part
@dataclass(frozen=True)
class Fresh(Targets):
    """n-step targets computed for each minibatch; target networks are updated by gradient steps.

    The value of a state is the smallest of a pair's critics, or of `subset` critics drawn for each minibatch.
    """

    n: int = 1
    subset: int = 0
    cap: ClassVar[str] = "n"
    stored: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_number("n", self.n, 1, whole=True)
        check_number("subset", self.subset, 0, whole=True)

    @property
    def planner(self) -> Planner:
        """The equivalent planner."""
        return NStep(self.n)


class Bound(ABC):
    """Lower and upper bounds that a critic's values are pushed into, with a weight in the loss."""

    weight: float
    every: int | None = None
    """Environment steps between two computations of stored returns; None if it stores none."""


@part
@dataclass(frozen=True)
class NoBound(Bound):
    """No bounds, only the regression on targets."""

    weight: ClassVar[float] = 0.0  # type: ignore[misc]


@part
@dataclass(frozen=True)
class SelfImitation(Bound):
    """The lower bound of self-imitation learning: weight (R - Q)_+^2, with R the return of the stored episode.

    R follows the episode for up to `horizon` steps, then bootstraps unless it terminated. All R are computed again every
    `every` environment steps.
    """

    weight: float = 1.0
    horizon: int = 1000
    every: int = 100
    arguments: ClassVar[tuple[str, ...]] = ("weight",)

    def __post_init__(self) -> None:
        check_number("weight", self.weight, 0)
        check_number("horizon", self.horizon, 1, whole=True)
        check_number("every", self.every, 1, whole=True)


@part
@dataclass(frozen=True)
class Tightening(Bound):
    """Optimality tightening (He et al., 2017): weight (L - Q)_+^2 + weight (Q - U)_+^2.

    L is the best return of 1..reach steps after (s, a), U the tightest upper bound from 1..reach steps before it.
    """

    weight: float = 4.0
    reach: int = 4
    arguments: ClassVar[tuple[str, ...]] = ("weight",)

    def __post_init__(self) -> None:
        check_number("weight", self.weight, 0)
        check_number("reach", self.reach, 1, whole=True)


class Anchor(ABC):
    """Returns in the memory that Q-values are pulled towards, beside their targets, with a weight in the loss."""

    weight: float
    every: int | None = None
    """Environment steps between two computations of these returns; None if they follow the updates of the targets."""
    others: int = 0
    """How many similar rows the memory stores for each row."""
    projection: int = 0
    """The numbers that states and actions are projected to before they are compared; 0 if they are not compared."""

    @property
    @abstractmethod
    def planner(self) -> Planner | None:
        """The planner of these returns; None if there are none."""

    @property
    def stored(self) -> bool:
        """Whether it stores returns in the memory."""
        return self.planner is not None


class DiscreteAnchor(Anchor):
    """An anchor for discrete actions."""


class ContinuousAnchor(Anchor):
    """An anchor for continuous actions."""


@part
@dataclass(frozen=True)
class NoAnchor(DiscreteAnchor, ContinuousAnchor):
    """Q-values learn their targets only."""

    weight: ClassVar[float] = 0.0  # type: ignore[misc]

    @property
    def planner(self) -> None:
        """None."""


@part
@dataclass(frozen=True)
class BestReturn(DiscreteAnchor):
    """Episodic memory DQN (Lin et al., 2018): `weight` times the loss of Q - H, added to that of the targets.

    H is the best return of all stored steps with the same state and action. A return follows its episode for up to `horizon`
    steps, then bootstraps unless it terminated. All H are computed again whenever the target networks are copied.
    """

    weight: float = 0.1
    horizon: int = 1000
    arguments: ClassVar[tuple[str, ...]] = ("weight",)

    def __post_init__(self) -> None:
        check_number("weight", self.weight, 0)
        check_number("horizon", self.horizon, 1, whole=True)

    @property
    def planner(self) -> Planner:
        """The planner of the returns."""
        return NStep(self.horizon)


@part
@dataclass(frozen=True)
class NearestReturn(ContinuousAnchor):
    """Episodic memory actor-critic (Kuznetsov and Filchenkov, 2021): (1 - weight) loss(Q - y) + weight loss(Q - M).

    y is the usual target, and M the mean of the returns of the `k` most similar stored steps, the step itself included, weighted
    by the softmax of their negative distances. Distances are those of random projections of states and actions to `projection`
    numbers. A return follows its episode for up to `horizon` steps, then bootstraps unless it terminated. All M are computed
    again every `every` environment steps; a step that was added since then has its target only.
    """

    weight: float = 0.1
    k: int = 2
    projection: int = 4
    horizon: int = 1000
    every: int = 1000
    arguments: ClassVar[tuple[str, ...]] = ("weight",)

    def __post_init__(self) -> None:
        check_number("weight", self.weight, 0, 1)
        for name in ("k", "projection", "horizon", "every"):
            check_number(name, getattr(self, name), 1, whole=True)

    @property
    def others(self) -> int:  # type: ignore[override]
        """The neighbours of a step beside itself."""
        return self.k - 1

    @property
    def planner(self) -> Planner:
        """The planner of the returns."""
        return NStep(self.horizon)
