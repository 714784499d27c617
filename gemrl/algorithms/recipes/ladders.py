"""Ladders: from one recipe to another, one idea at a time, so that each can be measured."""

from __future__ import annotations

from typing import Any

from gemrl.algorithms.bodies import BatchRenormalized
from gemrl.algorithms.distributions import Gaussian
from gemrl.algorithms.embeddings import StateAction
from gemrl.algorithms.losses import Calibrated
from gemrl.algorithms.planning import NStep, Single, Stopping, Twin
from gemrl.algorithms.recipes.continuous import GEM, Recipe
from gemrl.algorithms.targets import Planned, PlannedLengths


def climbed(first: Recipe, *changes: dict[str, Any]) -> list[Recipe]:
    """The first recipe, and those after each change."""
    rungs = [first]
    for change in changes:
        rungs.append(rungs[-1].but(**change))
    return rungs


LADDER = climbed(
    GEM.but(n_pairs=1, layer_norm=False, alpha=1.0, planner=NStep(1), gradient_steps=100),
    {"layer_norm": True},
    {"gradient_steps": 200},
    {"n_pairs": 2},
    {"alpha": 0.25},
    {"planner": Single(5)},
    {"planner": Twin(5)},
)
"""From a simple agent with a memory up to GEM; each step changes one field."""

_CRITICS: dict[str, Any] = {
    "body": BatchRenormalized((256, 256)),
    "joint_critics": True,
    "targets": PlannedLengths(Stopping()),  # joint critics have no targets that stand still, so minibatches value the ends
    "learning_rate": 1e-3,
    "adam_beta1": 0.5,
    "batch_size": 256,
    "policy_delay": 3,
    "train_freq": 10,
    "gradient_steps": 10,
    "target_update_interval": 250,
}
"""Critics as in CrossQ, with its values; they need these fields together."""

GEM2_LADDER = climbed(
    GEM.but(learning_starts=5_000),
    {"distribution": Gaussian()},
    {"targets": Planned(Stopping()), "n_pairs": 1},
    _CRITICS,
    {"embedding": StateAction(128)},
    {"loss": Calibrated()},
    {"policy_average": 1_000},
)
"""From GEM, with gem2's warm-up, up to gem2."""
