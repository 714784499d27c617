"""Every algorithm that gemrl comes with: its name, a summary, its recipe, and the algorithm to compare it with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gemrl.algorithms.losses import FirstCritic
from gemrl.algorithms.planning import LambdaReturn, NStep, Single, TwinReleased
from gemrl.algorithms.recipe import BaseRecipe
from gemrl.algorithms.recipes.continuous import DDPG, EMAC, GEM, GEM2, REDQ, TD3, TD3_BC, VEM, Recipe
from gemrl.algorithms.recipes.dictionary import DictionaryRecipe
from gemrl.algorithms.recipes.discrete import (
    CLIPPED,
    DDQN,
    DQN,
    DUELING,
    EBU,
    EMDQN,
    GEM2_DISCRETE,
    GEM_DISCRETE,
    PAPER_DISCRETE,
    RELEASED,
    DiscreteRecipe,
)
from gemrl.algorithms.recipes.ladders import GEM2_LADDER, LADDER
from gemrl.algorithms.recipes.nearest import NearestRecipe
from gemrl.algorithms.recipes.soft import CROSSQ, SoftRecipe
from gemrl.algorithms.recipes.tabular import DOUBLE_Q, GEM2_TABULAR, GEM_TABULAR, NSTEP_Q, Q_LEARNING
from gemrl.algorithms.registration import Algorithm, register
from gemrl.algorithms.targets import Fresh, SelfImitation, Tightening


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
_add("GEM", "gem2", "beyond the paper: GEM with what later methods have shown to help", GEM2)

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
_add(
    "baselines",
    "emac",
    "episodic memory actor-critic: ddpg pulled towards returns of nearest neighbours (Kuznetsov and Filchenkov, 2021)",
    EMAC,
    compared_with="ddpg",
)
_add("baselines", "sac", "soft actor-critic (Haarnoja et al., 2018)", SoftRecipe())
_add(
    "baselines",
    "crossq-512",
    "sac with batch renormalization and no target networks (CrossQ, Bhatt et al., 2024), 512 wide (paper: 2048)",
    CROSSQ,
    compared_with="sac",
)
_add("baselines", "redq", "randomized ensemble with GEM's update ratio (Chen et al., 2021)", REDQ)
_add(
    "baselines",
    "mfec",
    "model-free episodic control: best returns of nearest neighbours (Blundell et al., 2016)",
    NearestRecipe(),
)

_add(
    "recorded data",
    "vem",
    "value-based episodic memory: gem on V, whose policy imitates the best stored actions (Ma et al., 2022)",
    VEM,
    compared_with="gem",
)
_add(
    "recorded data",
    "td3-bc",
    "td3 with behavior cloning, on normalized observations (Fujimoto and Gu, 2021)",
    TD3_BC,
    compared_with="td3",
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
    "gem2-discrete",
    "gem-discrete with rollouts that do not look ahead",
    GEM2_DISCRETE,
    compared_with="gem-discrete",
    stands_for="gem2",
    variant_of="gem2",
)
_add(
    _DISCRETE,
    "gem-discrete-paper",
    "gem-discrete with the paper's numbers: u = 100, tau 0.6, 200 updates with minibatches of 100, lr 1e-3",
    PAPER_DISCRETE,
    compared_with="gem-discrete",
    stands_for="gem-paper",
    variant_of="gem",
)
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
_add(
    _DISCRETE,
    "emdqn",
    "episodic memory DQN: dqn pulled towards the best stored returns (Lin et al., 2018)",
    EMDQN,
    compared_with="dqn",
)
_add(
    _DISCRETE,
    "ebu",
    "episodic backward update: dqn on targets that spread backwards along whole episodes (Lee et al., 2019)",
    EBU,
    compared_with="dqn",
)
_add(
    _DISCRETE,
    "nec",
    "neural episodic control: values of the nearest embeddings in a learned dictionary (Pritzel et al., 2017)",
    DictionaryRecipe(),
    compared_with="dqn",
)
_ablations("gem-discrete", GEM_DISCRETE, _DISCRETE, compared_with="gem-discrete")


def _ladder(name: str, start: str, recipes: Sequence[Recipe], summaries: Sequence[str]) -> None:
    """Adds the rungs of a ladder, each compared with the one below it."""
    for number, (summary, recipe) in enumerate(zip(summaries, recipes, strict=True)):
        _add(name, f"{name}-{number}", summary, recipe, compared_with=f"{name}-{number - 1}" if number else start)


_ladder(
    "ladder",
    "gem",
    LADDER,
    (
        "one pair of critics, one-step returns, squared loss, 100 updates per 100 steps, no LayerNorm",
        "+ LayerNorm",
        "+ 200 updates per 100 steps",
        "+ a second pair of critics",
        "+ asymmetric loss",
        "+ the best rollout of each pair",
        "+ twin back-propagation, which gives gem",
    ),
)
_ladder(
    "gem2-ladder",
    "gem",
    GEM2_LADDER,
    (
        "gem with a warm-up of 5,000 steps",
        "+ a Gaussian policy",
        "+ the stopping rule, with one pair of critics",
        "+ CrossQ's critics and its numbers: batch renormalization, both ends in one pass, 256 wide, one update",
        "+ state-action embeddings",
        "+ an alpha that sets itself",
        "+ an averaged policy, which gives gem2",
    ),
)

_add("tabular", "gem-tabular", "tabular GEM (the paper's Algorithm 3)", GEM_TABULAR, stands_for="gem", variant_of="gem")
_add(
    "tabular",
    "gem2-tabular",
    "gem-tabular with rollouts that do not look ahead",
    GEM2_TABULAR,
    compared_with="gem-tabular",
    stands_for="gem2",
    variant_of="gem2",
)
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
