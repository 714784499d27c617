"""Estimates of the memory that training takes: networks, rows, and what a round computes with. Checked before it is taken.

The factors were fitted to the memory that XLA reports for compiled rounds; tests compare the sums with measured ones.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from gemrl.agents.memory.ring import column_bytes, memory_bytes, row_bytes
from gemrl.agents.networks.vision import seen_size, vision_footprint
from gemrl.algorithms.bodies import Body
from gemrl.core.layout import Layout
from gemrl.core.resources import Need, check_memory, memory_left

FLOAT = 4
"""Bytes of a number."""


class Work(NamedTuple):
    """What a family computes with, as far as memory is concerned."""

    parameters: int
    """Of all networks together, without targets."""
    activations: int
    """Numbers that a forward pass of all networks computes for one observation."""
    drawn: int
    """Rows that one gradient step looks at."""
    plans: bool
    """Whether values and returns of all rows are computed and stored."""
    tables: int = 0
    """Numbers in the dictionaries of agents that learn these."""
    compared: int = 0
    """The numbers by which rows are compared with each other; 0 if they are not."""


def actor_critic_size(body: Body, layout: Layout, networks: int, features: int = 0) -> tuple[int, int]:
    """Parameters and activations of this many networks with a body: an actor, and critics, which take the action too.

    `features` is the number of features that an encoder learns, if there is one; it counts in full.
    """
    inputs = seen_size(layout) + layout.action
    encoder = features * (inputs + 5 * features)
    weights, hidden = body.least_weights(inputs + 2 * features), body.activations() + 2 * features
    vision_weights, vision_hidden = vision_footprint(layout)
    return networks * weights + encoder + vision_weights, networks * hidden + 6 * features + vision_hidden


def network_needs(work: Work) -> list[Need]:
    """What networks take: themselves, their targets, two averages of Adam, gradients, and a copy while they are made."""
    needs = [Need("networks", 6 * FLOAT * work.parameters, "net_arch")]
    # A round may copy the dictionaries that it changes, and they are copied while they are made.
    return [*needs, Need("dictionaries", 3 * FLOAT * work.tables, "rows_per_action or key_size")] if work.tables else needs


class Shape(NamedTuple):
    """The shape of a memory."""

    lanes: int
    capacity: int
    layout: Layout
    groups: int
    extra: tuple[str, ...] = ()
    neighbours: int = 0


def training_needs(shape: Shape, work: Work, gradient_steps: int, chunk: int) -> list[Need]:
    """What training takes in addition: the rows, the phase of a round that takes most, and new rows on the way.

    `chunk` is how many rows are evaluated at a time.
    """
    lanes, capacity, layout, groups, extra, neighbours = shape
    batch, draws = 4 * work.drawn * (layout.size + work.activations), gradient_steps * work.drawn * (4 + layout.action)
    refresh = chunk * (layout.size + work.activations) + work.parameters
    staged = 3 * lanes * min(capacity, STAGED_ROWS) * (row_bytes(layout, groups, extra, neighbours) + _film_bytes(layout))
    phases = [  # one after the other, in the same memory
        Need("copying a column", column_bytes(*shape), "buffer_size"),  # JAX does that when the memory is made
        Need("evaluating rows", FLOAT * refresh * work.plans, "net_arch"),
        Need("planning", lanes * capacity * groups * PLANNING_BYTES * work.plans, "buffer_size"),
        Need("comparing rows", lanes * capacity * comparing_bytes(work.compared, neighbours), "buffer_size"),
        Need("minibatches", FLOAT * (batch + draws), "batch_size or gradient_steps" if draws > batch else "batch_size"),
    ]
    largest = max(phases, key=lambda need: need.size)
    return [Need("rows", memory_bytes(*shape), "buffer_size"), largest, Need("new rows", staged, "n_envs")]


PLANNING_BYTES = 68
"""Bytes for each row and each estimate while returns are planned with long rollouts."""


def comparing_bytes(compared: int, neighbours: int) -> int:
    """Bytes for each row while neighbours are searched by keys of this many numbers."""
    return 200 + 24 * compared + 15 * neighbours if compared else 0


STAGED_ROWS = 128
"""The most rows of a lane that are staged on the host."""


def _film_bytes(layout: Layout) -> int:
    """Bytes of the images that are collected for each new row, if images are stored once."""
    return 2 * layout.size // layout.frames * np.dtype(layout.dtype).itemsize if layout.kept_once else 0


def check_fits(needs: list[Need], device: jax.Device | None) -> None:
    """Raises if the needs exceed what is left, in the memory of this machine or of the device."""
    if device is None or device.platform == "cpu":
        check_memory(needs, memory_left())
    elif facts := device.memory_stats():
        check_memory(needs, int(facts.get("bytes_limit", 1 << 63)) - int(facts.get("bytes_in_use", 0)))
