"""gemrl: sample-efficient reinforcement learning with episodic memory.

    import gemrl
    model = gemrl.GEM("InvertedPendulum-v5", seed=0, learning_starts=1000)
    model.learn(5000)

JAX is imported with the first model, not before, so that the command line answers at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from gemrl.callbacks import Callback
    from gemrl.errors import GemrlError
    from gemrl.model import Model
    from gemrl.models import DDPG, DQN, GEM, MFEC, REDQ, SAC, TD3
    from gemrl.recipes import RECIPES, Recipe, difference
    from gemrl.runs import load

_HOMES = {
    **dict.fromkeys(("DDPG", "DQN", "GEM", "MFEC", "REDQ", "SAC", "TD3"), "models"),
    "Model": "model",
    "Callback": "callbacks",
    "load": "runs",
    "RECIPES": "recipes",
    "Recipe": "recipes",
    "difference": "recipes",
    "GemrlError": "errors",
}

__all__ = [
    "DDPG",
    "DQN",
    "GEM",
    "MFEC",
    "RECIPES",
    "REDQ",
    "SAC",
    "TD3",
    "Callback",
    "GemrlError",
    "Model",
    "Recipe",
    "difference",
    "load",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gemrl' has no attribute {name!r}")
    return getattr(importlib.import_module(f"gemrl.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
