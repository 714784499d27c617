"""Export of runs to the files that the plotting scripts of rl-zoo3 read."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import numpy as np

from gemrl.analysis.results.collection import Collection
from gemrl.analysis.results.run import Run
from gemrl.core.env_names import path_name, short_name
from gemrl.core.exceptions import RunFolderError
from gemrl.core.files import write_bytes


def export_runs(collection: Collection, out: Path) -> int:
    """Writes evaluations.npz for every run and returns the number of files; existing files are never replaced."""
    targets = paths(collection, out)
    existing = [target for target in targets.values() if target.parent.exists()]
    if existing:
        raise RunFolderError(f"{existing[0].parent} already exists; choose another folder with --out, or remove it")
    try:
        for run in collection.runs:
            target = targets[run.folder]
            target.parent.mkdir(parents=True)
            write_bytes(target, evaluations_npz(run))
    except OSError as error:
        raise RunFolderError(f"cannot write to {out}: {error.strerror or error}") from None
    return len(targets)


def paths(collection: Collection, out: Path) -> dict[Path, Path]:
    """The file of each run, by run folder: named by method and environment as in rl-zoo3, numbered from 1 by seed."""
    count: Counter[tuple[str, str]] = Counter()
    found = {}
    for run in sorted(collection.runs, key=lambda run: (run.method, run.env, run.seed, run.folder)):
        method, env = short_name(path_name(run.method)), short_name(path_name(run.env))
        count[method, env] += 1
        found[run.folder] = out / method / f"{env}_{count[method, env]}" / "evaluations.npz"
    return found


def evaluations_npz(run: Run) -> bytes:
    """The content of evaluations.npz: timesteps [n], results [n, 2], ep_lengths [n, 2].

    A run stores only the mean and the standard deviation over the episodes of an evaluation, so two values with that mean and
    deviation stand for the episodes. A single value would not work: rl-zoo3 would then mistake runs for episodes.
    """
    columns = run.evaluations
    signs = np.array([-1.0, 1.0])
    target = io.BytesIO()
    np.savez(
        target,
        timesteps=columns["step"].astype(np.int64),
        results=columns["return_mean"][:, None] + signs * columns["return_std"][:, None],
        ep_lengths=np.repeat(columns["length_mean"][:, None], 2, axis=1),
    )
    return target.getvalue()
