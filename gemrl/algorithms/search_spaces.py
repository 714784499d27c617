"""Search spaces: which fields of a recipe a hyperparameter search varies, and over which values. All of it is data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gemrl.algorithms.recipe import BaseRecipe
from gemrl.algorithms.recipes.continuous import Recipe
from gemrl.algorithms.recipes.dictionary import DictionaryRecipe
from gemrl.algorithms.recipes.discrete import DiscreteRecipe
from gemrl.algorithms.recipes.nearest import NearestRecipe
from gemrl.algorithms.recipes.soft import SoftRecipe
from gemrl.algorithms.recipes.tabular import TabularRecipe
from gemrl.core.exceptions import BadValue


@dataclass(frozen=True)
class Range:
    """Numbers from low to high: whole ones if both ends are, drawn by their logarithm with `log`."""

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        for value in (self.low, self.high):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                raise BadValue(f"low and high must be numbers, not {value!r}")
        if self.low >= self.high:
            raise BadValue(f"low must be smaller than high, but they are {self.low} and {self.high}")
        if self.log and self.low <= 0:
            raise BadValue(f"with log, low must be larger than 0, not {self.low}")

    @property
    def whole(self) -> bool:
        """Whether it contains whole numbers only."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def texts(self) -> tuple[str, ...]:
        """Both ends, as `--set` takes them."""
        return repr(self.low), repr(self.high)

    def as_dict(self) -> dict[str, Any]:
        """The range as JSON values, in the form of a TOML file."""
        return {"low": self.low, "high": self.high, "log": self.log}

    def __str__(self) -> str:
        return f"{self.low:,} to {self.high:,}{', logarithmic' if self.log else ''}"


@dataclass(frozen=True)
class Choice:
    """Values to choose from. A string is a value as `--set` takes it, such as "Twin(depth=5)"."""

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise BadValue("choices must not be empty")
        if len(set(self.texts)) < len(self.values):
            raise BadValue("choices contain a value twice")

    @property
    def texts(self) -> tuple[str, ...]:
        """All values, as `--set` takes them."""
        return tuple(value if isinstance(value, str) else repr(value) for value in self.values)

    def as_dict(self) -> dict[str, Any]:
        """The choices as JSON values, in the form of a TOML file."""
        return {"choices": list(self.texts)}

    def __str__(self) -> str:
        return ", ".join(self.texts)


Parameter = Range | Choice
SearchSpace = Mapping[str, Parameter]
"""The fields to search, each with its values."""


@dataclass(frozen=True)
class Multiples:
    """Whole multiples of what a recipe has in the field `of`: they suit recipes that train at other intervals, too."""

    of: str
    factors: tuple[float, ...]

    def __str__(self) -> str:
        return f"{', '.join(f'{factor:g}' for factor in self.factors)} times {self.of}"

    def values(self, recipe: BaseRecipe) -> Choice:
        """The choices for a recipe."""
        own = recipe.settable()[self.of]
        return Choice(tuple(dict.fromkeys(max(1, round(factor * own)) for factor in self.factors)))


@dataclass(frozen=True)
class Family:
    """The search space of a family of recipes."""

    title: str
    kind: type[BaseRecipe]
    fields: Mapping[str, Parameter | Multiples]
    stored: bool | None = None
    """For recipes with planned returns only (True), without them only (False), or for both (None)."""
    followed: bool = False
    """For recipes whose minibatches follow planned rollouts, and no others."""
    similar: bool = False
    """For recipes that compare stored states and actions with each other, and no others."""

    def fits(self, recipe: BaseRecipe) -> bool:
        """Whether it is the space of this recipe."""
        targets, anchor = getattr(recipe, "targets", None), getattr(recipe, "anchor", None)
        fits = isinstance(recipe, self.kind) and self.stored in (None, getattr(targets, "stored", None))
        fits = fits and self.followed == bool(getattr(targets, "every", None))
        return fits and self.similar == bool(getattr(anchor, "projection", 0))


DEFINING: Mapping[str, Any] = {"depth": 1, "alpha": 1.0, "target_policy_noise": 0.0}
"""A recipe with this value in a field keeps it: with another one, it would be another algorithm, such as td3-nstep for td3."""

_RATE = Range(1e-4, 3e-3, log=True)
_GAMMA = Choice((0.97, 0.99, 0.995))
_NORMALIZE = Choice((False, True))
_CONTINUOUS: dict[str, Parameter | Multiples] = {
    "learning_rate": _RATE,
    "gamma": _GAMMA,
    "batch_size": Choice((64, 100, 256)),
    "net_arch": Choice(((64, 64), (256, 256), (400, 300))),
    "normalize_observations": _NORMALIZE,
}
_DETERMINISTIC: dict[str, Parameter | Multiples] = _CONTINUOUS | {
    "gradient_steps": Multiples("train_freq", (1, 2, 4)),
    "exploration_noise": Range(0.05, 0.4),
    "target_policy_noise": Range(0.05, 0.4),
    "alpha": Range(0.1, 1.0),
    "expectile": Range(0.1, 0.9),
    "beta": Range(0.3, 10.0, log=True),
    "q_weight": Range(0.5, 10.0, log=True),
}
_ONE_STEP = _DETERMINISTIC | {"tau": Range(1e-3, 5e-2, log=True), "depth": Choice((2, 3, 5, 10))}

SPACES: list[Family] = [
    Family(
        "continuous actions, planned returns (gem)",
        Recipe,
        _DETERMINISTIC | {"tau": Range(0.2, 1.0), "depth": Choice((2, 5, 20, 100, 1000))},
        stored=True,
    ),
    Family(
        "continuous actions, planned rollouts (gem2)",
        Recipe,
        {
            "learning_rate": _RATE,
            "gamma": _GAMMA,
            "batch_size": Choice((128, 256)),
            "net_arch": Choice(((256, 256), (512, 512))),
            "gradient_steps": Multiples("train_freq", (0.5, 1, 2)),
            "every": Choice((250, 500, 1000)),
            "entropy": Range(0.25, 1.0),
            "features": Choice((64, 128, 256)),
            "alpha_low": Range(0.05, 0.5, log=True),
        },
        followed=True,
    ),
    Family("continuous actions, one-step or n-step targets (td3)", Recipe, _ONE_STEP, stored=False),
    Family(
        "continuous actions, returns of nearest neighbours (emac)",
        Recipe,
        _ONE_STEP | {"weight": Range(0.02, 0.5, log=True), "k": Choice((1, 2, 4)), "every": Choice((500, 1000, 2000))},
        stored=False,
        similar=True,
    ),
    Family(
        "continuous actions, stochastic policy (sac)",
        SoftRecipe,
        _CONTINUOUS
        | {
            "gradient_steps": Multiples("train_freq", (1, 2, 4)),
            "tau": Range(1e-3, 5e-2, log=True),
            "target_entropy_scale": Range(0.25, 2.0, log=True),
        },
    ),
    Family(
        "discrete actions, networks (gem-discrete, dqn)",
        DiscreteRecipe,
        {
            "learning_rate": Range(5e-5, 5e-3, log=True),
            "gamma": _GAMMA,
            "batch_size": Choice((32, 64, 128)),
            "gradient_steps": Multiples("train_freq", (0.25, 0.5, 1)),
            "target_update_interval": Multiples("target_update_interval", (0.5, 1, 4)),
            "exploration_final_eps": Range(0.01, 0.2, log=True),
            "exploration_steps": Multiples("exploration_steps", (0.5, 1, 2)),
            "net_arch": Choice(((64, 64), (256, 256), (512,))),
            "alpha": Range(0.1, 1.0),
            "beta": Range(0.25, 1.0),
            "weight": Range(0.03, 1.0, log=True),
            "depth": Choice((2, 5, 20, 100, 1000)),
        },
    ),
    Family(
        "discrete actions, dictionaries (nec)",
        DictionaryRecipe,
        {
            "learning_rate": Range(1e-5, 3e-3, log=True),
            "gamma": _GAMMA,
            "gradient_steps": Multiples("gradient_steps", (1, 2, 4)),
            "value_rate": Range(0.01, 1.0, log=True),
            "exploration_final_eps": Range(0.001, 0.1, log=True),
            "exploration_steps": Multiples("exploration_steps", (0.5, 1, 2)),
            "net_arch": Choice(((64,), (128,), (256, 256))),
            "key_size": Choice((16, 32, 64)),
            "k": Choice((11, 25, 50)),
            "depth": Choice((10, 30, 100, 300)),
        },
    ),
    Family(
        "tables (gem-tabular, q-learning)",
        TabularRecipe,
        {
            "gamma": _GAMMA,
            "first": Range(0.1, 1.0, log=True),
            "scale": Range(1.0, 100.0, log=True),
            "power": Range(0.0, 1.0),
            "exploration_final_eps": Range(0.01, 0.3, log=True),
            "exploration_steps": Multiples("exploration_steps", (0.1, 0.3, 1)),
            "initial_value": Choice((0.0, 1.0)),
            "depth": Choice((2, 5, 20, 100, 1000)),
        },
    ),
    Family(
        "nearest neighbours (mfec)",
        NearestRecipe,
        {
            "gamma": _GAMMA,
            "k": Choice((3, 7, 11, 25)),
            "exploration_final_eps": Range(0.001, 0.1, log=True),
            "exploration_steps": Multiples("exploration_steps", (0.5, 1, 4)),
        },
    ),
]
"""The search space of every family; the first that fits a recipe is its own. Append to it for a family of your own."""


def default_space(recipe: BaseRecipe) -> dict[str, Parameter]:
    """The search space of a recipe: that of its family, with the fields that the recipe has. {} if there is none."""
    family = next((family for family in SPACES if family.fits(recipe)), None)
    own = recipe.settable()
    found: dict[str, Parameter] = {}
    for name, values in (family.fields if family else {}).items():
        if name in own and (name not in DEFINING or own[name] != DEFINING[name]):
            found[name] = values.values(recipe) if isinstance(values, Multiples) else values
    return found


def check_space(recipe: BaseRecipe, space: SearchSpace) -> None:
    """Raises unless the recipe has every field of the space and takes each of its choices, or both ends of its range."""
    for name, values in space.items():
        for text in values.texts:
            recipe.but_from_text([(name, text)])
        current = recipe.settable()[name]
        if isinstance(values, Range) and isinstance(current, int) and not values.whole:
            raise BadValue(f"{name} is a whole number, so low and high must be whole numbers, too")


def without(space: SearchSpace, fixed: Iterable[str]) -> dict[str, Parameter]:
    """The space without some fields."""
    names = set(fixed)
    return {name: values for name, values in space.items() if name not in names}
