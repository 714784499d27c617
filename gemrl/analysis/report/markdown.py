"""The scores as a Markdown table, for a terminal, an issue or a README."""

from __future__ import annotations

import math

from gemrl.analysis.report.summary import Record, score_rows
from gemrl.analysis.results.collection import Collection
from gemrl.core.text import counted

MAX_DECIMALS = 6


def score_table(collection: Collection) -> str:
    """A row per environment and a column per method: mean and standard deviation over runs, the best mean in bold."""
    rows = {(row["env"], row["method"]): row for row in score_rows(collection)}
    methods = [method for method in collection.methods if any((env, method) in rows for env in collection.envs)]
    lines = [_line("", *methods), "|---" * (len(methods) + 1) + "|"]
    for env in collection.envs:
        best = max(row["mean"] for (row_env, _), row in rows.items() if row_env == env)
        found = [rows.get((env, method)) for method in methods]
        cells = ["" if row is None else _cell(row, best=row["mean"] == best) for row in found]
        lines.append(_line(f"{env} ({_runs(collection, env)})", *cells))
    return "\n".join([*lines, "", "Mean ± standard deviation over runs of the returns in the last tenth of training."])


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(row: Record, *, best: bool) -> str:
    mean, std = row["mean"], row["std"]
    decimals = digits(max(abs(mean), std))
    text = f"{mean:,.{decimals}f} ± {std:,.{decimals}f}" if row["runs"] > 1 else f"{mean:,.{decimals}f} (1 run)"
    return f"**{text}**" if best else text


def digits(value: float) -> int:
    """The number of decimals with which a return of this size is printed."""
    size = abs(value)
    if size >= 1 or not size:
        return 0 if size >= 1000 else 1 if size >= 10 else 2
    return min(max(2, 1 - math.floor(math.log10(size))), MAX_DECIMALS)


def _runs(collection: Collection, env: str) -> str:
    """The number of runs per method and the step at which they are compared."""
    counts = {len(group) for method in collection.methods if (group := collection.of(method, env))}
    few, many = min(counts), max(counts)
    number = counted(many, "run") if few == many else f"{few} to {many} runs"
    return f"{number}, {collection.final_step(env):,} steps"
