"""Runs in the files that rl-zoo3's plots read."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import numpy as np

from gemrl.analysis.results.collection import Collection
from gemrl.analysis.results.run import Run
from gemrl.core.env_names import path_name
from gemrl.core.exceptions import RunFolderError
from gemrl.core.files import write_bytes


def export_runs(collection: Collection, out: Path) -> int:
    """Writes every run's evaluations.npz and returns how many; nothing that exists already is replaced."""
    targets = places(collection, out)
    taken = [target for target in targets.values() if target.parent.exists()]
    if taken:
        raise RunFolderError(f"{taken[0].parent} exists already; choose another folder with --out, or remove it")
    try:
        for run in collection.runs:
            target = targets[run.folder]
            target.parent.mkdir(parents=True)
            write_bytes(target, evaluations_npz(run))
    except OSError as error:
        raise RunFolderError(f"cannot write to {out}: {error.strerror or error}") from None
    return len(targets)


def places(collection: Collection, out: Path) -> dict[Path, Path]:
    """Where each run goes, by its folder: methods and environments as rl-zoo3 names them, numbered from 1 by seed."""
    count: Counter[tuple[str, str]] = Counter()
    found = {}
    for run in sorted(collection.runs, key=lambda run: (run.method, run.env, run.seed, run.folder)):
        method, env = path_name(run.method), path_name(run.env)
        count[method, env] += 1
        found[run.folder] = out / method / f"{env}_{count[method, env]}" / "evaluations.npz"
    return found


def evaluations_npz(run: Run) -> bytes:
    """timesteps [n], results [n, 2], ep_lengths [n, 2].

    A run keeps the mean and the deviation of an evaluation's episodes, not each of them, so two stand-ins that have the
    same mean and deviation take their place. One would not do: rl-zoo3 then takes runs for episodes.
    """
    columns = run.evaluations
    both = np.array([-1.0, 1.0])
    target = io.BytesIO()
    np.savez(
        target,
        timesteps=columns["step"].astype(np.int64),
        results=columns["return_mean"][:, None] + both * columns["return_std"][:, None],
        ep_lengths=np.repeat(columns["length_mean"][:, None], 2, axis=1),
    )
    return target.getvalue()
