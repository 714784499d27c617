"""A residual network with LayerNorm, as in SimBa (Lee et al., 2025)."""

from __future__ import annotations

import equinox as eqx
import numpy as np

from gemrl.agents.networks.body_network import BodyNetwork
from gemrl.agents.networks.perceptron import Layer
from gemrl.algorithms.bodies import Residual
from gemrl.core.arrays import Array

EXPANSION = 4
"""Hidden features of a block, as a multiple of its width."""


class Block(eqx.Module):
    """x + W2 relu(W1 LayerNorm(x))."""

    first: Layer
    second: Layer

    @staticmethod
    def init(rng: np.random.Generator, width: int) -> Block:
        """A block of `width` features."""
        hidden = EXPANSION * width
        return Block(Layer.init(rng, width, hidden, normed=width), Layer.init(rng, hidden, width))

    def __call__(self, x: Array) -> Array:
        """x [B, width] -> [B, width]."""
        hidden = self.first.linear(self.first.norm(x))
        return x + self.second.linear(x.__array_namespace__().maximum(hidden, 0))


class ResidualNetwork(BodyNetwork):
    """A linear map, residual blocks, a LayerNorm and a linear output."""

    entry: Layer
    blocks: tuple[Block, ...]
    output: Layer

    @staticmethod
    def init(rng: np.random.Generator, body: Residual, inputs: int, outputs: int, again: int = 0) -> ResidualNetwork:
        """A network inputs -> blocks -> outputs. It ignores the second input."""
        entry = Layer.init(rng, inputs, body.width)
        blocks = tuple(Block.init(rng, body.width) for _ in range(body.blocks))
        return ResidualNetwork(entry, blocks, Layer.init(rng, body.width, outputs, normed=body.width))

    def __call__(self, x: Array, again: Array | None = None) -> Array:
        """x [B, inputs] -> [B, outputs]."""
        x = self.entry.linear(x)
        for block in self.blocks:
            x = block(x)
        return self.output.linear(self.output.norm(x))
