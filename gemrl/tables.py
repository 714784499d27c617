"""Tables for the terminal: the algorithms, and the fields of a recipe."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from gemrl.recipes import RECIPES, SUMMARIES, Recipe, difference, part_kinds


def algorithms_table(recipes: Mapping[str, Recipe]) -> Table:
    """Each recipe with what it differs in from gem."""
    table = Table("algorithm", "what it is", "differs from gem in", box=box.SIMPLE_HEAD)
    for name, recipe in recipes.items():
        changes = difference(RECIPES["gem"], recipe)
        table.add_row(name, SUMMARIES[name], "\n".join(f"{field} = {_short(new)}" for field, (_, new) in changes.items()))
    table.caption = "gem's rollout cap (depth) is 1000 on HalfCheetah, Ant and Swimmer, and 5 elsewhere"
    return table


def fields_table() -> Table:
    """Every field that --set and Python keywords reach, with gem's value."""
    table = Table("field", "gem", "what it is", box=box.SIMPLE_HEAD)
    gem = RECIPES["gem"]
    for field in dataclasses.fields(gem):
        kinds = part_kinds(field)
        choices = f": {', '.join(kinds)}" if len(kinds) > 1 else ""
        table.add_row(field.name, _short(getattr(gem, field.name)), field.metadata["doc"] + choices)
    table.add_section()
    table.add_row("depth", "5", "the planner's rollout cap (the paper's d)")
    table.add_row("alpha", "0.25", "the loss's weight on underestimates; 1 is the squared error")
    table.add_row("lam", "", "LambdaReturn's decay, if that is the planner")
    return table


def _short(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def show(table: Table) -> None:
    """Prints a table, at full width where the output is no terminal."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    console.print(table, highlight=False)
