"""A trained model on disk: arrays as safetensors, the rest as JSON beside them. Loading never runs code."""

from __future__ import annotations

import os
from itertools import zip_longest
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gemrl.errors import ModelFileError
from gemrl.files import read_arrays, read_sealed, replacing, sealed, write_arrays
from gemrl.recipes import AnyRecipe
from gemrl.snapshot import Snapshot, fitting
from gemrl.spaces import Layout

FORMAT = 2
"""Version of the files' layout. 1 had no checksums and no memory, and was never released."""

ENDINGS = {".safetensors", ".json", ".zip"}
"""Stripped from a path; .zip is what Stable-Baselines3's callbacks add."""


class ModelFiles:
    """The files of one model: `path`.json, `path`.safetensors and, if its memory was saved, `path`.memory.safetensors."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        path = Path(path)
        self.stem = path.with_suffix("") if path.suffix in ENDINGS else path
        self.header = self.stem.with_name(self.stem.name + ".json")
        self.learner = self.stem.with_name(self.stem.name + ".safetensors")
        self.memory = self.stem.with_name(self.stem.name + ".memory.safetensors")

    def write(self, learner: Any, header: dict[str, Any], memory: Snapshot | None = None) -> None:
        """Writes all files, which replace older ones only when all are there; the header last, since it has their checksums."""
        self.stem.parent.mkdir(parents=True, exist_ok=True)
        arrays = {self.learner: named_arrays(learner)} | ({self.memory: memory.arrays} if memory else {})
        with replacing(*arrays, self.header) as (*files, last):
            digests = [write_arrays(file, named) for file, named in zip(files, arrays.values(), strict=True)]
            named = dict(zip_longest(("learner", "memory"), digests))
            last.write(sealed({"format": FORMAT, **header, "sha256": named, "state": memory.facts if memory else {}}))

    def read_header(self) -> dict[str, Any]:
        """The JSON."""
        if not self.header.exists():
            raise ModelFileError(f"no model at {self.stem}: there is no {self.header.name}")
        return read_sealed(self.header, FORMAT)

    def check_size(self, recipe: AnyRecipe, layout: Layout) -> None:
        """Raises, before any network is made, if the recipe's networks are larger than the file that should hold them."""
        least = 4 * recipe.least_parameters(layout)
        if self.learner.exists() and self.learner.stat().st_size < least:
            raise ModelFileError(f"{self.learner} is damaged, or does not fit its recipe: it is too small")

    def read_learner(self, header: dict[str, Any], template: Any) -> Any:
        """`template` with every array replaced by the saved one of its name; names, shapes and types must agree."""
        arrays = read_arrays(self.learner, header["sha256"]["learner"])
        try:
            return refilled(template, arrays)
        except ModelFileError as error:
            raise ModelFileError(f"{self.learner} does not fit its recipe: {error}") from None

    def read_memory(self, header: dict[str, Any]) -> Snapshot | None:
        """What was saved beside the learner, if it was."""
        digest = header["sha256"]["memory"]
        return None if digest is None else Snapshot(header["state"], read_arrays(self.memory, digest))


def named_arrays(tree: Any) -> dict[str, np.ndarray]:
    """Every array of a pytree under the path that leads to it."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): _plain(leaf) for path, leaf in leaves}


def refilled(template: Any, arrays: dict[str, np.ndarray]) -> Any:
    """A pytree with every array replaced by the one of its name, as `named_arrays` has them."""
    arrays = fitting(arrays, _as_long(named_arrays(template), arrays))
    leaves, structure = jax.tree.flatten(template)
    return jax.tree.unflatten(structure, [_like(leaf, array) for leaf, array in zip(leaves, arrays.values(), strict=True)])


def _as_long(template: dict[str, np.ndarray], saved: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The template with its tables as long as the saved ones: a new learner's tables have no rows."""
    tables = [name for name, like in template.items() if like.shape[:1] == (0,) and saved.get(name, like).ndim]
    rows = {name: len(saved[name]) for name in tables if name in saved}
    return template | {name: np.empty((count, *template[name].shape[1:]), template[name].dtype) for name, count in rows.items()}


def _plain(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _like(leaf: Any, array: np.ndarray) -> Any:
    if isinstance(leaf, np.ndarray):  # JAX would halve the precision of tables
        return np.array(array)
    return jax.random.wrap_key_data(jax.numpy.array(array)) if _is_key(leaf) else jax.numpy.array(array)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)
