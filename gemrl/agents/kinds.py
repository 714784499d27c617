"""Which agent a recipe is for."""

from __future__ import annotations

from typing import Any

from gemrl.agents import LearningAgent, continuous, soft
from gemrl.agents.host import OffPolicyAgent
from gemrl.agents.nearest import NearestAgent
from gemrl.recipes import AnyRecipe, NearestRecipe, Recipe, SoftRecipe
from gemrl.spaces import Layout

FAMILIES = {Recipe: continuous.FAMILY, SoftRecipe: soft.FAMILY}


def make_agent(recipe: AnyRecipe, layout: Layout, *, lanes: int, seed: int, device: Any) -> LearningAgent:
    """A new agent for steps of that layout."""
    if isinstance(recipe, NearestRecipe):
        return NearestAgent(recipe, layout, lanes=lanes, seed=seed)
    return OffPolicyAgent(FAMILIES[type(recipe)], recipe, layout, lanes=lanes, seed=seed, device=device)
