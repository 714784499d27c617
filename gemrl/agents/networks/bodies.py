"""Builds networks from their bodies. A new body registers its network here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gemrl.agents.networks.batch_norm import BatchNormNetwork
from gemrl.agents.networks.body_network import BodyNetwork
from gemrl.agents.networks.perceptron import MLP
from gemrl.agents.networks.residual import ResidualNetwork
from gemrl.algorithms.bodies import BatchRenormalized, Body, Perceptron, Residual
from gemrl.core.exceptions import BadValue

Builder = Callable[[np.random.Generator, Any, int, int, int], BodyNetwork]
"""Builds a network from a random generator, a body, and the sizes of input, output and second input."""

NETWORKS: dict[type[Body], Builder] = {
    Perceptron: MLP.init,
    Residual: ResidualNetwork.init,
    BatchRenormalized: BatchNormNetwork.init,
}
"""The builder for each body class."""


def build(body: Body, rng: np.random.Generator, inputs: int, outputs: int, again: int = 0) -> BodyNetwork:
    """A new network with this body."""
    if type(body) not in NETWORKS:
        raise BadValue(f"no network is registered for the body {body}: add its builder to gemrl.agents.networks.bodies.NETWORKS")
    return NETWORKS[type(body)](rng, body, inputs, outputs, again)
