"""The averaged and the newest policy of one run of gem2, side by side: `python -m benchmarks.policies Hopper-v5 --seed 1`.

Every 1,000 steps both play three episodes. Writes evaluations.csv to FOLDER/averaged/ENV/SEED and FOLDER/newest/ENV/SEED.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import gemrl
from gemrl.agents.acting import act
from gemrl.algorithms.registry import GEM2
from gemrl.core.literals import split_setting
from gemrl.envs.making import NamedEnv
from gemrl.training.evaluation import Evaluator

EVERY, EPISODES = 1_000, 3
COLUMNS = ("step", "return_mean", "return_std", "length_mean", "estimation_error")


class Newest:
    """An agent that acts with its newest networks."""

    def __init__(self, agent: Any) -> None:
        self._agent = agent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._agent, name)

    def act(self, observation: np.ndarray) -> np.ndarray:
        """The greedy actions of the newest networks. [B, *O] -> [B, A]."""
        policy = self._agent._family.policy_of(self._agent.learner)
        return act(self._agent.recipe, policy._replace(steady=None), observation)


def main() -> None:
    """Trains one agent and evaluates both of its policies on the way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env", help="environment id")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    parser.add_argument("--steps", type=int, default=40_000, help="steps (default: 40,000)")
    parser.add_argument("--set", nargs="+", default=[], metavar="FIELD=VALUE", help="change fields of gem2")
    parser.add_argument("--out", type=Path, default=Path("policies"), help="folder of the CSV files (default: policies)")
    options = parser.parse_args()
    recipe = GEM2.but_from_text([split_setting(setting) for setting in options.set])
    model = gemrl.GEM2(gym.make(options.env), seed=options.seed, **vars(recipe))
    evaluator = Evaluator(NamedEnv(options.env), episodes=EPISODES, seed=options.seed + 100)
    files = []
    for name in ("averaged", "newest"):
        folder = options.out / name / options.env / str(options.seed)
        folder.mkdir(parents=True, exist_ok=True)
        files.append((folder / "evaluations.csv").open("w", newline=""))
    writers = [csv.DictWriter(file, COLUMNS) for file in files]
    for writer in writers:
        writer.writeheader()
    for event in model.training(options.steps):
        if event.taken is None or event.step % EVERY or event.step < recipe.learning_starts:
            continue
        for file, writer, agent in zip(files, writers, (model.agent, Newest(model.agent)), strict=True):
            found = evaluator(agent)
            writer.writerow({"step": event.step} | {name: getattr(found, name) for name in COLUMNS[1:]})
            file.flush()
        print(f"step {event.step:7,}", flush=True)


if __name__ == "__main__":
    main()
