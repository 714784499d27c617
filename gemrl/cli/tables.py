"""Tables for the terminal: the algorithms, and the fields of their recipes."""

from __future__ import annotations

import dataclasses
from typing import Any

from rich import box
from rich.table import Table

from gemrl.algorithms.parts import parts_of
from gemrl.algorithms.registry import RECIPES, AnyRecipe, difference, groups
from gemrl.core.text import short

PART_FIELDS = {
    "net_arch": "Perceptron: hidden layer widths of actor and critics",
    "layer_norm": "Perceptron: LayerNorm after each hidden layer",
    "norm_first": "Perceptron: the activation comes after LayerNorm, not before it",
    "action_twice": "Perceptron: critics take the action again after their first layer",
    "activation": "Perceptron: what hidden layers apply: ReLU, ELU or Tanh",
    "width": "Residual: features of a block",
    "blocks": "Residual: number of blocks",
    "momentum": "BatchRenormalized: how much of the running statistics a gradient step keeps",
    "warm_up": "BatchRenormalized: gradient steps before minibatches are corrected toward the running statistics",
    "unit_weights": "BatchRenormalized: the weights into each hidden unit have norm 1 after every gradient step",
    "planner": "planner of Planned and PlannedLengths targets: Twin, Single, Stopping, NStep, LambdaReturn or TwinReleased",
    "depth": "rollout cap of the planner (d in the paper); n of NStep and of Fresh targets",
    "lam": "decay of LambdaReturn",
    "margin": "Stopping: how much less than the policy's action a stored action may be worth, in units of reward",
    "entropy": "Gaussian: the entropy of the policy is held near minus this for each action dimension",
    "temperature": "Gaussian: the weight of the entropy before the first update",
    "features": "StateAction: learned features of a state, and of a state with an action",
    "alpha": "weight of underestimates in the loss; 1 gives the squared error; where Calibrated starts",
    "alpha_low": "Calibrated: the smallest alpha",
    "alpha_high": "Calibrated: the largest alpha",
    "alpha_rate": "Calibrated: how fast alpha changes, as the logarithm of the largest factor",
    "expectile": "Expectile: what values are fitted to, from the worst return (0) over the mean (0.5) to the best (1)",
    "beta": "AdvantageWeighted: how much more good stored actions count than bad ones; 0 is plain behavior cloning",
    "weight_cap": "AdvantageWeighted: the largest weight of a stored action before weights are divided by their mean",
    "q_weight": "BehaviorCloning: weight of the values against the distance to stored actions; 0 is plain behavior cloning",
    "subset": "Fresh targets: number of randomly drawn critics to take the minimum of; 0 uses all",
    "weight": "weight of SelfImitation, Tightening or NearestReturn in the loss",
    "horizon": "SelfImitation and NearestReturn: maximum number of steps in a return",
    "every": "SelfImitation, NearestReturn and PlannedLengths: environment steps between updates of the memory",
    "k": "NearestReturn: similar steps whose returns are averaged, the step itself included",
    "projection": "NearestReturn: states and actions are projected at random to this many numbers before they are compared",
    "reach": "Tightening: number of steps forward and backward",
}
"""Fields of the parts of a recipe, such as its planner, with descriptions."""

DISCRETE_PART_FIELDS = {
    "planner": "planner of Planned targets: Twin, Single, Stopping, Backward, NStep, LambdaReturn or TwinReleased",
    "depth": PART_FIELDS["depth"],
    "lam": PART_FIELDS["lam"],
    "margin": PART_FIELDS["margin"],
    "beta": "Backward: diffusion factor, how much a target changes the value of the action that led to it",
    "alpha": "weight of underestimates in the loss; 1 gives the Huber loss",
    "weight": "BestReturn: weight of the pull towards the best return in the loss",
    "horizon": "BestReturn: maximum number of steps in a return",
}

TABULAR_PART_FIELDS = {
    "depth": "rollout cap of the planner (d in the paper)",
    "margin": PART_FIELDS["margin"],
    "beta": DISCRETE_PART_FIELDS["beta"],
    "first": "StepSize: initial step size",
    "scale": "StepSize: number of updates of a state-action pair after which its step size starts to shrink",
    "power": "StepSize: the step size shrinks like n^-power; 0 keeps it constant",
}


def algorithms_table() -> Table:
    """Each recipe with the fields in which it differs from the one it is compared with."""
    table = Table("algorithm", "description", "compared with", "differences", box=box.SIMPLE_HEAD)
    for group, members in groups().items():
        table.add_section()
        table.add_row(f"[bold]{group}")
        for name, algorithm in members.items():
            parent = algorithm.compared_with
            changes = difference(RECIPES[parent], algorithm.recipe)
            if "family" in changes:
                changes = {"family": changes["family"]}
            fields = "\n".join(f"{field} = {short(new)}" for field, (_, new) in changes.items())
            table.add_row(f"  {name}", algorithm.summary, parent if fields else "", fields)
    table.caption = (
        "depth (rollout cap): 1000 on HalfCheetah, Ant and Swimmer, discrete actions and tables, and for gem2; 5 elsewhere"
    )
    return table


def fields_tables() -> list[Table]:
    """All fields that can be changed with --set or keyword arguments, with their values in some recipes of each family."""
    return [
        _fields_table({name: RECIPES[name] for name in ("gem", "gem2", "td3", "sac")}, PART_FIELDS),
        _fields_table({name: RECIPES[name] for name in ("gem-discrete", "dqn", "nec", "mfec")}, DISCRETE_PART_FIELDS),
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
        classes = list(parts_of(field.metadata.get("kind", bool)))
        choices = f": {', '.join(classes)}" if len(classes) > 1 else ""
        table.add_row(name, *(_value(recipe, name) for recipe in recipes.values()), field.metadata["doc"] + choices)
    table.add_section()
    for name, doc in part_fields.items():
        table.add_row(name, *(_value(recipe, name) for recipe in recipes.values()), doc)
    return table


def _value(recipe: AnyRecipe, name: str) -> str:
    """The value of a field as text; "" if the recipe does not have it."""
    return short(recipe.settable().get(name, ""))
