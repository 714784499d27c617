"""Algorithms by name: what a name stands for in an environment, and in which fields two recipes differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any

import gemrl.algorithms.named  # noqa: F401, it registers the algorithms that gemrl comes with
from gemrl.algorithms.recipe import BaseRecipe
from gemrl.algorithms.recipes.continuous import DDPG, GEM, GEM2, REDQ, TD3, Recipe
from gemrl.algorithms.recipes.dictionary import DictionaryRecipe
from gemrl.algorithms.recipes.discrete import DiscreteRecipe
from gemrl.algorithms.recipes.ladders import GEM2_LADDER, LADDER
from gemrl.algorithms.recipes.nearest import NearestRecipe
from gemrl.algorithms.recipes.soft import SoftRecipe
from gemrl.algorithms.recipes.tabular import GEM_TABULAR, TabularRecipe
from gemrl.algorithms.registration import ALGORITHMS, RECIPES, Algorithm, register
from gemrl.core.exceptions import UnsupportedSpace
from gemrl.core.layout import Layout
from gemrl.core.literals import split_setting
from gemrl.core.mappings import differences
from gemrl.core.suggestions import unknown

__all__ = [
    "ALGORITHMS",
    "DDPG",
    "GEM",
    "GEM2",
    "GEM2_LADDER",
    "GEM_TABULAR",
    "LADDER",
    "RECIPES",
    "REDQ",
    "TD3",
    "Algorithm",
    "AnyRecipe",
    "BaseRecipe",
    "DictionaryRecipe",
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

NetworkRecipe = Recipe | SoftRecipe | DiscreteRecipe | DictionaryRecipe
"""Recipes of agents that train networks from their memory, in rounds."""
AnyRecipe = BaseRecipe


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
