"""Every algorithm by name, with its recipe, a summary, and the algorithm to compare it with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any

from gemrl.algorithms.losses import FirstCritic
from gemrl.algorithms.planning import LambdaReturn, NStep, Single, TwinReleased
from gemrl.algorithms.recipe import BaseRecipe
from gemrl.algorithms.recipes.continuous import DDPG, GEM, LADDER, REDQ, TD3, Recipe
from gemrl.algorithms.recipes.discrete import CLIPPED, DDQN, DQN, DUELING, GEM_DISCRETE, RELEASED, DiscreteRecipe
from gemrl.algorithms.recipes.nearest import NearestRecipe
from gemrl.algorithms.recipes.soft import SoftRecipe
from gemrl.algorithms.recipes.tabular import DOUBLE_Q, GEM_TABULAR, NSTEP_Q, Q_LEARNING, TabularRecipe
from gemrl.algorithms.targets import Fresh, SelfImitation, Tightening
from gemrl.core.exceptions import BadValue, UnsupportedSpace
from gemrl.core.layout import Layout
from gemrl.core.literals import split_setting
from gemrl.core.mappings import differences
from gemrl.core.suggestions import unknown

__all__ = [
    "ALGORITHMS",
    "DDPG",
    "GEM",
    "GEM_TABULAR",
    "LADDER",
    "RECIPES",
    "REDQ",
    "TD3",
    "Algorithm",
    "AnyRecipe",
    "BaseRecipe",
    "DiscreteRecipe",
    "NearestRecipe",
    "NetworkRecipe",
    "Recipe",
    "SoftRecipe",
    "TabularRecipe",
    "algorithm_for",
    "difference",
    "recipe",
    "recipe_for",
    "register",
]

NetworkRecipe = Recipe | SoftRecipe | DiscreteRecipe
"""Recipes of agents that train networks from their memory, in rounds."""
AnyRecipe = BaseRecipe


@dataclass(frozen=True)
class Algorithm:
    """A named recipe."""

    name: str
    summary: str
    recipe: BaseRecipe
    group: str
    """The heading under which `gemrl algos` lists it."""
    compared_with: str = "gem"
    """The algorithm to compare it with."""
    stands_for: str = ""
    """A more general name for this algorithm where its recipe fits: gem is gem-discrete if actions are discrete."""
    variant_of: str = ""
    """The algorithm that it is a variant of: gem for GEM's ablations and for its versions for other spaces."""


ALGORITHMS: dict[str, Algorithm] = {}
"""Every algorithm by name, in the order in which `gemrl algos` shows them."""

RECIPES: dict[str, BaseRecipe] = {}
"""The recipe of every algorithm by name."""


def register(algorithm: Algorithm) -> Algorithm:
    """Adds an algorithm, so that the command line, studies and saved files know it by name."""
    if ALGORITHMS.get(algorithm.name, algorithm) != algorithm:
        raise BadValue(f"an algorithm named {algorithm.name} already exists; choose another name")
    ALGORITHMS[algorithm.name] = algorithm
    RECIPES[algorithm.name] = algorithm.recipe
    return algorithm


def _add(group: str, name: str, summary: str, recipe: BaseRecipe, **more: str) -> None:
    register(Algorithm(name, summary, recipe, group, **more))


_PAPER = GEM.but(learning_rate=1e-3, layer_norm=False, actor_objective=FirstCritic(), separate_batches=True)
_AS_RELEASED = GEM.but(
    batch_size=128,
    tau=0.633,
    learning_starts=25_000,
    planner=TwinReleased(5),
    norm_first=True,
    action_twice=True,
    regress_on_both=True,
)
_add("GEM", "gem", "Generalizable Episodic Memory, with our defaults", GEM)
_add("GEM", "gem-paper", "gem with the hyperparameters of the paper", _PAPER, variant_of="gem")
_add(
    "GEM",
    "gem-released",
    "gem with the details of the authors' released code, which was run on v2 of the MuJoCo tasks",
    _AS_RELEASED,
    variant_of="gem",
)

_add("baselines", "td3", "twin delayed DDPG (Fujimoto et al., 2018)", TD3)
for _name, _summary, _recipe in (
    ("ddpg", "td3 with one critic, no target smoothing and no delay (Lillicrap et al., 2016)", DDPG),
    (
        "td3-sil",
        "td3 with the lower bound of self-imitation learning on its critics, weight 1 (released code: 0.1), "
        "without its policy term (Oh et al., 2018)",
        TD3.but(bound=SelfImitation()),
    ),
    ("td3-nstep", "td3 with n-step targets", TD3.but(targets=Fresh(n=5))),
    ("optimality-tightening", "td3 with lower and upper bounds on values (He et al., 2017)", TD3.but(bound=Tightening())),
):
    _add("baselines", _name, _summary, _recipe, compared_with="td3")
_add("baselines", "sac", "soft actor-critic (Haarnoja et al., 2018)", SoftRecipe())
_add("baselines", "redq", "randomized ensemble with GEM's update ratio (Chen et al., 2021)", REDQ)
_add(
    "baselines",
    "mfec",
    "model-free episodic control: best returns of nearest neighbours (Blundell et al., 2016)",
    NearestRecipe(),
)

_ABLATIONS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("no-tbp", "no twin back-propagation: each pair evaluates its own choice", {"planner": Single}),
    ("no-asymmetry", "symmetric loss", {"alpha": 1.0}),
    (
        "lambda",
        "lambda-return instead of the best rollout; lambda 0.9 is our choice",
        {"planner": lambda depth: LambdaReturn(0.9, depth)},
    ),
    ("nstep", "the longest rollout instead of the best", {"planner": NStep}),
    ("one-step", "no rollouts", {"planner": lambda depth: NStep(1)}),
)
"""Each ablation changes one field of GEM; its planner has GEM's rollout cap."""


def _ablations(base: str, gem: Recipe | DiscreteRecipe, group: str, **more: str) -> None:
    depth = gem.planner.rollout_cap
    for name, summary, changes in _ABLATIONS:
        values = {field: value(depth) if callable(value) else value for field, value in changes.items()}
        general = {"stands_for": f"gem-{name}"} if base != "gem" else {}
        _add(group, f"{base}-{name}", summary, gem.but(**values), variant_of="gem", **general, **more)


_ablations("gem", GEM, "ablations")

_DISCRETE = "discrete actions"
_add(_DISCRETE, "gem-discrete", "GEM for discrete actions", GEM_DISCRETE, stands_for="gem", variant_of="gem")
_add(
    _DISCRETE,
    "gem-discrete-released",
    "gem-discrete with the networks, planner and loss of the authors' released code, and nothing else of it",
    RELEASED,
    compared_with="gem-discrete",
    stands_for="gem-released",
    variant_of="gem",
)
_add(_DISCRETE, "dqn", "deep Q-network (Mnih et al., 2015)", DQN, compared_with="gem-discrete")
_add(_DISCRETE, "ddqn", "double DQN (van Hasselt et al., 2016)", DDQN, compared_with="dqn")
_add(_DISCRETE, "dueling-dqn", "ddqn with dueling streams (Wang et al., 2016)", DUELING, compared_with="ddqn")
_add(
    _DISCRETE,
    "clipped-ddqn",
    "clipped double DQN: the smaller value of two networks (Fujimoto et al., 2018)",
    CLIPPED,
    compared_with="dqn",
)
_ablations("gem-discrete", GEM_DISCRETE, _DISCRETE, compared_with="gem-discrete")

for _number, (_summary, _recipe) in enumerate(
    zip(
        (
            "one pair of critics, one-step returns, squared loss, 100 updates per 100 steps, no LayerNorm",
            "+ LayerNorm",
            "+ 200 updates per 100 steps",
            "+ a second pair of critics",
            "+ asymmetric loss",
            "+ the best rollout of each pair",
            "+ twin back-propagation, which gives gem",
        ),
        LADDER,
        strict=True,
    )
):
    _add("ladder", f"ladder-{_number}", _summary, _recipe, compared_with=f"ladder-{_number - 1}" if _number else "gem")

_add("tabular", "gem-tabular", "tabular GEM (the paper's Algorithm 3)", GEM_TABULAR, stands_for="gem", variant_of="gem")
_add(
    "tabular",
    "gem-tabular-no-tbp",
    "no twin back-propagation: each table evaluates its own choice",
    GEM_TABULAR.but(planner=Single(1000)),
    compared_with="gem-tabular",
    stands_for="gem-no-tbp",
    variant_of="gem",
)
_add("tabular", "q-learning", "Q-learning (Watkins, 1989)", Q_LEARNING, compared_with="gem-tabular")
_add("tabular", "double-q", "double Q-learning (van Hasselt, 2010)", DOUBLE_Q, compared_with="gem-tabular")
_add("tabular", "nstep-q", "Q-learning with 5-step returns", NSTEP_Q, compared_with="gem-tabular")


def groups() -> dict[str, dict[str, Algorithm]]:
    """All algorithms by group and name."""
    found: dict[str, dict[str, Algorithm]] = {}
    for name, algorithm in ALGORITHMS.items():
        found.setdefault(algorithm.group, {})[name] = algorithm
    return found


def recipe(name: str) -> BaseRecipe:
    """The recipe with this name."""
    if name not in RECIPES:
        raise unknown("algorithm", name, RECIPES, f"; known: {', '.join(RECIPES)}")
    return RECIPES[name]


def recipe_for(algo: str, env_id: str, layout: Layout, settings: Sequence[str]) -> BaseRecipe:
    """The recipe `algo` with the preset of the environment, then the settings, each "field=value"."""
    return recipe(algo).for_environment(env_id, layout).but_from_text([split_setting(setting) for setting in settings])


def algorithm_for(name: str, layout: Layout) -> str:
    """The algorithm that a name stands for, given observations and actions: gem is gem-discrete if actions are discrete."""
    recipe(name)
    special = [other.name for other in reversed(ALGORITHMS.values()) if other.stands_for == name]
    for candidate in (*special, name):
        if RECIPES[candidate].fits(layout):
            return candidate
    others = [other for other, chosen in RECIPES.items() if chosen.fits(layout)]
    hint = f"; these fit: {', '.join(others)}" if others else ", and no other algorithm fits it"
    raise UnsupportedSpace(f"{name} needs {recipe(name).needs}, which this environment does not have{hint}")


def general_name(name: str) -> str:
    """The general name of an algorithm: gem for gem-discrete."""
    known = ALGORITHMS.get(name)
    return known.stands_for or name if known else name


def algo_names(name: str) -> list[str]:
    """A name, followed by those of the algorithms that it may stand for: gem, gem-discrete, gem-tabular."""
    return [name, *(other.name for other in ALGORITHMS.values() if other.stands_for == name)]


def algorithm_in(label: str) -> Algorithm | None:
    """The algorithm at the start of a label, such as "gem-discrete-depth=5" or "gem depth=5"."""
    matches = [name for name in ALGORITHMS if label == name or label.startswith((f"{name} ", f"{name}-"))]
    return ALGORITHMS[max(matches, key=len)] if matches else None


def difference(a: BaseRecipe, b: BaseRecipe) -> dict[str, tuple[Any, Any]]:
    """The fields in which two recipes differ, each with both values; the family comes first if it differs.

    If both hold a part of the same class, the fields of the part are compared.
    """
    return _named({"family": a.family} | vars(a), {"family": b.family} | vars(b))


def _named(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The fields that differ, those of parts of the same kind by their own names."""
    found: dict[str, tuple[Any, Any]] = {}
    for name, (one, other) in differences(first, second).items():
        found |= _named(vars(one), vars(other)) if is_dataclass(one) and type(one) is type(other) else {name: (one, other)}
    return found
