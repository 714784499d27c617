"""Recipes: their differences, their settings, and the values that are refused."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from gemrl.algorithms import tabular
from gemrl.algorithms.bodies import Perceptron
from gemrl.algorithms.losses import Asymmetric, FirstCritic
from gemrl.algorithms.planning import LambdaReturn, NStep, Single, Twin, TwinReleased
from gemrl.algorithms.recipes.continuous import preset_depth
from gemrl.algorithms.recipes.discrete import IMAGES, DiscreteRecipe
from gemrl.algorithms.registry import (
    ALGORITHMS,
    GEM,
    GEM2_LADDER,
    LADDER,
    RECIPES,
    TD3,
    Recipe,
    SoftRecipe,
    TabularRecipe,
    algorithm_for,
    difference,
    groups,
    recipe,
    recipe_for,
)
from gemrl.algorithms.targets import Fresh, Planned, SelfImitation, Tightening
from gemrl.cli.tables import fields_tables
from gemrl.core.exceptions import BadValue, UnknownName
from gemrl.core.layout import Layout

VECTOR = Layout((3,), 2)


def test_gem_has_the_hyperparameters_of_the_paper() -> None:
    """Table 2 of the appendix, and the released code where the paper gives no value."""
    assert (GEM.tau, GEM.train_freq, GEM.target_update_interval, GEM.gradient_steps) == (0.6, 100, 100, 200)
    assert (GEM.buffer_size, GEM.policy_delay, GEM.batch_size, GEM.gamma) == (100_000, 2, 100, 0.99)
    assert (GEM.exploration_noise, GEM.learning_starts, GEM.settable()["net_arch"]) == (0.1, 10_000, (400, 300))
    assert difference(GEM, RECIPES["gem-paper"]).keys() == {
        "learning_rate",
        "layer_norm",
        "actor_objective",
        "separate_batches",
    }
    assert RECIPES["gem-paper"].settable()["learning_rate"] == 1e-3
    assert difference(GEM, RECIPES["gem-released"]).keys() == {
        "batch_size",
        "tau",
        "learning_starts",
        "planner",
        "norm_first",
        "action_twice",
        "regress_on_both",
    }


def test_every_ablation_changes_one_field_of_gem() -> None:
    for name, ablation in groups()["ablations"].items():
        assert len(difference(GEM, ablation.recipe)) == 1, name


def test_tabular_recipes_use_the_learning_rules_of_the_theory() -> None:
    for name, rule in {"gem-tabular": tabular.GEM, "q-learning": tabular.Q_LEARNING, "double-q": tabular.DOUBLE_Q}.items():
        chosen = RECIPES[name].settable()
        assert (chosen["planner"], chosen["tables"], chosen["bootstrap"]) == (rule.planner, rule.tables, rule.bootstrap)
    gem = RECIPES["gem-tabular"]
    changed = {name: set(difference(gem, one.recipe)) for name, one in groups()["tabular"].items() if name != "gem-tabular"}
    assert changed == {
        "gem-tabular-no-tbp": {"planner"},
        "gem2-tabular": {"planner"},
        "q-learning": {"planner", "tables"},
        "double-q": {"planner", "bootstrap"},
        "nstep-q": {"planner", "tables"},
    }
    assert set(difference(RECIPES["q-learning"], RECIPES["nstep-q"])) == {"n"}


def test_every_step_of_the_ladder_changes_one_field() -> None:
    for one, following in pairwise(LADDER):
        assert len(difference(one, following)) == 1
    assert LADDER[-1] == GEM
    assert [*difference(LADDER[0], GEM)] == ["gradient_steps", "layer_norm", "n_pairs", "planner", "alpha"]


def test_the_second_ladder_goes_from_gem_to_gem2() -> None:
    assert GEM2_LADDER[0] == GEM.but(learning_starts=5_000)
    assert GEM2_LADDER[-1] == RECIPES["gem2"]
    changed = [set(difference(one, following)) for one, following in pairwise(GEM2_LADDER)]
    assert sum(map(len, changed)) == len(set.union(*changed))  # no field goes back and forth
    assert changed[0] == {"distribution"}
    assert changed[3:] == [{"embedding"}, {"loss"}, {"policy_average"}]


def test_baselines_have_the_published_hyperparameters() -> None:
    assert (TD3.learning_rate, TD3.batch_size, TD3.tau, TD3.policy_delay, TD3.buffer_size) == (1e-3, 100, 0.005, 2, 1_000_000)
    assert (TD3.train_freq, TD3.gradient_steps, TD3.body) == (1, 1, Perceptron((400, 300), layer_norm=False))
    assert (TD3.target_policy_noise, TD3.target_noise_clip, TD3.exploration_noise) == (0.2, 0.5, 0.1)
    assert difference(TD3, RECIPES["ddpg"]).keys() == {
        "n_critics",
        "target_policy_noise",
        "policy_delay",
        "target_update_interval",
    }
    assert difference(TD3, RECIPES["td3-sil"]).keys() == {"bound"}
    assert difference(TD3, RECIPES["optimality-tightening"]).keys() == {"bound"}
    assert difference(TD3, RECIPES["td3-nstep"]).keys() == {"n"}
    assert difference(RECIPES["ddpg"], RECIPES["emac"]).keys() == {"buffer_size", "batch_size", "net_arch", "anchor"}
    redq = RECIPES["redq"]
    assert isinstance(redq, Recipe)
    assert (redq.body, redq.train_freq, redq.gradient_steps) == (Perceptron((400, 300)), 100, 200)
    assert (redq.n_pairs * redq.n_critics, redq.targets, redq.tau) == (4, Fresh(subset=2), 0.005)


def test_a_difference_between_families_starts_with_the_family() -> None:
    assert next(iter(difference(GEM, SoftRecipe()))) == "family"
    assert next(iter(difference(GEM, TabularRecipe()))) == "family"
    assert difference(SoftRecipe(), SoftRecipe()) == {}


@pytest.mark.parametrize(
    ("env_id", "depth"),
    [
        *((f"{task}-v5", 1000) for task in ("HalfCheetah", "Ant", "Swimmer")),
        *((f"{task}-v5", 5) for task in ("Humanoid", "Walker2d", "Hopper", "HumanoidStandup")),
        ("Ant-v4", 1000),
        ("Pendulum-v1", 5),
        ("my.package:Ant-v9", 1000),
        ("", 5),
    ],
)
def test_presets(env_id: str, depth: int) -> None:
    assert preset_depth(env_id) == depth
    assert GEM.for_environment(env_id, VECTOR) == GEM.but(planner=Twin(depth))


def test_one_step_targets_stay_one_step() -> None:
    assert GEM.but(planner=NStep(1)).for_environment("Ant-v5", VECTOR).planner == NStep(1)
    assert GEM.but(planner=NStep(5)).for_environment("Ant-v5", VECTOR).planner == NStep(1000)
    assert TD3.for_environment("Ant-v5", VECTOR) == TD3
    nstep, sil = RECIPES["td3-nstep"].for_environment("Ant-v5", VECTOR), RECIPES["td3-sil"].for_environment("Ant-v5", VECTOR)
    assert isinstance(nstep, Recipe)
    assert nstep.targets == Fresh(1000)
    assert sil == RECIPES["td3-sil"]


def test_fields_of_parts_can_be_changed() -> None:
    changed = GEM.but(depth=7, alpha=1.0)
    assert (changed.targets, changed.loss) == (Planned(Twin(7)), Asymmetric(1.0))
    assert difference(GEM, changed) == {"depth": (5, 7), "alpha": (0.25, 1.0)}
    assert GEM.but(planner=LambdaReturn(0.9, 5), lam=0.5).planner == LambdaReturn(0.5, 5)
    assert GEM.but(planner=NStep(3), depth=9).planner == NStep(9)


def test_settings_from_the_command_line() -> None:
    settings = ["depth=20", "net_arch=(64, 64)", "layer_norm=False", "planner=Single", "actor_objective=FirstCritic()"]
    changed = recipe_for("gem", "Ant-v5", VECTOR, settings)
    # a planner replaces a depth that was set before it
    assert changed == GEM.but(planner=Single(5), net_arch=(64, 64), layer_norm=False, actor_objective=FirstCritic())
    assert recipe_for("gem", "Ant-v5", VECTOR, ["targets=Planned(LambdaReturn(0.5, 3))"]).settable()["planner"] == LambdaReturn(
        0.5, 3
    )
    assert recipe_for("td3", "Ant-v5", VECTOR, ["bound=Tightening(reach=2)"]) == TD3.but(bound=Tightening(reach=2))
    # fields that depend on each other are checked together
    assert recipe_for("gem", "Ant-v5", VECTOR, ["n_pairs=1", "planner=Single(3)"]) == GEM.but(n_pairs=1, planner=Single(3))
    assert recipe_for("gem", "Ant-v5", VECTOR, ["planner=Twin(3)", "depth=20"]) == GEM.but(depth=20)
    assert recipe_for("gem", "Ant-v5", VECTOR, ["learning_rate=1e-3"]).settable()["learning_rate"] == 1e-3
    assert recipe_for("gem", "Ant-v5", VECTOR, ["buffer_size=1e5", "depth=2e1", "net_arch=64"]) == GEM.but(
        buffer_size=100_000, depth=20, net_arch=(64,)
    )


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("deepth=3", "did you mean 'depth'"),
        ("gamma=1.5", "gamma must be a number from 0 to 1"),
        ("batch_size=0", "batch_size must be a whole number of at least 1"),
        ("batch_size=2.5", "whole number"),
        ("batch_size=True", "whole number"),
        ("gamma=nan", "not a Python literal"),
        ("gamma=1e999", "gamma must be"),
        ("learning_rate=1e999", "learning_rate must be"),
        ("net_arch=(3, 'x')", "a width in net_arch"),
        ("net_arch=2.5", "net_arch must be a tuple"),
        ("depth=2.5", "depth must be a whole number"),
        ("target_entropy_scale=1", "target_entropy_scale is a field of other algorithms"),
        ("net_arch={[400, 300]}", "not a Python literal"),
        (f"batch_size={10**400}", "batch_size must be a whole number of at most 1,000,000,000, not 1000000"),
        (f"batch_size={10**12}", "batch_size must be a whole number of at most 1,000,000,000, not 1000000000000"),
        (f"policy_delay={10**22}", "policy_delay must be a whole number of at most 1,000,000,000"),
        (f"depth={10**10}", "depth must be a whole number of at most 1,000,000,000"),
        (f"net_arch=({10**10},)", "a width in net_arch must be a whole number of at most 1,000,000,000"),
        (f"body=Residual(width={10**10})", "width must be a whole number of at most 1,000,000,000"),
        ("layer_norm=1", "layer_norm must be True or False"),
        ("gamma=__import__('os').getcwd()", "not a Python literal"),
        ("planner=__import__('os')", "unknown part"),
        ("planner=Twin(depth=open('x'))", "unknown part 'open'"),
        ("planner=os.system('x')", "must have the form"),
        ("planner=Twim(3)", "did you mean 'Twin'"),
        ("planner=Twin(deep=3)", "deep"),
        ("planner=Twin(0)", "depth must be a whole number"),
        ("planner=5", "must have the form"),
        ("loss=Twin(3)", "loss must be Asymmetric"),
        ("gamma", "--set takes field=value"),
        ("=3", "--set takes field=value"),
        ("gamma=", "--set takes field=value"),
        ("alpha=-1", "alpha must be a number of at least 0"),
        ("lam=0.5", "unknown field"),
        ("n_pairs=1", "n_pairs must be 2"),
        ("planner=Asymmetric(1)", "planner must be one of NStep"),
        ("bound=SelfImitation()", "needs Fresh targets"),
        ("targets=Fresh(subset=3)", "more critics than n_critics"),
        ("targets=Twin(3)", "targets must be Planned or PlannedLengths or Fresh"),
    ],
)
def test_invalid_settings_are_refused_in_one_line(setting: str, message: str) -> None:
    with pytest.raises(BadValue, match=message.replace("(", r"\(").replace(")", r"\)")):
        recipe_for("gem", "Pendulum-v1", VECTOR, [setting])


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_restored_from_json(name: str) -> None:
    values = json.loads(json.dumps(RECIPES[name].as_dict()))
    assert type(RECIPES[name]).from_dict(values) == RECIPES[name]


def test_json_evaluates_nothing() -> None:
    values = GEM.as_dict() | {"targets": "__import__('os').system('false')"}
    with pytest.raises(BadValue):
        Recipe.from_dict(values)


def test_recipes_are_immutable_and_hashable() -> None:
    assert hash(GEM) == hash(Recipe())
    assert Recipe().but(net_arch=[400, 300]) == GEM
    with pytest.raises(dataclasses.FrozenInstanceError):
        GEM.gamma = 0.5  # type: ignore[misc]


def test_an_unknown_algorithm_gets_a_suggestion() -> None:
    with pytest.raises(UnknownName, match="did you mean 'gem-paper'"):
        recipe("gem-papre")


def test_the_repr_of_a_part_is_valid_python() -> None:
    parts: tuple[Any, ...] = (Twin(3), Single(4), NStep(2), LambdaReturn(0.5, 6), TwinReleased(8), Asymmetric(0.5))
    parts += (Planned(Single(4)), Fresh(3, 2), SelfImitation(2.0), Tightening(1.0, 3))
    names: dict[str, Any] = {type(part).__name__: type(part) for part in parts}
    assert [eval(repr(part), names) for part in parts] == list(parts)


ATARI, MINATAR = Layout((4, 84, 84), 1, 9, "uint8", frames=4), Layout((10, 10, 4), 1, 3, "bool")
DISCRETE = {name: recipe for name, recipe in RECIPES.items() if isinstance(recipe, DiscreteRecipe)}


def test_differences_between_discrete_algorithms() -> None:
    gem = RECIPES["gem-discrete"]
    assert difference(gem, RECIPES["dqn"]).keys() == {"n_pairs", "n_critics", "targets", "alpha"}
    assert difference(RECIPES["dqn"], RECIPES["ddqn"]).keys() == {"bootstrap"}
    assert difference(RECIPES["ddqn"], RECIPES["dueling-dqn"]).keys() == {"dueling"}
    assert difference(RECIPES["dqn"], RECIPES["clipped-ddqn"]).keys() == {"n_critics", "bootstrap", "acting"}
    assert difference(RECIPES["dqn"], RECIPES["ebu"]).keys() == {"targets"}
    assert difference(RECIPES["dqn"], RECIPES["emdqn"]).keys() == {"anchor"}
    paper = {"learning_rate", "batch_size", "train_freq", "gradient_steps", "target_update_interval", "tau"}
    assert difference(gem, RECIPES["gem-discrete-paper"]).keys() == paper
    assert difference(gem, RECIPES["gem-discrete-released"]).keys() == {"planner", "alpha", "students"}
    for name in ("no-tbp", "no-asymmetry", "lambda", "nstep", "one-step"):
        assert len(difference(gem, RECIPES[f"gem-discrete-{name}"])) == 1


@pytest.mark.parametrize(("layout", "env_id"), [(ATARI, "ALE/Pong-v5"), (ATARI, ""), (MINATAR, "MinAtar/Breakout-v1")])
def test_a_preset_is_the_same_for_all_discrete_algorithms(layout: Layout, env_id: str) -> None:
    for name, plain in DISCRETE.items():
        if name == "gem-discrete-paper":  # it keeps the paper's numbers
            continue
        preset = plain.for_environment(env_id, layout)
        changes = difference(plain, preset)
        assert changes.keys() <= {*IMAGES, "evaluation_eps", "reward_bound"}, name
        assert {field: getattr(preset, field) for field in changes} == {
            field: getattr(DISCRETE["gem-discrete"].for_environment(env_id, layout), field) for field in changes
        }
        assert difference(preset, DISCRETE["dqn"].for_environment(env_id, layout)) == difference(plain, DISCRETE["dqn"])


def test_on_atari_the_paper_s_recipe_has_its_numbers_and_the_rest_of_the_preset() -> None:
    preset = DISCRETE["gem-discrete-paper"].for_environment("ALE/MsPacman-v5", ATARI)
    assert (preset.target_update_interval, preset.tau, preset.train_freq, preset.gradient_steps) == (100, 0.6, 100, 200)
    assert (preset.learning_rate, preset.batch_size, preset.buffer_size, preset.gamma) == (1e-3, 100, 100_000, 0.99)
    assert (preset.adam_epsilon, preset.learning_starts, preset.exploration_final_eps) == (1.5e-4, 20_000, 0.01)  # Rainbow's
    assert (preset.evaluation_eps, preset.reward_bound) == (0.001, 1.0)


def test_the_preset_of_atari() -> None:
    preset = DISCRETE["dqn"].for_environment("ALE/MsPacman-v5", ATARI)
    assert (preset.learning_rate, preset.adam_epsilon, preset.batch_size, preset.buffer_size) == (6.25e-5, 1.5e-4, 32, 100_000)
    assert (preset.train_freq, preset.gradient_steps, preset.target_update_interval) == (4, 1, 8_000)
    assert (preset.learning_starts, preset.exploration_steps, preset.exploration_final_eps) == (20_000, 62_500, 0.01)
    assert (preset.evaluation_eps, preset.reward_bound, preset.gamma) == (0.001, 1.0, 0.99)
    assert RECIPES["gem-discrete"].settable()["depth"] == 1000
    assert DISCRETE["dqn"].for_environment("pkg:PongNoFrameskip-v4", ATARI) == preset
    own = DISCRETE["dqn"].for_environment("Warehouse-v0", ATARI)  # its rewards are not clipped
    assert difference(own, preset) == {"evaluation_eps": (0.0, 0.001), "reward_bound": (1e6, 1.0)}
    assert DISCRETE["dqn"].for_environment("CartPole-v1", Layout((4,), 1, 2)) == DISCRETE["dqn"]


@pytest.mark.parametrize(
    ("name", "layout", "found"),
    [
        ("gem", VECTOR, "gem"),
        ("gem", Layout((4,), 1, 2), "gem-discrete"),
        ("gem", ATARI, "gem-discrete"),
        ("gem", Layout((1,), 1, 4, "int32", states=16), "gem-tabular"),
        ("gem-no-tbp", ATARI, "gem-discrete-no-tbp"),
        ("gem-released", MINATAR, "gem-discrete-released"),
        ("gem-paper", ATARI, "gem-discrete-paper"),
        ("dqn", Layout((1,), 1, 4, "int32", states=16), "dqn"),
    ],
)
def test_the_algorithm_that_a_name_stands_for(name: str, layout: Layout, found: str) -> None:
    assert algorithm_for(name, layout) == found


def test_every_settable_field_is_listed() -> None:
    """`gemrl algos --fields` lists all fields that --set takes, except `n` (as `depth`), and `subset` for discrete actions."""
    listed = {str(cell) for table in fields_tables() for cell in table.columns[0].cells}
    assert {name for recipe in RECIPES.values() for name in recipe.settable()} - listed == {"n"}
    listed_discrete = {str(cell) for cell in fields_tables()[1].columns[0].cells}
    discrete = [recipe for recipe in RECIPES.values() if isinstance(recipe, DiscreteRecipe)]
    assert {name for recipe in discrete for name in recipe.settable()} - listed_discrete == {"n", "subset"}


PAGE = (Path(__file__).parents[1] / "docs" / "recipes.md").read_text()
LAMBDA = "Lambda is 0.9 in `gem-lambda` and `gem-discrete-lambda`: our choice"


@pytest.mark.parametrize(
    ("name", "value", "shown", "documented"),
    [
        ("td3-sil", attrgetter("bound.weight"), "weight 1 (released code: 0.1), without its policy term", "weight of 1 is ours"),
        ("gem-lambda", attrgetter("planner.lam"), "lambda 0.9 is our choice", LAMBDA),
        ("gem-discrete-lambda", attrgetter("planner.lam"), "lambda 0.9 is our choice", LAMBDA),
    ],
)
def test_our_own_values_are_named(name: str, value: Callable[[Any], float], shown: str, documented: str) -> None:
    """`gemrl algos` shows the summary; both texts have the value that the recipe has."""
    assert shown in ALGORITHMS[name].summary
    assert documented in PAGE
    for text in (shown, documented):
        assert float(re.findall(r"[\d.]*\d", text)[0]) == value(RECIPES[name])


def documented_row(name: str) -> str:
    """The line of the page that describes an algorithm."""
    (line,) = [line for line in PAGE.splitlines() if line.startswith((f"| `{name}` |", f"- **`{name}`**"))]
    return line


def test_what_the_released_recipes_do_not_copy_is_named() -> None:
    """By `gemrl algos` and by the page."""
    assert "copies the networks, the planner and the loss of the authors' released code, and nothing else" in documented_row(
        "gem-discrete-released"
    )
    assert "tasks of version 2, which gymnasium no longer has; here they are v5" in documented_row("gem-released")
    assert "the policy term of Oh et al. is absent" in documented_row("td3-sil")
    changed = set(difference(RECIPES["gem-discrete"], RECIPES["gem-discrete-released"]))
    assert changed == {"planner", "alpha", "students"}
    assert "networks, planner and loss" in ALGORITHMS["gem-discrete-released"].summary
    assert "v2 of the MuJoCo tasks" in ALGORITHMS["gem-released"].summary


@pytest.mark.parametrize(("env_id", "depth"), [("HalfCheetah-v5", 1000), ("Hopper-v5", 5), ("Mine-v0", 5)])
def test_gem_has_the_cap_of_the_task_and_gem2_has_none(env_id: str, depth: int) -> None:
    layout = Layout((3,), 2)
    assert RECIPES["gem"].for_environment(env_id, layout).settable()["depth"] == depth
    assert RECIPES["gem2"].for_environment(env_id, layout) == RECIPES["gem2"]
