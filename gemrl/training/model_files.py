"""The files of a saved model: arrays as safetensors, everything else as JSON. Loading never runs code."""

from __future__ import annotations

import os
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from gemrl.algorithms.registry import AnyRecipe
from gemrl.core.exceptions import MissingFile, ModelFileError
from gemrl.core.files import read_arrays, read_sealed, replacing, sealed, write_arrays
from gemrl.core.layout import Layout
from gemrl.core.snapshot import Snapshot
from gemrl.training.model_schema import MODEL_FILE

FORMAT = 2
"""Version of the file format. Version 1, without checksums and memory, was never released."""

ENDINGS = {".safetensors", ".json", ".zip"}
"""Suffixes that are removed from a path. Stable-Baselines3's callbacks add .zip."""


class ModelFiles:
    """The files of one model: `path`.json, `path`.safetensors and, if its memory was saved, `path`.memory.safetensors."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        path = Path(path)
        if not path.name:
            raise ModelFileError(f"{path} is a folder, not the path of a model")
        self.stem = path.with_suffix("") if path.suffix in ENDINGS else path
        self.header = self.stem.with_name(self.stem.name + ".json")
        self.learner = self.stem.with_name(self.stem.name + ".safetensors")
        self.memory = self.stem.with_name(self.stem.name + ".memory.safetensors")

    def write(self, learner: dict[str, np.ndarray], header: dict[str, Any], memory: Snapshot | None = None) -> None:
        """Writes all files, then replaces older ones; the header comes last, since it has the checksums of the others."""
        self.stem.parent.mkdir(parents=True, exist_ok=True)
        arrays = {self.learner: learner} | ({self.memory: memory.arrays} if memory else {})
        with replacing(*arrays, self.header) as (*files, last):
            digests = [write_arrays(file, named) for file, named in zip(files, arrays.values(), strict=True)]
            checksums = dict(zip_longest(("learner", "memory"), digests))
            content = {"format": FORMAT, **header, "sha256": checksums, "state": memory.facts if memory else {}}
            last.write(sealed(content, MODEL_FILE))

    def read_header(self) -> dict[str, Any]:
        """The content of the JSON file."""
        try:
            return read_sealed(self.header, FORMAT, MODEL_FILE)
        except MissingFile:
            raise ModelFileError(f"no model at {self.stem}: {self.header.name} does not exist") from None

    def check_size(self, recipe: AnyRecipe, layout: Layout) -> None:
        """Raises if the recipe's networks are larger than the file. Called before any network is created."""
        least = 4 * recipe.least_parameters(layout)
        if self.learner.exists() and self.learner.stat().st_size < least:
            raise ModelFileError(f"{self.learner} is damaged or does not match its recipe: it is too small")

    def read_learner(self, header: dict[str, Any]) -> dict[str, np.ndarray]:
        """The arrays of networks and optimizers, by name."""
        return read_arrays(self.learner, header["sha256"]["learner"])

    def read_memory(self, header: dict[str, Any]) -> Snapshot | None:
        """The snapshot with the memory; None if the model was saved without it."""
        digest = header["sha256"]["memory"]
        return None if digest is None else Snapshot(header["state"], read_arrays(self.memory, digest))
