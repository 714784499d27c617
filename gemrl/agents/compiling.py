"""A round of training as one compiled program."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial, wraps
from typing import Any

import jax
import numpy as np

from gemrl.agents.device import CPU_COMPILER_OPTIONS
from gemrl.agents.memory.ring import Memory, Rows
from gemrl.algorithms.arguments import numbers_of, shape_of, with_numbers
from gemrl.core.arrays import Array

Round = Callable[[Any, Any, Memory, Rows, Array, bool], tuple[Any, Memory, dict[str, Array]]]
"""Recipe, learner, memory, new rows, their number, whether an update is due -> learner, memory, metrics."""


def compiled_round(one_round: Round) -> Round:
    """The round as one compiled program that overwrites learner and memory.

    The recipe's numbers are arguments of the program, so that a run with another learning rate compiles nothing.
    """

    @partial(jax.jit, static_argnums=(0, 6), donate_argnums=(2, 3), compiler_options=CPU_COMPILER_OPTIONS)
    def program(
        shape: Any, numbers: Array, learner: Any, memory: Memory, new: Rows, count: Array, due: bool
    ) -> tuple[Any, Memory, dict[str, Array]]:
        recipe = with_numbers(shape, dict(zip(numbers_of(shape), numbers, strict=True)))
        return one_round(recipe, learner, memory, new, count, due)

    @wraps(one_round)
    def call(
        recipe: Any, learner: Any, memory: Memory, new: Rows, count: Array, due: bool
    ) -> tuple[Any, Memory, dict[str, Array]]:
        return program(*_divided(recipe), learner, memory, new, count, due)

    call.program = program  # type: ignore[attr-defined]
    return call


@lru_cache(maxsize=64)
def _divided(recipe: Any) -> tuple[Any, np.ndarray]:
    """What a program depends on, and the numbers that it takes."""
    return shape_of(recipe), np.array([*numbers_of(recipe).values()], np.float32)
