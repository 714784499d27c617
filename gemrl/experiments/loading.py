"""Loads a trained model from a run folder or from a saved file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gemrl.core.exceptions import RunFolderError
from gemrl.core.reading import exists, is_folder
from gemrl.experiments.hub import PREFIX, fetch
from gemrl.experiments.run_folder import SEALED, describe
from gemrl.training.model import Model
from gemrl.training.model_files import ModelFiles
from gemrl.training.models import model_class


def load(path: str | os.PathLike[str], env: Any = None, device: str = "auto", **fields: Any) -> Model:
    """The trained model in a run folder, or the model saved at `path`, of any algorithm; `fields` change its recipe.

    `hf:user/name` is a model on the Hugging Face Hub.
    """
    if isinstance(path, str) and path.startswith(PREFIX):
        path = fetch(path)
    if is_folder(path):
        describe(path)
        path = Path(path) / "model"
        if not exists(path.with_suffix(".json")):
            why = "only its results were kept" if exists(path.parent / SEALED) else "the run ended before it saved one"
            raise RunFolderError(f"{path.parent} contains no trained model: {why}")
    return model_class(ModelFiles(path).read_header()["algo"]).load(path, env, device, **fields)
