"""Tables of `gemrl tune`: search spaces, and the best trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from gemrl.algorithms.search_spaces import SPACES
from gemrl.core.text import printable, score_text
from gemrl.experiments.tuning.files import TrialRow

SHOWN_TRIALS = 10
"""How many of the best trials are printed."""


def space_table(title: str, space: Mapping[str, Any]) -> Table:
    """The fields of a search space with their values."""
    table = Table("field", "values", title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for name, values in space.items():
        table.add_row(name, str(values))
    return table


def family_tables() -> list[Table]:
    """The search space of every family."""
    return [space_table(family.title, family.fields) for family in SPACES]


def best_table(ranked: Sequence[TrialRow], fields: Sequence[str]) -> Table:
    """The best trials with their settings."""
    table = Table("trial", "score", *fields, box=box.SIMPLE_HEAD)
    for trial in ranked[:SHOWN_TRIALS]:
        settings = (Text(printable(rounded(trial.settings.get(name, "")))) for name in fields)
        table.add_row(str(trial.number), score_text(trial.score or 0.0), *settings)
    return table


def rounded(text: str) -> str:
    """A setting for display: a real number with three digits, anything else as it is."""
    try:
        return text if text.lstrip("-").isdecimal() else f"{float(text):.3g}"
    except ValueError:
        return text
