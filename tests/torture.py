"""Kills a training at random moments and goes on with it until it is done; damages its files in every way. `make torture`."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from gemrl.files import TEMPORARY

PROOFS = ("evaluations.csv", "model.json", "model.safetensors")
"""Files of a finished run that must be the same bytes; those of its last checkpoint too."""


def words_of(command: str, *words: str) -> list[str]:
    """The words that run gemrl in a process of its own."""
    return [sys.executable, "-m", "gemrl", command, *words]


def run_undisturbed(folder: Path, *words: str) -> float:
    """Trains in one go; seconds."""
    start = time.monotonic()
    subprocess.run(words_of("train", *words, "--run", str(folder)), check=True, capture_output=True, env=os.environ)
    return time.monotonic() - start


def run_killed(folder: Path, kills: int, seconds: float, rng: random.Random, *words: str) -> int:
    """Trains the same, killed `kills` times, every second time during the writing of a file; how many of these there were."""
    during_writes = 0
    for number in range(kills):
        begun = (folder / "run.json").exists()
        command = words_of("resume", str(folder)) if begun else words_of("train", *words, "--run", str(folder))
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ)
        if number % 2:
            during_writes += _wait_for_writes(folder, process, rng.randrange(1, 5))
        else:
            _wait(process, rng.uniform(0.1, 0.8) * seconds)
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run(words_of("resume", str(folder)), check=True, capture_output=True, env=os.environ)
    return during_writes


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def _wait_for_writes(folder: Path, process: subprocess.Popen[bytes], number: int) -> bool:
    """Waits until it writes for the n-th time; False if it ends before that."""
    before = True
    while process.poll() is None:
        now = _writing(folder)
        number -= now and not before
        if number == 0:
            return True
        before = now
        time.sleep(0.0005)
    return False


def _writing(folder: Path) -> bool:
    return any(any(place.glob(f"{TEMPORARY}*")) for place in (folder, folder / "checkpoints"))


def differences(one: Path, other: Path) -> list[str]:
    """The names of files in which two finished runs differ."""
    checkpoints = [max((folder / "checkpoints").iterdir()) for folder in (one, other)]
    differ = [name for name in PROOFS if (one / name).read_bytes() != (other / name).read_bytes()]
    names = ("model.safetensors", "model.memory.safetensors", "evaluations.csv")
    differ += [f"checkpoint {n}" for n in names if len({(folder / n).read_bytes() for folder in checkpoints}) > 1]
    leftovers = [str(file) for folder in (one, other) for file in folder.rglob(f"{TEMPORARY}*")]
    return differ + leftovers + (["step"] if checkpoints[0].name != checkpoints[1].name else [])
