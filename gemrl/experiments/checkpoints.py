"""Checkpoints of a run: everything needed to resume it, in folders that are either complete or absent.

    RUN/checkpoints/000012000/state.json                 the state of the logs, with checksums of the files below
                              model.json                 the model, with checksums of its arrays
                              model.safetensors          networks, target networks, optimizers
                              model.memory.safetensors   the memory, rows not yet added to it, the running episode
                              evaluations.csv, progress.csv
                              best.json, best.safetensors   the best model so far, if the run keeps it

A checkpoint is written under a temporary name and renamed once all of it is on disk. The previous one is kept.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from gemrl.core.exceptions import ModelFileError, RunBroken
from gemrl.core.files import TEMPORARY, check_digest, digest_of, read_sealed, replacing, sync_folder, write_bytes, write_sealed
from gemrl.core.links import refuse_links_between
from gemrl.core.reading import CSV_BYTES, open_regular, read_limited
from gemrl.experiments.schemas import STATE_FILE

if TYPE_CHECKING:
    from gemrl.training.model import Model

FORMAT = 1
"""Version of the file format."""

KEPT = 2
"""How many complete checkpoints are kept."""

MAX_DIGITS = 18
"""The longest name of a checkpoint, which is its step."""

SECONDS, SHARE = 60.0, 0.04
"""By default, seconds between checkpoints, and the largest share of the time spent on writing them."""


class Checkpoint(NamedTuple):
    """A complete checkpoint."""

    folder: Path
    facts: dict[str, Any]
    texts: dict[str, str]

    @property
    def model(self) -> Path:
        """The path of the model, without a suffix."""
        return self.folder / "model"


def folder_of(run: Path) -> Path:
    """The folder with the checkpoints of a run."""
    return run / "checkpoints"


def write(run: Path, model: Model, facts: Mapping[str, Any], texts: Mapping[str, str], files: Sequence[Path] = ()) -> Path:
    """Writes a checkpoint, with these files of the run, and removes all but the newest ones."""
    refuse_links_between(run, folder_of(run))
    folder_of(run).mkdir(exist_ok=True)
    target = folder_of(run) / f"{model.num_timesteps:09d}"
    temporary = folder_of(run) / f"{TEMPORARY}{secrets.token_hex(4)}"
    temporary.mkdir()
    try:
        model.save(temporary / "model", memory=True)
        digests = {name: write_bytes(temporary / name, text.encode()) for name, text in texts.items()}
        digests["model.json"] = digest_of(temporary / "model.json")
        digests |= {file.name: _added(file, temporary / file.name) for file in files}
        state = {"format": FORMAT, "sha256": digests, "facts": dict(facts)}
        write_sealed(temporary / "state.json", state, STATE_FILE)
        shutil.rmtree(target, ignore_errors=True)  # an existing one is of the same step
        os.rename(temporary, target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_folder(folder_of(run))
    for old in _all(run)[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)  # if it is being read, a later call removes it
    return target


def _added(file: Path, target: Path) -> str:
    """Copies a file of the run into a checkpoint; returns its SHA-256."""
    with replacing(target) as (copy,), open_regular(file, None) as source:
        shutil.copyfileobj(source, copy)
    return digest_of(target)


def read(folder: Path) -> Checkpoint:
    """A checkpoint, after checking its checksums. The arrays are checked when the model is loaded."""
    state = read_sealed(folder / "state.json", FORMAT, STATE_FILE)
    digests, facts = state["sha256"], state["facts"]
    for name, digest in digests.items():
        if Path(name).name != name:
            raise ModelFileError(f"{folder / 'state.json'} refers to a file outside its folder")
        check_digest(folder / name, digest)
    logs = [name for name in digests if name.endswith(".csv")]
    texts = {name: read_limited(folder / name, CSV_BYTES).decode(errors="replace") for name in logs}
    return Checkpoint(folder, facts, texts)


def newest(run: Path, load: Callable[[Checkpoint], Model], warn: Callable[[str], None]) -> tuple[Checkpoint, Model] | None:
    """The newest readable checkpoint and its model, or None if the run has no checkpoint. Warns about damaged ones."""
    folders = _all(run)
    for folder in folders:
        try:
            checkpoint = read(folder)
            return checkpoint, load(checkpoint)
        except ModelFileError as error:
            warn(f"{error}; trying the previous checkpoint")
    if folders:
        raise RunBroken(f"no checkpoint of {run} can be read; start the run again in another folder")
    return None


def set_damaged_aside(run: Path, found: Checkpoint) -> None:
    """Renames damaged checkpoints, those newer than `found`, so that they do not count as kept checkpoints."""
    for folder in _all(run):
        if _step(folder) > _step(found.folder):
            aside = folder.with_name(f"damaged-{folder.name}")
            shutil.rmtree(aside, ignore_errors=True)
            os.rename(folder, aside)


def newest_step(run: Path) -> int:
    """The step of a run's newest checkpoint, or -1 if it has none."""
    return max(map(_step, _all(run)), default=-1)


def clean(run: Path) -> None:
    """Removes temporary files that a killed process left behind."""
    for folder in (run, folder_of(run)):
        for leftover in folder.glob(f"{TEMPORARY}*"):
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)


def _all(run: Path) -> list[Path]:
    """The folders of complete checkpoints, newest first."""
    named = (folder for folder in folder_of(run).glob("[0-9]*") if folder.name.isdecimal() and len(folder.name) <= MAX_DIGITS)
    return sorted(named, key=_step, reverse=True)


def _step(folder: Path) -> int:
    return int(folder.name)


class Clock:
    """Decides when the next checkpoint is due: after a number of steps, or by time."""

    def __init__(self, every: int | None, step: int) -> None:
        self._every, self._step = every, step
        self._written, self._cost = monotonic(), 0.0

    def due(self, step: int) -> bool:
        """Whether a checkpoint is due at this step."""
        if self._every:
            return step // self._every > self._step // self._every
        return monotonic() - self._written > max(SECONDS, self._cost / SHARE)

    def measure(self, write: Callable[[], object], step: int) -> None:
        """Calls `write`, unless this step has a checkpoint already, and measures how long it takes."""
        if step == self._step:
            return
        start = monotonic()
        write()
        self._step, self._written = step, monotonic()
        self._cost = self._written - start
