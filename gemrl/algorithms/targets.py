"""Where a critic's targets come from, and what else pulls at a critic: parts of a recipe, pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gemrl.algorithms.planning import LambdaReturn, NStep, Planner, Single, Twin, TwinReleased
from gemrl.core.exceptions import BadValue
from gemrl.core.validation import check_number

PLANNERS: tuple[type[Planner], ...] = (Twin, Single, NStep, LambdaReturn, TwinReleased)


def check_planner(planner: Planner, pairs: int) -> None:
    """Raises unless it is a planner, and has the two groups of estimates that twin back-propagation needs."""
    if type(planner) not in PLANNERS:
        raise BadValue(f"planner must be one of {', '.join(kind.__name__ for kind in PLANNERS)}, not {planner!r}")
    if isinstance(planner, (Twin, TwinReleased)) and pairs != 2:
        raise BadValue(f"{planner} exchanges values between two groups: n_pairs must be 2, not {pairs}")


@dataclass(frozen=True)
class Planned:
    """Returns that are planned over the whole memory and stored in it; targets move every so many environment steps."""

    planner: Planner = Twin(5)


@dataclass(frozen=True)
class Fresh:
    """n-step targets computed on each minibatch; targets move every so many updates.

    The value of a state is the smallest of a pair's critics, or of `subset` critics drawn anew for each minibatch.
    """

    n: int = 1
    subset: int = 0
    cap: ClassVar[str] = "n"

    def __post_init__(self) -> None:
        check_number("n", self.n, 1, whole=True)
        check_number("subset", self.subset, 0, whole=True)

    @property
    def planner(self) -> Planner:
        """The planner that these targets amount to."""
        return NStep(self.n)


@dataclass(frozen=True)
class NoBound:
    """Nothing but the regression on targets."""


@dataclass(frozen=True)
class SelfImitation:
    """Self-imitation's lower bound: weight (R - Q)_+^2, with R the return of the stored episode.

    R follows the episode for up to `horizon` steps and bootstraps where a time limit cut it. All R are computed
    anew every `every` environment steps.
    """

    weight: float = 1.0
    horizon: int = 1000
    every: int = 100

    def __post_init__(self) -> None:
        check_number("weight", self.weight, 0)
        check_number("horizon", self.horizon, 1, whole=True)
        check_number("every", self.every, 1, whole=True)


@dataclass(frozen=True)
class Tightening:
    """Optimality tightening (He et al., 2017): weight (L - Q)_+^2 + weight (Q - U)_+^2.

    L is the best return of 1..reach steps after (s, a), U the tightest bound from 1..reach steps before it.
    """

    weight: float = 4.0
    reach: int = 4

    def __post_init__(self) -> None:
        check_number("weight", self.weight, 0)
        check_number("reach", self.reach, 1, whole=True)
