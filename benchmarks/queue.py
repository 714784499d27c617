"""Long measurements as a list of runs: each in a process of its own on one thread, those already finished left alone."""

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
"""Where evaluations of finished runs are kept; models are not."""

ONE_THREAD = {"JAX_PLATFORMS": "cpu", **dict.fromkeys(LIBRARIES, "1")}


def run_all(jobs: Iterable[tuple[Path, list[str]]], workers: int) -> None:
    """Runs the commands whose folder holds no finished run, `workers` at a time; ends the process if one fails."""
    waiting = [(folder, words) for folder, words in jobs if not finished(folder)]
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(lambda job: _run(*job), waiting))
    failed = [folder for folder, _ in waiting if not finished(folder)]
    if failed:
        sys.exit(f"{len(failed)} of {len(waiting)} runs failed; {failed[0] / 'log'} says why")


def finished(folder: Path) -> bool:
    """Whether a run came to its end there."""
    return (folder / "done").exists()


def _run(folder: Path, words: list[str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print("start", folder, flush=True)
    with (folder / "log").open("w") as log:
        code = subprocess.run(words, env=os.environ | ONE_THREAD, stdout=log, stderr=subprocess.STDOUT, check=False).returncode
    for name in ("model.safetensors", "model.json", "learning_curve.png"):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    if code == 0:
        (folder / "log").unlink()
        (folder / "done").touch()
    print("done " if code == 0 else f"failed ({code})", folder, flush=True)


def gemrl_job(folder: Path, env: str, algo: str, seed: int, steps: int, *settings: str) -> tuple[Path, list[str]]:
    """A run of `gemrl train`."""
    words = [sys.executable, "-m", "gemrl", "train", env, "--algo", algo, "--seed", str(seed), "--steps", str(steps)]
    return folder, [*words, "--run", str(folder), *(["--set", *settings] if settings else [])]
