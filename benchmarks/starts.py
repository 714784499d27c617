"""How long a run takes from its start to the end of its first round: compiled before, and with other numbers in its recipe.

Runs are processes, as users start them, with a cache of compiled programs of their own. The first one, which compiles, is not
counted. The second recipe's numbers all differ from the first one's in every repetition, so none of its programs could be there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.timing import alternate

WARM_UP = 1_000
"""Steps before the first round, which takes 100 more."""


def others(repeat: int) -> dict[str, float]:
    """Numbers of GEM's recipe that differ from its own and in each repetition."""
    little = 0.001 * repeat
    return {
        "learning_rate": 1e-3 + little / 10,
        "gamma": 0.95 + little,
        "tau": 0.5 + little,
        "alpha": 0.5 + little,
        "target_policy_noise": 0.1 + little,
        "exploration_noise": 0.2 + little,
    }


def until_first_round(folder: Path, name: str, fields: dict[str, float]) -> float:
    """Seconds from the start of a process that trains GEM until its first round has ended."""
    command = [sys.executable, "-u", "-m", "gemrl", "train", "HalfCheetah-v5", "--steps", str(WARM_UP + 100), "--threads", "1"]
    command += ["--eval-every", "1000000", "--eval-episodes", "1", "--run", str(folder / name)]
    command += ["--set", f"learning_starts={WARM_UP}", *(f"{key}={value}" for key, value in fields.items())]
    cache = {"JAX_COMPILATION_CACHE_DIR": str(folder / "cache")}
    start = time.perf_counter()
    with subprocess.Popen(command, env=os.environ | cache, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        ended = [time.perf_counter() for line in process.stdout if line.startswith("first round")]
    if process.returncode or len(ended) != 1:
        raise RuntimeError(f"{' '.join(command)} ended with exit code {process.returncode}")
    return ended[0] - start


def programs(folder: Path) -> set[str]:
    """The compiled programs in the cache."""
    return {path.name for path in (folder / "cache").iterdir() if path.name.endswith("-cache")}


def measure(repeats: int) -> dict[str, Any]:
    """Seconds of the first recipe's later runs and of runs with other numbers, and how many programs the latter compiled."""
    with tempfile.TemporaryDirectory() as name:
        folder, count = Path(name), 0

        def started(fields: dict[str, float]) -> float:
            nonlocal count
            count += 1
            return until_first_round(folder, str(count), fields)

        first = started({})
        before = programs(folder)
        turns = {"same numbers": lambda: started({}), "other numbers": lambda: started(others(count))}
        samples = alternate(turns, repeats)
        return {"first": first, "compiled": len(programs(folder) - before), "seconds": samples}
