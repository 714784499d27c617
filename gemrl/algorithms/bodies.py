"""Parameters of network bodies: the hidden layers between a network's input and its output.

The networks themselves are in gemrl/agents/networks, where each is registered for its body.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from gemrl.algorithms.activations import Activation, ReLU
from gemrl.algorithms.parts import part, parts_of
from gemrl.core.exceptions import BadValue
from gemrl.core.validation import check_number


class Body(ABC):
    """The parameters of a network body."""

    @abstractmethod
    def least_weights(self, inputs: int) -> int:
        """A lower bound on the number of weights for this many inputs."""

    def activations(self) -> int:
        """About how many numbers its layers compute for one input, to estimate memory."""
        return 0


@part
@dataclass(frozen=True)
class Perceptron(Body):
    """Hidden layers, each a linear map, an activation and LayerNorm; a linear network if there are none."""

    net_arch: tuple[int, ...] = (400, 300)
    layer_norm: bool = True
    norm_first: bool = False
    """Whether the activation comes after LayerNorm, as in the authors' released code."""
    action_twice: bool = False
    """Whether critics take the action again after their first layer."""
    activation: Activation = ReLU()

    def __post_init__(self) -> None:
        check_widths("net_arch", self.net_arch)
        for name in ("layer_norm", "norm_first", "action_twice"):
            if not isinstance(getattr(self, name), bool):
                raise BadValue(f"{name} must be True or False, not {getattr(self, name)!r}")
        if not isinstance(self.activation, Activation):
            raise BadValue(f"activation must be {' or '.join(parts_of(Activation))}, not {self.activation!r}")

    def least_weights(self, inputs: int) -> int:
        return count_weights(inputs, self.net_arch)

    def activations(self) -> int:
        return sum(self.net_arch)


@part
@dataclass(frozen=True)
class Residual(Body):
    """A linear map to `width` features, pre-LayerNorm residual blocks, and a final LayerNorm, as in SimBa (Lee et al., 2025)."""

    width: int = 256
    blocks: int = 2

    def __post_init__(self) -> None:
        check_number("width", self.width, 1, whole=True)
        check_number("blocks", self.blocks, 1, whole=True)

    def least_weights(self, inputs: int) -> int:
        return inputs * self.width + 8 * self.blocks * self.width**2

    def activations(self) -> int:
        return self.width * (1 + 6 * self.blocks)


@part
@dataclass(frozen=True)
class BatchRenormalized(Body):
    """Batch renormalization of the input and after each hidden layer with its ReLU, as in CrossQ (Bhatt et al., 2024)."""

    net_arch: tuple[int, ...] = (512, 512)
    momentum: float = 0.99
    """How much of the running statistics a gradient step keeps."""
    warm_up: int = 100_000
    """Gradient steps with the minibatch's statistics alone, before they are corrected toward the running ones."""
    unit_weights: bool = False
    """Whether the weights into each hidden unit have norm 1 after every gradient step (Palenicek et al., 2025)."""

    def __post_init__(self) -> None:
        check_widths("net_arch", self.net_arch)
        check_number("momentum", self.momentum, 0, 1)
        check_number("warm_up", self.warm_up, 0, whole=True)
        if not isinstance(self.unit_weights, bool):
            raise BadValue(f"unit_weights must be True or False, not {self.unit_weights!r}")

    def least_weights(self, inputs: int) -> int:
        return count_weights(inputs, self.net_arch)

    def activations(self) -> int:
        return 3 * sum(self.net_arch)


def check_widths(name: str, widths: object) -> None:
    """Raises unless `widths` is a tuple of layer widths; an empty one means a linear network."""
    if not isinstance(widths, tuple):
        raise BadValue(f"{name} must be a tuple of widths, such as (400, 300), not {widths!r}")
    for width in widths:
        check_number(f"a width in {name}", width, 1, whole=True)


def count_weights(inputs: int, widths: Sequence[int]) -> int:
    """The number of weights in a perceptron's hidden layers."""
    return sum(first * second for first, second in pairwise((inputs, *widths)))
