"""Tables for the terminal: the algorithms, and the fields of their recipes."""

from __future__ import annotations

import dataclasses
from typing import Any

from rich import box
from rich.table import Table

from gemrl.algorithms.recipes.discrete import DDQN, DQN, GEM_DISCRETE
from gemrl.algorithms.registry import GEM, GEM_TABULAR, GROUPS, LADDER, RECIPES, TD3, AnyRecipe, difference
from gemrl.core.text import short

PARENTS: dict[str, tuple[str, AnyRecipe]] = {
    **dict.fromkeys(("ddpg", "td3-sil", "td3-nstep", "optimality-tightening"), ("td3", TD3)),
    **{name: ("gem-tabular", GEM_TABULAR) for name in GROUPS["tabular"] if name != "gem-tabular"},
    **{name: ("gem-discrete", GEM_DISCRETE) for name in GROUPS["discrete actions"] if name.startswith("gem-discrete-")},
    "dqn": ("gem-discrete", GEM_DISCRETE),
    **dict.fromkeys(("ddqn", "clipped-ddqn"), ("dqn", DQN)),
    "dueling-dqn": ("ddqn", DDQN),
    **{f"ladder-{rung}": (f"ladder-{rung - 1}", LADDER[rung - 1]) for rung in range(1, len(LADDER))},
}
"""The recipe that each recipe is compared with, if it is not gem."""

PART_FIELDS = {
    "planner": "planner of Planned targets: Twin, Single, NStep, LambdaReturn or TwinReleased",
    "depth": "rollout cap of the planner (d in the paper); n of NStep and of Fresh targets",
    "lam": "decay of LambdaReturn",
    "alpha": "weight of underestimates in the loss; 1 gives the squared error",
    "subset": "Fresh targets: number of randomly drawn critics to take the minimum of; 0 uses all",
    "weight": "weight of SelfImitation or Tightening in the loss",
    "horizon": "SelfImitation: maximum number of steps in a return",
    "every": "SelfImitation: environment steps between updates of the returns",
    "reach": "Tightening: number of steps forward and backward",
}
"""Fields of the parts of a recipe, such as its planner, with descriptions."""

DISCRETE_PART_FIELDS = {
    "planner": PART_FIELDS["planner"],
    "depth": PART_FIELDS["depth"],
    "lam": PART_FIELDS["lam"],
    "alpha": "weight of underestimates in the loss; 1 gives the Huber loss",
}

TABULAR_PART_FIELDS = {
    "depth": "rollout cap of the planner (d in the paper)",
    "first": "StepSize: initial step size",
    "scale": "StepSize: number of updates of a state-action pair after which its step size starts to shrink",
    "power": "StepSize: the step size shrinks like n^-power; 0 keeps it constant",
}


def algorithms_table() -> Table:
    """Each recipe with the fields in which it differs from the one it is compared with."""
    table = Table("algorithm", "description", "compared with", "differences", box=box.SIMPLE_HEAD)
    for group, members in GROUPS.items():
        table.add_section()
        table.add_row(f"[bold]{group}")
        for name, (summary, recipe) in members.items():
            parent, other = PARENTS.get(name, ("gem", GEM))
            changes = difference(other, recipe)
            if "family" in changes:
                changes = {"family": changes["family"]}
            fields = "\n".join(f"{field} = {short(new)}" for field, (_, new) in changes.items())
            table.add_row(f"  {name}", summary, parent if fields else "", fields)
    table.caption = "depth (rollout cap): 1000 on HalfCheetah, Ant and Swimmer, with discrete actions and tables; 5 elsewhere"
    return table


def fields_tables() -> list[Table]:
    """All fields that can be changed with --set or keyword arguments, with their values in some recipes of each family."""
    return [
        _fields_table({name: RECIPES[name] for name in ("gem", "td3", "sac")}, PART_FIELDS),
        _fields_table({name: RECIPES[name] for name in ("gem-discrete", "dqn", "mfec")}, DISCRETE_PART_FIELDS),
        _fields_table({name: RECIPES[name] for name in ("gem-tabular", "q-learning")}, TABULAR_PART_FIELDS),
    ]


def _fields_table(recipes: dict[str, AnyRecipe], part_fields: dict[str, str]) -> Table:
    """A table of the fields of some recipes and of their parts."""
    table = Table("field", *recipes, "description", box=box.SIMPLE_HEAD)
    fields: dict[str, dataclasses.Field[Any]] = {}
    for recipe in recipes.values():
        for field in dataclasses.fields(recipe):
            fields.setdefault(field.name, field)
    for name, field in fields.items():
        classes = [kind.__name__ for kind in field.metadata.get("kinds", ()) if kind not in (bool, tuple)]
        choices = f": {', '.join(classes)}" if len(classes) > 1 else ""
        table.add_row(name, *(_value(recipe, name) for recipe in recipes.values()), field.metadata["doc"] + choices)
    table.add_section()
    for name, doc in part_fields.items():
        table.add_row(name, *(_value(recipe, name) for recipe in recipes.values()), doc)
    return table


def _value(recipe: AnyRecipe, name: str) -> str:
    """The value of a field as text; "" if the recipe does not have it."""
    return short(recipe.settable().get(name, ""))
