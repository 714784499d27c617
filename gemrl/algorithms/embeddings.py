"""Parts of a recipe that say what actor and critics see of states and actions beside the numbers themselves.

The encoders are in gemrl/agents/networks/encoder.py.
"""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar

from gemrl.algorithms.parts import part
from gemrl.core.validation import check_number


class Embedding(ABC):
    """Learned features that actor and critics take as additional inputs."""

    features: int
    """The number of features of a state, and of a state with an action; 0 if there are none."""


@part
@dataclass(frozen=True)
class NoEmbedding(Embedding):
    """Actor and critics see observations and actions only."""

    features: ClassVar[int] = 0  # type: ignore[misc]


@part
@dataclass(frozen=True)
class StateAction(Embedding):
    """Features of states and actions from which the next state's features can be predicted, as in TD7 (Fujimoto et al., 2023)."""

    features: int = 256

    def __post_init__(self) -> None:
        check_number("features", self.features, 1, whole=True)
