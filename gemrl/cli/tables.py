"""Tables for the terminal: the algorithms, and the fields of a recipe."""

from __future__ import annotations

import dataclasses
from typing import Any

from rich import box
from rich.table import Table

from gemrl.algorithms.parts import parts_of
from gemrl.algorithms.registry import RECIPES, AnyRecipe, difference, groups
from gemrl.core.text import short

INNER = {
    "net_arch": "of Perceptron: hidden layer widths of actor and critics",
    "layer_norm": "of Perceptron: LayerNorm after each hidden layer",
    "norm_first": "of Perceptron: a hidden layer's ReLU comes after its LayerNorm, not before it",
    "action_twice": "of Perceptron: critics take the action again behind their first layer",
    "width": "of Residual: features of a block",
    "blocks": "of Residual: how many blocks",
    "planner": "of Planned: Twin, Single, NStep, LambdaReturn or TwinReleased",
    "depth": "the rollout cap of the planner (the paper's d); n of NStep and of Fresh targets",
    "lam": "LambdaReturn's decay",
    "alpha": "the loss's weight on underestimates; 1 is the squared error",
    "subset": "of Fresh: how many critics are drawn for the smallest value; 0 takes all",
    "weight": "of SelfImitation and Tightening",
    "horizon": "of SelfImitation: the steps of an episode that its return follows",
    "every": "of SelfImitation: environment steps between two computations of all returns",
    "reach": "of Tightening: steps ahead and behind",
}

INNER_DISCRETE = {
    "planner": INNER["planner"],
    "depth": INNER["depth"],
    "lam": INNER["lam"],
    "alpha": "the loss's weight on underestimates; 1 is Huber's error",
}

INNER_TABULAR = {
    "depth": "the rollout cap of the planner (the paper's d)",
    "first": "of StepSize: the first step size",
    "scale": "of StepSize: updates of a pair after which its steps begin to shrink",
    "power": "of StepSize: steps shrink like n^-power; 0 keeps them",
}


def algorithms_table() -> Table:
    """Each recipe with what it differs in from the one it is best compared with."""
    table = Table("algorithm", "what it is", "differs from", "in", box=box.SIMPLE_HEAD)
    for group, members in groups().items():
        table.add_section()
        table.add_row(f"[bold]{group}")
        for name, algorithm in members.items():
            parent = algorithm.compared_with
            changes = difference(RECIPES[parent], algorithm.recipe)
            if "family" in changes:
                changes = {"family": changes["family"]}
            told = "\n".join(f"{field} = {short(new)}" for field, (_, new) in changes.items())
            table.add_row(f"  {name}", algorithm.summary, parent if told else "", told)
    table.caption = (
        "the rollout cap (depth) is 1000 on HalfCheetah, Ant and Swimmer, with discrete actions and tables, and 5 elsewhere"
    )
    return table


def fields_tables() -> list[Table]:
    """Every field that --set and Python keywords reach, with its value in some recipes of each family."""
    return [
        _fields_table({name: RECIPES[name] for name in ("gem", "td3", "sac")}, INNER),
        _fields_table({name: RECIPES[name] for name in ("gem-discrete", "dqn", "mfec")}, INNER_DISCRETE),
        _fields_table({name: RECIPES[name] for name in ("gem-tabular", "q-learning")}, INNER_TABULAR),
    ]


def _fields_table(recipes: dict[str, AnyRecipe], inner: dict[str, str]) -> Table:
    table = Table("field", *recipes, "what it is", box=box.SIMPLE_HEAD)
    fields: dict[str, dataclasses.Field[Any]] = {}
    for recipe in recipes.values():
        for field in dataclasses.fields(recipe):
            fields.setdefault(field.name, field)
    for name, field in fields.items():
        kinds = list(parts_of(field.metadata.get("kind", bool)))
        choices = f": {', '.join(kinds)}" if len(kinds) > 1 else ""
        table.add_row(name, *(_value(recipe, name) for recipe in recipes.values()), field.metadata["doc"] + choices)
    table.add_section()
    for name, doc in inner.items():
        table.add_row(name, *(_value(recipe, name) for recipe in recipes.values()), doc)
    return table


def _value(recipe: AnyRecipe, name: str) -> str:
    return short(recipe.settable().get(name, ""))
