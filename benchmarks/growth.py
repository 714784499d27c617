"""How the time of GEM's round grows with memory size, depth, minibatch size and network width, one at a time."""

from __future__ import annotations

from dataclasses import replace
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


def measure(base: Case, scale: float, repeats: int) -> list[dict[str, Any]]:
    """One record per case with the seconds of each part; `scale` shrinks the memories for a quick run."""
    sizes = SWEEPS | {"rows": [int(rows * scale) for rows in SWEEPS["rows"]]}
    changes: list[dict[str, Any]] = [{name: value} for name, values in sizes.items() for value in values]
    cases = dict.fromkeys(replace(base, **change) for change in changes)  # the base case is in every sweep but measured once
    turns = {(case, part): turn for case in cases for part, turn in Round(case).turns(*PARTS).items()}
    samples = alternate(turns, repeats)
    return [
        {name: getattr(case, name) for name in SWEEPS} | {"seconds": {part: samples[case, part] for part in PARTS}}
        for case in cases
    ]
