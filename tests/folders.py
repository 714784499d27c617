"""Run folders with known evaluations, for tests of code that reads them."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gemrl.algorithms.registry import RECIPES
from gemrl.experiments.run_logs import EVALUATION_COLUMNS
from gemrl.experiments.versions import versions
from gemrl.training.metrics import PROGRESS_COLUMNS


def write_run(
    folder: Path, algo: str, env: str, seed: int, returns: Sequence[float], *, every: int = 1000, steps: int = 0, **fields: Any
) -> Path:
    """Writes a run folder whose k-th evaluation, at step k * every, has the k-th return and an estimation error of k."""
    folder.mkdir(parents=True, exist_ok=True)
    recipe = RECIPES[algo].but(**fields).as_dict()
    facts = {"algo": algo, "env": env, "seed": seed, "steps": steps or every * len(returns), "eval_every": every}
    facts |= {"eval_episodes": 10, "recipe": recipe, "versions": versions()}
    (folder / "run.json").write_text(json.dumps(facts))
    with (folder / "evaluations.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(EVALUATION_COLUMNS)
        writer.writerows([every * k, value, 1.0, 100.0, float(k)] for k, value in enumerate(returns, 1))
    with (folder / "progress.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, PROGRESS_COLUMNS, restval="", lineterminator="\n")
        table.writeheader()
        table.writerow({"time/total_timesteps": every * len(returns), "time/time_elapsed": 0.5 * every * len(returns)})
    return folder


def write_study(folder: Path) -> Path:
    """Writes 2 methods x 2 tasks x 3 seeds, ten evaluations each: gem reaches 1000 s, td3 500 s, with s = 1, 1.1, 1.2 by seed."""
    for algo, top in (("gem", 1000.0), ("td3", 500.0)):
        for env in ("HalfCheetah-v5", "Hopper-v5"):
            for seed in range(3):
                returns = [top * (1 + seed / 10) * k / 10 for k in range(1, 11)]
                write_run(folder / algo / env / str(seed), algo, env, seed, returns)
    return folder
