"""How the time of GEM's round grows: with each size alone, and with the rows of a memory of which only a part is refreshed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

from benchmarks.round import Case, Round
from benchmarks.timing import alternate

PARTS = ("round", "refresh", "plan")
SWEEPS: dict[str, list[Any]] = {
    "rows": [10_000, 100_000, 1_000_000],
    "depth": [1, 5, 50, 1000],
    "batch": [32, 100, 256],
    "width": [(200, 150), (400, 300), (800, 600)],
}

MEMORIES = (10_000, 100_000, 500_000, 1_000_000)
"""Rows of a memory whose rounds are timed with the preset of most tasks, depth 5."""


def measure(base: Case, scale: float, repeats: int) -> list[dict[str, Any]]:
    """One record per case with the seconds of each part; `scale` shrinks the memories for a quick run."""
    sizes = SWEEPS | {"rows": [int(rows * scale) for rows in SWEEPS["rows"]]}
    changes: list[dict[str, Any]] = [{name: value} for name, values in sizes.items() for value in values]
    return _timed((replace(base, **change) for change in changes), PARTS, repeats)


def measure_memories(base: Case, scale: float, repeats: int) -> list[dict[str, Any]]:
    """One record per memory with the seconds of a round: depth 5 and depth 1000, with a partial and with a whole refresh."""
    at, short, long = [int(rows * scale) for rows in MEMORIES], replace(base, depth=5), replace(base, depth=1000)
    drawn = replace(long, trajectory_rows=int(20_000 * scale))
    cases = [replace(short, rows=rows) for rows in at]
    cases += [replace(case, rows=rows, whole=True) for case in (short, long) for rows in at[1::2]]
    cases += [replace(drawn, rows=rows) for rows in at[1::2]]
    return _timed(cases, ("round",), repeats)


def _timed(cases: Iterable[Case], parts: tuple[str, ...], repeats: int) -> list[dict[str, Any]]:
    """One record per case with the seconds of these parts."""
    cases = dict.fromkeys(cases)  # a case that stands in several sweeps is measured once
    turns = {(case, part): turn for case in cases for part, turn in Round(case).turns(*parts).items()}
    samples = alternate(turns, repeats)
    return [asdict(case) | {"seconds": {part: samples[case, part] for part in parts}} for case in cases]
