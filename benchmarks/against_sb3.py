"""TD3 and SAC of gemrl and of Stable-Baselines3 with equal hyperparameters and evaluation: `python -m benchmarks.against_sb3`."""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.queue import RESULTS, finished, gemrl_job, run_all
from gemrl.algorithms.registry import RECIPES
from gemrl.experiments.run_logs import EVALUATION_COLUMNS, read_evaluations

ENVS, ALGOS, STEPS, WARM_UP = ("Hopper-v5", "HalfCheetah-v5"), ("td3", "sac"), 30_000, 10_000


class Theirs:
    """A model of Stable-Baselines3 with the interface that our evaluation needs."""

    def __init__(self, model: Any) -> None:
        self._model, self.gamma = model, model.gamma
        self.recipe = RECIPES["td3"]  # evaluations read from it that actions are deterministic and rewards are not clipped

    def act(self, observation: np.ndarray) -> np.ndarray:
        return self._model.policy.scale_action(self._model.predict(observation, deterministic=True)[0])

    def values(self, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
        import torch

        with torch.no_grad():
            q = self._model.critic(torch.tensor(observation), torch.tensor(action))
        return torch.cat(q, dim=1).mean(dim=1).numpy()


def train_theirs(algo: str, env_id: str, seed: int, folder: Path) -> None:
    """Trains a model of Stable-Baselines3 and writes evaluations.csv in our format."""
    import torch
    from stable_baselines3 import SAC, TD3
    from stable_baselines3.common.noise import NormalActionNoise

    from gemrl.envs.making import make
    from gemrl.training.evaluation import Evaluator

    torch.set_num_threads(1)
    env = make(env_id)
    assert env.action_space.shape is not None
    size = env.action_space.shape[0]
    common: dict[str, Any] = {"learning_starts": WARM_UP, "train_freq": 1, "gradient_steps": 1, "seed": seed, "device": "cpu"}
    if algo == "td3":
        noise = NormalActionNoise(np.zeros(size), 0.1 * np.ones(size))
        arch = {"net_arch": [400, 300]}
        model: Any = TD3("MlpPolicy", env, learning_rate=1e-3, batch_size=100, action_noise=noise, policy_kwargs=arch, **common)
    else:
        model = SAC("MlpPolicy", env, learning_rate=3e-4, batch_size=256, **common)
    evaluator = Evaluator(lambda: make(env_id), seed=seed)
    with (folder / "evaluations.csv").open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(EVALUATION_COLUMNS)
        for step in range(10_000, STEPS + 1, 10_000):
            model.learn(10_000, reset_num_timesteps=step == 10_000)
            result = evaluator(Theirs(model))  # type: ignore[arg-type]
            rows.writerow([step, *(repr(getattr(result, name)) for name in EVALUATION_COLUMNS[1:])])
            file.flush()


def table(seeds: int) -> str:
    """The finished runs as a Markdown table: the mean and the final return of each seed."""
    lines = ["| task | algorithm | gemrl | Stable-Baselines3 | ratio |", "|---|---|---|---|---|"]
    for env in ENVS:
        for algo in ALGOS:
            cells, means = [], []
            for side in ("gemrl", "sb3"):
                folders = [RESULTS / "against-sb3" / side / algo / env / str(seed) for seed in range(seeds)]
                finals = [read_evaluations(folder)["return_mean"][-1] for folder in folders if finished(folder)]
                means.append(np.mean(finals) if finals else np.nan)
                each = ", ".join(f"{final:,.0f}" for final in finals)
                cells.append(f"{means[-1]:,.0f} ({each})" if finals else "not yet run")
            ratio = "" if np.isnan(means).any() else f"{means[0] / means[1]:.2f}"
            lines.append(f"| {env} | {algo} | {' | '.join(cells)} | {ratio} |")
    return "\n".join(lines)


def main() -> None:
    """Runs what is not finished yet, then prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--theirs", nargs=4, metavar=("ALGO", "ENV", "SEED", "FOLDER"), help="train one SB3 model")
    options = parser.parse_args()
    if options.theirs:
        algo, env, seed, folder = options.theirs
        train_theirs(algo, env, int(seed), Path(folder))
        return
    jobs = []
    for seed in range(options.seeds):
        for env in ENVS:
            for algo in ALGOS:
                ours, theirs = (RESULTS / "against-sb3" / side / algo / env / str(seed) for side in ("gemrl", "sb3"))
                jobs.append(gemrl_job(ours, env, algo, seed, STEPS, f"learning_starts={WARM_UP}"))
                command = [sys.executable, "-m", "benchmarks.against_sb3", "--theirs", algo, env, str(seed), str(theirs)]
                jobs.append((theirs, command))
    run_all(jobs, options.workers)
    print(table(options.seeds))


if __name__ == "__main__":
    main()
