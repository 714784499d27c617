"""Which agent a recipe is for."""

from __future__ import annotations

from typing import Any

from gemrl.agents import LearningAgent, continuous, discrete, soft
from gemrl.agents.host import OffPolicyAgent
from gemrl.agents.nearest import NearestAgent
from gemrl.agents.tabular import TabularAgent
from gemrl.errors import check_room
from gemrl.recipes import AnyRecipe, DiscreteRecipe, NearestRecipe, Recipe, SoftRecipe, TabularRecipe
from gemrl.spaces import Layout

FAMILIES = {Recipe: continuous.FAMILY, SoftRecipe: soft.FAMILY, DiscreteRecipe: discrete.FAMILY}


def make_agent(recipe: AnyRecipe, layout: Layout, *, lanes: int, seed: int, device: Any) -> LearningAgent:
    """A new agent for steps of that layout."""
    if isinstance(recipe, TabularRecipe):
        return TabularAgent(recipe, layout, lanes=lanes, seed=seed)
    if isinstance(recipe, NearestRecipe):
        return NearestAgent(recipe, layout, lanes=lanes, seed=seed)
    check_room(4 * recipe.least_parameters(layout), "net_arch", "networks")
    return OffPolicyAgent(FAMILIES[type(recipe)], recipe, layout, lanes=lanes, seed=seed, device=device)
