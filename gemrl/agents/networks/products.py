"""Products of features with weights, in float32 or, where a recipe asks for it, in bfloat16 with sums in float32.

Processors with matrix units (AMX) multiply bfloat16 several times as fast as float32. JAX's own setting of the precision of
products says which it is, because it is part of what JAX knows a compiled program by; CPUs ignore it, so the factors are
converted here.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.layout import Layout, with_layout_constraint

from gemrl.core.arrays import Array

BFLOAT16 = "bfloat16"
"""JAX's name for this precision."""
SMALL = 64
"""Products with fewer inputs or outputs than this stay in float32: they take little time, and outputs keep their accuracy."""


def multiplying(bfloat16: bool) -> AbstractContextManager[Any]:
    """A context in which `product` computes in bfloat16, or as JAX is set."""
    return jax.default_matmul_precision(BFLOAT16) if bfloat16 else nullcontext()


def product(x: Array, weight: Array) -> Array:
    """x [*B, I] @ weight [I, O] -> [*B, O]."""
    precision = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]
    if isinstance(x, np.ndarray) or min(weight.shape) < SMALL or precision != BFLOAT16:
        return x @ weight
    return _rounded(x.reshape(-1, x.shape[-1]), weight).reshape(*x.shape[:-1], -1)


@jax.custom_vjp
def _rounded(x: Array, weight: Array) -> Array:
    """The product of both factors rounded to bfloat16. [B, I], [I, O] -> [B, O]."""
    return _forward(x, weight)[0]


def _forward(x: Array, weight: Array) -> tuple[Array, tuple[Array, Array]]:
    factors = x.astype(jnp.bfloat16), weight.astype(jnp.bfloat16)
    return _summed(*factors, columns=0), factors


def _backward(factors: tuple[Array, Array], slope: Array) -> tuple[Array, Array]:
    x, weight = factors
    slope = slope.astype(jnp.bfloat16)
    # XLA's fast kernels do not take a transposed left factor, so it is transposed in memory.
    rows = with_layout_constraint(x.T, Layout(major_to_minor=(0, 1)))  # type: ignore[no-untyped-call]
    return _summed(slope, weight, columns=1), _summed(rows, slope, columns=0)


def _summed(left: Array, right: Array, columns: int) -> Array:
    """The sum over the columns of `left` and axis `columns` of `right`, in float32."""
    return jax.lax.dot_general(left, right, (((1,), (columns,)), ((), ())), preferred_element_type=jnp.float32)


_rounded.defvjp(_forward, _backward)
