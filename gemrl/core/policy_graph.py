"""A policy as data: named arrays, and the operations that turn a batch of observations into actions.

A model describes its policy once, and every export format is written from that description.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from gemrl.core.arrays import Array

OBSERVATION, ACTION = "observation", "action"
"""The names of the input and the output of a policy."""


class Step(NamedTuple):
    """One operation: its result, its name, its inputs (arrays and earlier results) and its settings."""

    output: str
    operation: str
    inputs: tuple[str, ...]
    settings: Mapping[str, Any]


class Port(NamedTuple):
    """Shape and dtype of one observation or one action."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class PolicyGraph:
    """A policy: what goes in, what comes out, and how."""

    observation: Port
    """Shape as in the environment; dtype as the networks take it."""
    action: Port
    """Shape and dtype as in the environment."""
    steps: tuple[Step, ...]
    arrays: Mapping[str, np.ndarray]
    entries: tuple[tuple[str, int], ...] = ()
    """If an observation is a vector of several entries: their names and sizes, in order."""

    @property
    def operations(self) -> set[str]:
        """The names of all operations in use."""
        return {step.operation for step in self.steps}

    def as_dict(self) -> dict[str, Any]:
        """Everything but the arrays, as JSON values."""
        entries = {"entries": [list(entry) for entry in self.entries]} if self.entries else {}
        return {
            "observation": self.observation._asdict() | entries,
            "action": self.action._asdict(),
            "steps": [[step.output, step.operation, list(step.inputs), dict(step.settings)] for step in self.steps],
        }


@dataclass
class GraphBuilder:
    """Collects the steps and arrays of a policy. Its methods return the name of what they add."""

    steps: list[Step] = field(default_factory=list)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    _numbers: Counter[str] = field(default_factory=Counter)

    def array(self, role: str, value: Array) -> str:
        """Adds an array; its name is its role and a number."""
        name = self._numbered(role)
        self.arrays[name] = np.array(value, order="C")
        return name

    def add(self, operation: str, *inputs: str, **settings: Any) -> str:
        """Adds an operation on arrays and earlier results."""
        name = self._numbered(operation)
        self.steps.append(Step(name, operation, inputs, settings))
        return name

    def graph(self, observation: Port, action: Port) -> PolicyGraph:
        """The policy whose action is the last result, without what that result does not depend on."""
        needed, kept = set(self.steps[-1].inputs), [self.steps[-1]._replace(output=ACTION)]
        for step in reversed(self.steps[:-1]):
            if step.output in needed:
                needed.update(step.inputs)
                kept.append(step)
        arrays = {name: array for name, array in self.arrays.items() if name in needed}
        return PolicyGraph(observation, action, tuple(reversed(kept)), arrays)

    def _numbered(self, role: str) -> str:
        self._numbers[role] += 1
        return f"{role}_{self._numbers[role]}"
