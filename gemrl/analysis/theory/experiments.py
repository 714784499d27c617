"""The theory experiments by name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gemrl.analysis.theory.conditions import conditions
from gemrl.analysis.theory.evidence import Finding
from gemrl.analysis.theory.luck import luck
from gemrl.analysis.theory.theorems import Advance, Budget, lemma, theorem_1, theorem_2, theorem_4

Experiment = Callable[[Budget, np.random.Generator, Advance], Finding]

EXPERIMENTS: dict[str, tuple[Experiment, int]] = {
    "theorem-1": (theorem_1, 7),
    "theorem-2": (theorem_2, 8),
    "lemma": (lemma, 15),
    "theorem-4": (theorem_4, 2),
    "conditions": (conditions, 11),
    "luck": (luck, 6),
}
"""By name (also the name of the figure): the experiment, and how often it reports progress."""
