"""Names that users bring along: misspelled ones, those of Stable-Baselines3, and environments of other packages."""

from __future__ import annotations

import inspect
import itertools
import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemrl.algorithms.registry import RECIPES
from gemrl.algorithms.sb3_names import ARGUMENTS, LOAD_ARGUMENTS, POLICY_ARGUMENTS, SB3_NAMES
from gemrl.core.exceptions import MissingExtra, UnknownName
from gemrl.core.suggestions import edit_distance, nearest_name
from gemrl.envs.making import make
from gemrl.envs.packages import PACKAGES
from gemrl.training.model import Model

PAGE = Path(__file__).parents[1] / "docs" / "stable-baselines3.md"
CLASSES = ("TD3", "SAC", "DDPG", "DQN")
FIELDS = {name for recipe in RECIPES.values() for name in recipe.settable()}


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("parking-v0", gym.registry, None),
        ("use_sde", FIELDS, None),
        ("activation_fn", FIELDS, "activation"),
        ("replay_buffer_class", FIELDS, None),
        ("stats_window_size", FIELDS, None),
        ("ppo", RECIPES, None),
        ("x", RECIPES, None),
        ("lr", FIELDS, None),
        ("batchsize", FIELDS, "batch_size"),
        ("batch-size", FIELDS, "batch_size"),
        ("lerning_rate", FIELDS, "learning_rate"),
        ("learning_rte", FIELDS, "learning_rate"),
        ("gmama", FIELDS, "gamma"),
        ("exploration_noies", FIELDS, "exploration_noise"),
        ("batch", FIELDS, "batch_size"),
        ("gme", RECIPES, "gem"),
        ("TD3", RECIPES, "td3"),
        ("dpg", RECIPES, "ddpg"),
        ("gem_discrete", RECIPES, "gem-discrete"),
        ("optimality", RECIPES, "optimality-tightening"),
        ("hopper-v5", gym.registry, "Hopper-v5"),
        ("Hoper-v5", gym.registry, "Hopper-v5"),
        ("HalfCheetah-v6", gym.registry, "HalfCheetah-v5"),
        ("InvertedPendulm-v5", gym.registry, "InvertedPendulum-v5"),
        ("cartpole", gym.registry, "CartPole-v1"),
        ("LunarLandar-v3", gym.registry, "LunarLander-v3"),
    ],
)
def test_only_near_names_are_suggested(name: str, known: Any, meant: str | None) -> None:
    assert nearest_name(name, known) == meant


def plain_distance(a: str, b: str) -> int:
    """The definition of the edit distance with swaps of neighbours, as a recursion."""
    if not a or not b:
        return len(a) + len(b)
    found = [plain_distance(a[1:], b) + 1, plain_distance(a, b[1:]) + 1, plain_distance(a[1:], b[1:]) + (a[0] != b[0])]
    if len(a) > 1 and len(b) > 1 and (a[0], a[1]) == (b[1], b[0]):
        found.append(plain_distance(a[2:], b[2:]) + 1)
    return min(found)


@given(st.text("abc", max_size=5), st.text("abc", max_size=5))
def test_edit_distance(a: str, b: str) -> None:
    assert edit_distance(a, b) == plain_distance(a, b)


def arguments_of(name: str) -> dict[str, Any]:
    """The arguments of a class of Stable-Baselines3, with their defaults."""
    stable_baselines3 = pytest.importorskip("stable_baselines3")
    return {key: value.default for key, value in inspect.signature(getattr(stable_baselines3, name)).parameters.items()}


def cells(heading: str) -> list[list[str]]:
    """The rows of the tables below a heading of the page."""
    text = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line.startswith("| `")]
    assert rows
    return rows


@pytest.mark.parametrize("name", CLASSES)
def test_every_argument_of_stable_baselines3_is_accepted_or_explained(name: str) -> None:
    recipe = RECIPES[name.lower()]
    accepted = {*inspect.signature(Model.__init__).parameters, *recipe.settable()}
    for argument in arguments_of(name):
        if argument not in accepted:
            with pytest.raises(UnknownName, match=rf"\b{argument}\b.*: {re.escape(ARGUMENTS[argument])}$"):
                recipe.but(**{argument: 1})


def test_every_key_of_policy_kwargs_is_accepted_or_explained() -> None:
    for module, name in (("td3", "TD3Policy"), ("sac", "SACPolicy"), ("dqn", "DQNPolicy")):
        policies = pytest.importorskip(f"stable_baselines3.{module}.policies")
        keys = list(inspect.signature(getattr(policies, name)).parameters)[3:]  # after both spaces and the schedule
        assert keys
        assert {key for key in keys if key not in RECIPES[module].settable()} <= SB3_NAMES.keys()


def test_every_argument_of_load_is_accepted_or_explained() -> None:
    stable_baselines3 = pytest.importorskip("stable_baselines3")
    theirs = [name for name in inspect.signature(stable_baselines3.TD3.load).parameters if name != "kwargs"]
    assert set(theirs) - set(inspect.signature(Model.load).parameters) == LOAD_ARGUMENTS.keys()


def test_no_explained_name_is_stale() -> None:
    """Every explained argument is one of Stable-Baselines3, and of no recipe, except those that only some recipes have."""
    assert {*ARGUMENTS} <= set(itertools.chain(*map(arguments_of, CLASSES)))
    assert set(SB3_NAMES) & FIELDS == {"exploration_initial_eps"}


def test_the_page_lists_every_argument_with_its_explanation() -> None:
    rows = {row[0].strip("`"): row[1:] for row in cells("Arguments of the constructors")}
    classes: dict[str, list[str]] = {}
    for name in CLASSES:
        for argument in arguments_of(name):
            classes.setdefault(argument, []).append(name)
    for argument, names in classes.items():
        assert rows[argument][0] == ("all" if len(names) == 4 else ", ".join(names))
    for argument, text in (ARGUMENTS | POLICY_ARGUMENTS).items():
        assert rows[argument][-1].endswith(text)
    assert rows.keys() == classes.keys() | POLICY_ARGUMENTS.keys() | {"net_arch", "n_critics"}


def test_the_page_lists_every_default_that_differs() -> None:
    listed = {
        (row[0].strip("`"), name): tuple(float(cell.replace(",", "")) for cell in row[2:])
        for row in cells("Defaults that differ")
        for name in row[1].split(", ")
    }
    found = {}
    for name in CLASSES:
        ours = RECIPES[name.lower()].settable()
        for argument, theirs in arguments_of(name).items():
            if argument in ours and ours[argument] != theirs:
                found[argument, name] = (float(theirs), float(ours[argument]))
    assert listed == found


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("dm_control/cheetah-run-v0", "pip install 'shimmy[dm-control]', then use shimmy:dm_control/cheetah-run-v0"),
        ("parking-v0", "pip install highway-env, then use highway_env:parking-v0"),
        ("highway-fast-v0", "pip install highway-env, then use highway_env:highway-fast-v0"),
        ("FetchReach-v4", "pip install gymnasium-robotics, then use gymnasium_robotics:FetchReach-v4"),
        ("PandaPickAndPlaceDense-v3", "pip install panda-gym, then use panda_gym:PandaPickAndPlaceDense-v3"),
        ("MiniGrid-Empty-5x5-v0", "pip install minigrid, then use minigrid:MiniGrid-Empty-5x5-v0"),
        ("Meta-World/MT1", "pip install metaworld, then use metaworld:Meta-World/MT1"),
        ("PyFlyt/QuadX-Hover-v4", "pip install pyflyt, then use PyFlyt.gym_envs:PyFlyt/QuadX-Hover-v4"),
        ("HopperBulletEnv-v0", "pip install pybullet_envs_gymnasium, then use pybullet_envs_gymnasium:HopperBulletEnv-v0"),
    ],
)
def test_environments_of_other_packages(env_id: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)  # whatever is installed here
    with pytest.raises(UnknownName, match=re.escape(f"unknown environment '{env_id}': {message}")):
        make(env_id)


def test_an_installed_package_is_named_with_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "highway_env.py").write_text(
        "import gymnasium as gym\ngym.register('merge-v0', 'gymnasium.envs.classic_control:PendulumEnv')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UnknownName, match="such ids are in highway_env: use highway_env:merge-v0"):
        make("merge-v0")
    try:
        assert make("highway_env:merge-v0").observation_space.shape == (3,)
        with pytest.raises(UnknownName, match="did you mean 'highway_env:merge-v0'"):
            make("highway_env:merge-v1")
    finally:
        gym.registry.pop("merge-v0", None)


def test_a_missing_module_says_what_to_install() -> None:
    with pytest.raises(MissingExtra, match="panda_gym is not installed: pip install panda-gym"):
        make("panda_gym:PandaReach-v3")


def test_the_guide_lists_every_package() -> None:
    text = (PAGE.parent / "your-own-environment.md").read_text()
    rows = [[cell.strip(" `") for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line.startswith("| `")]
    listed = {(row[0], row[2]): row[1].replace("...", "X") for row in rows if len(row) == 3}
    assert {(package.requirement, package.module) for package in PACKAGES} == listed.keys()
    for package in PACKAGES:
        for example in re.findall(r"[\w/-]{3,}", listed[package.requirement, package.module]):
            assert re.match(package.ids, example)


def test_gymnasium_s_own_environments_are_not_taken_for_others() -> None:
    assert not [name for name in gym.registry for package in PACKAGES if re.match(package.ids, name) and "/" not in name]


def test_foreign_tests_translate_only_what_is_documented() -> None:
    """The plugin for Stable-Baselines3's tests must not hide what gemrl lacks."""
    translation = pytest.importorskip("tests.foreign.translation")
    noise = pytest.importorskip("stable_baselines3.common.noise")
    td3, sac = translation.ORIGINALS["TD3"], translation.ORIGINALS["SAC"]
    given = {
        "policy_kwargs": {"net_arch": [8], "n_critics": 1},
        "train_freq": (4, "step"),
        "n_steps": 3,
        "use_sde": False,
    }
    fields = {"net_arch": [8], "n_critics": 1, "train_freq": 4, "depth": 3}
    assert translation.translated(given, sac, new=False) == fields
    assert translation.translated({}, td3) == {"learning_starts": 100, "train_freq": 1, "gradient_steps": 1, "batch_size": 256}
    gaussian = {"action_noise": noise.NormalActionNoise(np.zeros(1), np.full(1, 0.2))}
    assert translation.translated(gaussian, td3, new=False) == {"exploration_noise": 0.2}
    for refused in ({"policy_kwargs": {"activation_fn": 1}}, {"action_noise": noise.OrnsteinUhlenbeckActionNoise([0], [1])}):
        with pytest.raises(NotImplementedError):
            translation.translated(refused, sac)
    for kept in ({"use_sde": True}, {"train_freq": (1, "episode")}, {"gradient_steps": -1}):  # gemrl itself refuses them
        assert translation.translated(kept, sac, new=False) == kept
