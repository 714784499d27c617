"""The state of an object as data: facts for JSON and arrays for safetensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gemrl.core.exceptions import ModelFileError


class Snapshot(NamedTuple):
    """JSON facts and named arrays. Arrays may be views of data that keeps changing: write them immediately."""

    facts: dict[str, Any]
    arrays: dict[str, np.ndarray]

    @staticmethod
    def of(**parts: Snapshot) -> Snapshot:
        """Several snapshots as one, each under its name."""
        return Snapshot(
            {name: part.facts for name, part in parts.items()},
            {f"{name}.{key}": array for name, part in parts.items() for key, array in part.arrays.items()},
        )

    def part(self, name: str) -> Snapshot:
        """One of the snapshots that `of` combined."""
        named = ((key.partition("."), array) for key, array in self.arrays.items())
        return Snapshot(self.facts[name], {rest: array for (first, _, rest), array in named if first == name})


def fit(name: str, array: np.ndarray, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """The array. Raises unless it has this shape and dtype."""
    if array.shape != shape or array.dtype != dtype:
        raise ModelFileError(f"array {name} has shape {array.shape} and type {array.dtype}, not {shape} and {np.dtype(dtype)}")
    return array


def fitting(arrays: Mapping[str, np.ndarray], template: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays in the template's order. Raises unless names, shapes and dtypes match."""
    for name in template.keys() | arrays.keys():
        if name not in arrays or name not in template:
            raise ModelFileError(f"array {name} is {'missing' if name in template else 'unknown'}")
    return {name: fit(name, arrays[name], like.shape, like.dtype) for name, like in template.items()}
