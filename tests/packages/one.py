"""Trains in one environment and prints what came of it as JSON: `python -m tests.packages.one ID [OPTIONS]`.

It runs in the virtual environment of a group, which has no tools for tests.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import gymnasium as gym
import numpy as np

from gemrl.cli.main import main as gemrl_main
from gemrl.envs.making import make
from gemrl.experiments.run_folder import describe
from gemrl.experiments.run_logs import read_evaluations

STEPS, WARM_UP, EPISODES, LONGEST = 5000, 1000, 10, 1000


def random_return(env: gym.Env) -> float:
    """The mean return of random play."""
    env.action_space.seed(0)
    totals = []
    for seed in range(EPISODES):
        env.reset(seed=seed)
        total, steps, done = 0.0, 0, False
        while not done and steps < LONGEST:
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            total, steps, done = total + float(reward), steps + 1, terminated or truncated
        totals.append(total)
    return float(np.mean(totals))


def main() -> None:
    """Prints random play and the return after training."""
    env_id, *options = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        words = ["train", env_id, "--steps", str(STEPS), "--eval-every", str(STEPS), "--eval-episodes", str(EPISODES)]
        words += ["--threads", "1", "--run", str(run), *options, "--set", f"learning_starts={WARM_UP}"]
        if code := gemrl_main(words):
            sys.exit(code)
        trained, arguments = read_evaluations(run)["return_mean"][-1], describe(run)["env_args"]
    env = make(env_id, **arguments)
    spaces = f"{type(env.observation_space).__name__}, {type(env.action_space).__name__}"
    facts = {"code": 0, "random": random_return(env), "trained": trained, "spaces": spaces}
    print("RESULT " + json.dumps(facts, default=float))


if __name__ == "__main__":
    main()
