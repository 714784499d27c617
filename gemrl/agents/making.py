"""Which agent a recipe is for."""

from __future__ import annotations

from typing import Any

from gemrl.agents import continuous, discrete, soft
from gemrl.agents.nearest import NearestAgent
from gemrl.agents.off_policy import OffPolicyAgent
from gemrl.agents.protocol import LearningAgent
from gemrl.agents.tabular import TabularAgent
from gemrl.algorithms.registry import AnyRecipe, DiscreteRecipe, NearestRecipe, Recipe, SoftRecipe, TabularRecipe
from gemrl.core.layout import Layout
from gemrl.core.validation import check_memory

FAMILIES = {Recipe: continuous.FAMILY, SoftRecipe: soft.FAMILY, DiscreteRecipe: discrete.FAMILY}


def make_agent(recipe: AnyRecipe, layout: Layout, *, lanes: int, seed: int, device: Any) -> LearningAgent:
    """A new agent for steps of that layout."""
    if isinstance(recipe, TabularRecipe):
        return TabularAgent(recipe, layout, lanes=lanes, seed=seed)
    if isinstance(recipe, NearestRecipe):
        return NearestAgent(recipe, layout, lanes=lanes, seed=seed)
    check_memory(4 * recipe.least_parameters(layout), "net_arch", "networks")
    return OffPolicyAgent(FAMILIES[type(recipe)], recipe, layout, lanes=lanes, seed=seed, device=device)
