"""The best model of a run: best.safetensors and best.json beside the model, and in each checkpoint as they were then."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemrl.core.exceptions import RunFolderError
from gemrl.core.files import replacing
from gemrl.core.reading import exists, open_regular
from gemrl.experiments.checkpoints import Checkpoint
from gemrl.experiments.run_folder import BEST_FILES

if TYPE_CHECKING:
    from gemrl.training.evaluation import Evaluation
    from gemrl.training.model import Model

BEST = "best"
"""The name of the model, as in gemrl.load("RUN/best")."""


class BestModel:
    """Keeps the model of the evaluation with the highest mean return; of equal ones, the first."""

    def __init__(self, folder: Path, *, kept: bool) -> None:
        self._folder, self._kept = folder, kept
        self._score: float | None = None

    def start(self, found: Checkpoint | None) -> None:
        """Puts back the model as it was at a checkpoint, or removes what a run without one has left."""
        if not self._kept:
            return
        self._score = found.facts.get(BEST) if found else None
        paths = [self._folder / name for name in BEST_FILES]
        if found is None or self._score is None:
            for path in paths:
                path.unlink(missing_ok=True)
            return
        with replacing(*paths) as files:
            for file, name in zip(files, BEST_FILES, strict=True):
                with open_regular(found.folder / name, None) as source:
                    shutil.copyfileobj(source, file)

    def update(self, model: Model, evaluation: Evaluation) -> None:
        """Saves the model if this evaluation is the best so far."""
        if self._kept and (self._score is None or evaluation.return_mean > self._score):
            model.save(self._folder / BEST)
            self._score = evaluation.return_mean

    def state(self) -> tuple[dict[str, Any], list[Path]]:
        """What belongs into a checkpoint: the score, if there is a best model, and its files."""
        files = [self._folder / name for name in BEST_FILES]
        if not all(map(exists, files)):  # someone has removed it
            self._score = None
        return ({}, []) if self._score is None else ({BEST: self._score}, files)


def best_path(run: Path, description: Mapping[str, Any]) -> Path:
    """The path of a run's best model, without a suffix. Raises RunFolderError if there is none."""
    if exists(run / BEST_FILES[-1]):
        return run / BEST
    why = "it has not been evaluated yet" if description.get("keep_best") else "it was trained without keeping it"
    raise RunFolderError(f"{run} has no best model: {why}; without --best its last model is evaluated")
