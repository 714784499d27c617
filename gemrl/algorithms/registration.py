"""What a named algorithm is, and how one is added."""

from __future__ import annotations

from dataclasses import dataclass

from gemrl.algorithms.recipe import BaseRecipe
from gemrl.core.exceptions import BadValue


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
