"""Every algorithm as a recipe: a frozen dataclass whose named fields are all that may differ between two of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gemrl.algorithms.losses import FirstCritic
from gemrl.algorithms.planning import LambdaReturn, NStep, Single, TwinReleased
from gemrl.algorithms.recipes.continuous import DDPG, GEM, LADDER, REDQ, TD3, Recipe
from gemrl.algorithms.recipes.discrete import CLIPPED, DDQN, DQN, DUELING, GEM_DISCRETE, RELEASED, DiscreteRecipe
from gemrl.algorithms.recipes.nearest import NearestRecipe
from gemrl.algorithms.recipes.soft import SoftRecipe
from gemrl.algorithms.recipes.tabular import DOUBLE_Q, GEM_TABULAR, NSTEP_Q, Q_LEARNING, TabularRecipe
from gemrl.algorithms.targets import Fresh, SelfImitation, Tightening
from gemrl.core.exceptions import UnsupportedSpace
from gemrl.core.literals import split_setting
from gemrl.core.mappings import differences
from gemrl.core.suggestions import unknown

if TYPE_CHECKING:
    from gemrl.core.layout import Layout

__all__ = [
    "DDPG",
    "GEM",
    "GEM_TABULAR",
    "GROUPS",
    "LADDER",
    "RECIPES",
    "REDQ",
    "TD3",
    "AnyRecipe",
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
]

NetworkRecipe = Recipe | SoftRecipe | DiscreteRecipe
"""Of agents that learn networks from their memory, in rounds."""
AnyRecipe = NetworkRecipe | TabularRecipe | NearestRecipe

GROUPS: dict[str, dict[str, tuple[str, AnyRecipe]]] = {
    "GEM": {
        "gem": ("Generalizable Episodic Memory, our default", GEM),
        "gem-paper": (
            "as the paper has it, wherever it speaks",
            GEM.but(learning_rate=1e-3, layer_norm=False, actor_objective=FirstCritic(), separate_batches=True),
        ),
        "gem-released": (
            "with the quirks of the authors' released code",
            GEM.but(
                batch_size=128,
                tau=0.633,
                learning_starts=25_000,
                planner=TwinReleased(5),
                norm_first=True,
                action_twice=True,
                regress_on_both=True,
            ),
        ),
    },
    "baselines": {
        "td3": ("twin delayed DDPG (Fujimoto et al., 2018)", TD3),
        "ddpg": ("td3 with one critic, no smoothing, no delay (Lillicrap et al., 2016)", DDPG),
        "sac": ("soft actor-critic (Haarnoja et al., 2018)", SoftRecipe()),
        "td3-sil": ("td3 with self-imitation's lower bound (Oh et al., 2018)", TD3.but(bound=SelfImitation())),
        "td3-nstep": ("td3 with n-step targets", TD3.but(targets=Fresh(n=5))),
        "redq": ("randomised ensemble at GEM's update ratio (Chen et al., 2021)", REDQ),
        "mfec": ("model-free episodic control: best returns of nearest neighbours (Blundell et al., 2016)", NearestRecipe()),
        "optimality-tightening": ("td3 with bounds from both sides (He et al., 2017)", TD3.but(bound=Tightening())),
    },
    "ablations": {
        "gem-no-tbp": ("no twin back-propagation: each pair trusts its own choice", GEM.but(planner=Single(5))),
        "gem-no-asymmetry": ("squared loss", GEM.but(alpha=1.0)),
        "gem-lambda": ("lambda-return in place of the best rollout", GEM.but(planner=LambdaReturn(0.9, 5))),
        "gem-nstep": ("the longest rollout in place of the best", GEM.but(planner=NStep(5))),
        "gem-one-step": ("no rollouts", GEM.but(planner=NStep(1))),
    },
    "discrete actions": {
        "gem-discrete": ("GEM for discrete actions; what gem means where actions are discrete", GEM_DISCRETE),
        "gem-discrete-released": ("with the quirks of the authors' released code: six networks", RELEASED),
        "dqn": ("deep Q-network (Mnih et al., 2015)", DQN),
        "ddqn": ("double DQN (van Hasselt et al., 2016)", DDQN),
        "dueling-dqn": ("ddqn with dueling streams (Wang et al., 2016)", DUELING),
        "clipped-ddqn": ("clipped double DQN: two networks, the smaller value (Fujimoto et al., 2018)", CLIPPED),
        "gem-discrete-no-tbp": ("no twin back-propagation", GEM_DISCRETE.but(planner=Single(1000))),
        "gem-discrete-no-asymmetry": ("Huber's loss as it is", GEM_DISCRETE.but(alpha=1.0)),
        "gem-discrete-lambda": ("lambda-return in place of the best rollout", GEM_DISCRETE.but(planner=LambdaReturn(0.9, 1000))),
        "gem-discrete-nstep": ("the longest rollout in place of the best", GEM_DISCRETE.but(planner=NStep(1000))),
        "gem-discrete-one-step": ("no rollouts", GEM_DISCRETE.but(planner=NStep(1))),
    },
    "ladder": {
        f"ladder-{rung}": (summary, recipe)
        for rung, (summary, recipe) in enumerate(
            zip(
                (
                    "one pair, one-step returns, squared loss, 100 updates per 100 steps, no LayerNorm",
                    "+ LayerNorm",
                    "+ 200 updates per 100 steps",
                    "+ a second pair of critics",
                    "+ asymmetric loss",
                    "+ the best rollout of each pair",
                    "+ twin back-propagation: this is gem",
                ),
                LADDER,
                strict=True,
            )
        )
    },
    "tabular": {
        "gem-tabular": ("GEM on tables: the paper's Algorithm 3", GEM_TABULAR),
        "gem-tabular-no-tbp": (
            "no twin back-propagation: a table trusts its own choice",
            GEM_TABULAR.but(planner=Single(1000)),
        ),
        "q-learning": ("Q-learning (Watkins, 1989)", Q_LEARNING),
        "double-q": ("double Q-learning (van Hasselt, 2010)", DOUBLE_Q),
        "nstep-q": ("Q-learning with 5-step returns", NSTEP_Q),
    },
}
"""Every named algorithm with a line on it, as `gemrl algos` shows them."""

RECIPES: dict[str, AnyRecipe] = {name: recipe for group in GROUPS.values() for name, (_, recipe) in group.items()}
"""Every named algorithm."""


def recipe(name: str) -> AnyRecipe:
    """The recipe of that name."""
    if name not in RECIPES:
        raise unknown("algorithm", name, RECIPES, f"; known: {', '.join(RECIPES)}")
    return RECIPES[name]


def recipe_for(algo: str, env_id: str, layout: Layout, settings: Sequence[str]) -> AnyRecipe:
    """The recipe `algo` with the environment's preset and then the settings, each field=value."""
    return recipe(algo).for_environment(env_id, layout).but_from_text([split_setting(setting) for setting in settings])


def algorithm_for(name: str, layout: Layout) -> str:
    """The algorithm of that name, or its kin that fits an environment: gem is gem-discrete where actions are discrete."""
    recipe(name)
    kin = (name.replace("gem", prefix, 1) for prefix in ("gem-tabular", "gem-discrete")) if name.startswith("gem") else ()
    for candidate in (*kin, name):
        if candidate in RECIPES and RECIPES[candidate].fits(layout):
            return candidate
    others = [other for other, chosen in RECIPES.items() if chosen.fits(layout)]
    hint = f"; these fit: {', '.join(others)}" if others else ", and nothing else here fits it"
    raise UnsupportedSpace(f"{name} needs {recipe(name).needs}, which this environment does not have{hint}")


def difference(a: AnyRecipe, b: AnyRecipe) -> dict[str, tuple[Any, Any]]:
    """The fields in which two recipes differ, each with its two values; across families, the family first."""
    return differences(*({"family": side.family} | vars(side) for side in (a, b)))
