"""Runs a list of long training jobs, each in its own process on one thread; finished jobs are skipped."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gemrl.core.threads import LIBRARIES

RESULTS = Path("results")
"""The folder of finished runs; it keeps evaluations but no models."""

ONE_THREAD = {"JAX_PLATFORMS": "cpu", **dict.fromkeys(LIBRARIES, "1")}


def run_all(jobs: Iterable[tuple[Path, list[str]]], workers: int) -> None:
    """Runs the commands of all unfinished jobs, `workers` at a time; exits with an error if one fails."""
    waiting = [(folder, command) for folder, command in jobs if not finished(folder)]
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(lambda job: _run(*job), waiting))
    failed = [folder for folder, _ in waiting if not finished(folder)]
    if failed:
        sys.exit(f"{len(failed)} of {len(waiting)} runs failed; see {failed[0] / 'log'}")


def finished(folder: Path) -> bool:
    """Whether the run in a folder is finished."""
    return (folder / "done").exists()


def _run(folder: Path, command: list[str]) -> None:
    """Runs one command, keeps its log only if it fails, and removes models and checkpoints."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print("start", folder, flush=True)
    with (folder / "log").open("w") as log:
        code = subprocess.run(command, env=os.environ | ONE_THREAD, stdout=log, stderr=subprocess.STDOUT, check=False).returncode
    for name in ("model.safetensors", "model.json", "learning_curve.png"):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    if code == 0:
        (folder / "log").unlink()
        (folder / "done").touch()
    print("done " if code == 0 else f"failed ({code})", folder, flush=True)


def gemrl_job(folder: Path, env: str, algo: str, seed: int, steps: int, *settings: str) -> tuple[Path, list[str]]:
    """The run folder and the command of a run of `gemrl train`."""
    command = [sys.executable, "-m", "gemrl", "train", env, "--algo", algo, "--seed", str(seed), "--steps", str(steps)]
    return folder, [*command, "--run", str(folder), *(["--set", *settings] if settings else [])]
