"""The scores and their differences as Markdown tables, for a terminal, an issue or a README."""

from __future__ import annotations

import math

from gemrl.analysis.report.summary import Record, difference_rows, score_rows
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
    note = "Mean ± sample standard deviation over runs; a run's score is the mean return of its last three evaluations."
    return "\n".join([*lines, "", note, *_differences(collection)])


def _differences(collection: Collection) -> list[str]:
    """A table of how the methods differ from the reference on each task, with what may be said of it, and its legend."""
    rows = difference_rows(collection)
    if not rows:
        return []
    head = _line("task", "method", f"difference from {rows[0]['reference']}", "p (smallest possible)", "verdict")
    lines = [
        _line(
            row["env"],
            f"{row['method']} ({row['fields']})",
            f"{row['value']:+,.{digits(row['value'])}f}",
            f"{row['p']:.2g} ({row['least']:.2g})",
            row["verdict"],
        )
        for row in rows
    ]
    legend = "Differences of mean scores, with the permutation test: clear up to p = 0.05, likely up to 0.1."
    return ["", head, "|---" * 5 + "|", *lines, "", legend]


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
