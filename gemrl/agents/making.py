"""Makes the agent for a recipe. A new family registers its agent here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gemrl.agents import continuous, dictionary, discrete, soft
from gemrl.agents.footprint import check_fits, network_needs
from gemrl.agents.nearest import NearestAgent
from gemrl.agents.off_policy import Family, OffPolicyAgent
from gemrl.agents.protocol import LearningAgent
from gemrl.agents.tabular import TabularAgent
from gemrl.algorithms.registry import (
    BaseRecipe,
    DictionaryRecipe,
    DiscreteRecipe,
    NearestRecipe,
    Recipe,
    SoftRecipe,
    TabularRecipe,
)
from gemrl.core.exceptions import BadValue
from gemrl.core.layout import Layout

Maker = Callable[..., LearningAgent]
"""Makes an agent from a recipe and a layout, with the keywords lanes, seed and device."""


def off_policy(family: Family) -> Maker:
    """A maker of agents, for a family that trains networks from a memory in rounds."""

    def make(recipe: Any, layout: Layout, *, lanes: int, seed: int, device: Any) -> LearningAgent:
        check_fits(network_needs(family.work(recipe, layout)), device)
        return OffPolicyAgent(family, recipe, layout, lanes=lanes, seed=seed, device=device)

    return make


AGENTS: dict[type[BaseRecipe], Maker] = {
    Recipe: off_policy(continuous.FAMILY),
    SoftRecipe: off_policy(soft.FAMILY),
    DiscreteRecipe: off_policy(discrete.FAMILY),
    DictionaryRecipe: off_policy(dictionary.FAMILY),
    TabularRecipe: TabularAgent,
    NearestRecipe: NearestAgent,
}
"""The maker of agents for each recipe class."""


def make_agent(recipe: BaseRecipe, layout: Layout, *, lanes: int, seed: int, device: Any) -> LearningAgent:
    """A new agent for observations and actions of this layout."""
    if type(recipe) not in AGENTS:
        raise BadValue(f"no agent is registered for a {type(recipe).__name__}: add it to gemrl.agents.making.AGENTS")
    return AGENTS[type(recipe)](recipe, layout, lanes=lanes, seed=seed, device=device)
