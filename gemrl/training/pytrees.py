"""Converts pytrees to named numpy arrays and back."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from gemrl.core.snapshot import fitting


def named_arrays(tree: Any) -> dict[str, np.ndarray]:
    """Every array of a pytree, by its path in the tree."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): _to_numpy(leaf) for path, leaf in leaves}


def refilled(template: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The template with every array replaced by the one of the same name; the inverse of `named_arrays`."""
    arrays = fitting(arrays, _with_saved_lengths(named_arrays(template), arrays))
    leaves, structure = jax.tree.flatten(template)
    return jax.tree.unflatten(structure, [_from_numpy(leaf, array) for leaf, array in zip(leaves, arrays.values(), strict=True)])


def _with_saved_lengths(template: dict[str, np.ndarray], saved: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The template with its tables as long as the saved ones, since the tables of a new learner have no rows."""
    tables = [name for name, like in template.items() if like.shape[:1] == (0,) and saved.get(name, like).ndim]
    rows = {name: len(saved[name]) for name in tables if name in saved}
    return template | {name: np.empty((count, *template[name].shape[1:]), template[name].dtype) for name, count in rows.items()}


def _to_numpy(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _from_numpy(leaf: Any, array: np.ndarray) -> Any:
    if isinstance(leaf, np.ndarray):  # tables are float64, which JAX would convert to float32
        return np.array(array)
    return jax.random.wrap_key_data(jax.numpy.array(array)) if _is_key(leaf) else jax.numpy.array(array)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)
