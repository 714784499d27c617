"""gemrl: sample-efficient reinforcement learning with episodic memory.

    import gemrl
    model = gemrl.GEM("InvertedPendulum-v5", seed=0, learning_starts=1000)
    model.learn(5000)

JAX is imported with the first model, not before, so that the command line answers at once.
"""

from __future__ import annotations

import importlib
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

from gemrl.core.version import __version__ as __version__
from gemrl.training import display

if TYPE_CHECKING:
    from gemrl.algorithms.registry import RECIPES, Recipe, difference
    from gemrl.core.exceptions import GemrlError
    from gemrl.envs.masks import ActionMasks
    from gemrl.experiments.data.sources import read_data
    from gemrl.experiments.loading import load
    from gemrl.training.callbacks import Callback
    from gemrl.training.loop import Event
    from gemrl.training.model import Model
    from gemrl.training.models import DDPG, DQN, EMAC, GEM, GEM2, MFEC, NEC, REDQ, SAC, TD3

_MODULES = {
    **dict.fromkeys(("DDPG", "DQN", "EMAC", "GEM", "GEM2", "MFEC", "NEC", "REDQ", "SAC", "TD3"), "training.models"),
    "Model": "training.model",
    "Callback": "training.callbacks",
    "load": "experiments.loading",
    "read_data": "experiments.data.sources",
    **dict.fromkeys(("RECIPES", "Recipe", "difference"), "algorithms.registry"),
    "GemrlError": "core.exceptions",
    "ActionMasks": "envs.masks",
}
"""The module that each public name comes from."""

__all__ = [
    "DDPG",
    "DQN",
    "EMAC",
    "GEM",
    "GEM2",
    "MFEC",
    "NEC",
    "RECIPES",
    "REDQ",
    "SAC",
    "TD3",
    "ActionMasks",
    "Callback",
    "GemrlError",
    "Model",
    "Recipe",
    "difference",
    "load",
    "read_data",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'gemrl' has no attribute {name!r}")
    return getattr(importlib.import_module(f"gemrl.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])


def _progress_bar(events: Iterator[Event], steps: int, title: str) -> Generator[Event]:
    """The terminal's progress bar, for `learn(progress_bar=True)`."""
    from gemrl.cli.console import with_progress

    return with_progress(events, steps, title)


display.use(_progress_bar)  # the package's top level is the one place that knows both models and the terminal
