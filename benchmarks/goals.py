"""Success with and without hindsight in a goal environment: `python -m benchmarks.goals panda_gym:PandaReach-v3`.

The environment's package must be installed beside gemrl. Prints a Markdown table, one row per agent, seed and number of copies.
"""

from __future__ import annotations

import argparse

import gymnasium as gym

from gemrl.training.model import Model
from gemrl.training.models import MODELS

EPISODES = 50


def success_rate(model: Model, env: gym.Env) -> float:
    """The fraction of episodes whose last step reports `is_success`."""
    reached = 0
    for seed in range(EPISODES):
        observation, _ = env.reset(seed=10_000 + seed)
        done = False
        while not done:
            observation, _, terminated, truncated, info = env.step(model.predict(observation, deterministic=True)[0])
            done = terminated or truncated
        reached += bool(info["is_success"])
    return reached / EPISODES


def main() -> None:
    """Trains every combination and prints its success rate on the way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env", help="an id, with the module that registers it")
    parser.add_argument("--algo", nargs="+", default=["gem", "td3"], help="agents (default: gem td3)")
    parser.add_argument("--copies", nargs="+", type=int, default=[8, 0], help="copies of each episode (default: 8 0)")
    parser.add_argument("--seeds", type=int, default=1, help="seeds (default: 1)")
    parser.add_argument("--steps", type=int, default=20_000, help="steps (default: 20,000)")
    parser.add_argument("--parts", type=int, default=4, help="how often success is measured (default: 4)")
    options = parser.parse_args()
    marks = [options.steps * part // options.parts for part in range(1, options.parts + 1)]
    print(f"| agent, seed | copies | {' | '.join(f'{mark:,}' for mark in marks)} |\n{'|---' * (len(marks) + 2)}|")
    evaluation = gym.make(options.env)
    for algo in options.algo:
        for copies in options.copies:
            for seed in range(options.seeds):
                model = MODELS[algo](options.env, seed=seed, hindsight=copies, learning_starts=1000)
                rates = []
                for _ in marks:
                    model.learn(options.steps // options.parts, reset_num_timesteps=False)
                    rates.append(success_rate(model, evaluation))
                print(f"| `{algo}`, {seed} | {copies} | {' | '.join(f'{rate:.2f}' for rate in rates)} |", flush=True)


if __name__ == "__main__":
    main()
