"""Acting while a round of training is under way, with the policy of the round before: what it needs, and how it is saved."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from gemrl.core.exceptions import Diverged
from gemrl.core.snapshot import fitting


class Behind(NamedTuple):
    """What an agent acts with while a round is under way."""

    policy: Any
    """The policy of the round before, on the host."""
    losses: Mapping[str, Any]
    """The losses of the round that is under way; reading them waits for it."""

    def saved(self) -> tuple[dict[str, float], dict[str, np.ndarray]]:
        """The losses as numbers and the policy as arrays, for a snapshot."""
        return {name: float(value) for name, value in self.losses.items()}, named_leaves(self.policy)

    @staticmethod
    def restored(losses: Mapping[str, float], arrays: Mapping[str, np.ndarray], like: Any) -> Behind:
        """The same from a snapshot, with a policy of the same structure as `like`."""
        leaves = fitting(arrays, named_leaves(like)).values()
        return Behind(jax.tree.unflatten(jax.tree.structure(like), leaves), losses)


def named_leaves(tree: Any) -> dict[str, np.ndarray]:
    """The arrays of a tree, numbered."""
    return {f"policy-{number}": np.asarray(leaf) for number, leaf in enumerate(jax.tree.leaves(tree))}


def checked(losses: Mapping[str, Any], step: int) -> dict[str, float]:
    """The losses of a round as numbers. Raises if training has diverged."""
    metrics = {name: float(value) for name, value in losses.items()}
    for name in ("critic_loss", "loss"):  # the actor's loss is NaN in a round that does not update the actor
        if not math.isfinite(metrics.get(name, 0.0)):
            raise Diverged(f"training diverged by step {step:,}: {name} is {metrics[name]}; try a smaller learning_rate")
    return metrics
