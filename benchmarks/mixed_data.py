"""A dataset of mixed quality for offline training: episodes of random actions and of `gem` at several stages of its training.

Run with `python -m benchmarks.mixed_data Hopper-v5 --steps 30000 60000 --out mixed.npz`. Policies act with their exploration
noise, as in training. `gem` is trained in a run folder: a command that was interrupted continues where it was.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from gemrl.cli.main import main as gemrl_main
from gemrl.core.seeding import derived_seed
from gemrl.experiments.loading import load
from gemrl.experiments.run_folder import holds_run
from gemrl.training.model import Model

Episode = dict[str, np.ndarray]


def play(model: Model, env: gym.Env, step: int, seed: int) -> Episode:
    """An episode with the actions of a training at this step: random ones at step 0, later the policy's with noise."""
    observation, _ = env.reset(seed=seed)
    columns: dict[str, list[Any]] = {name: [] for name in ("actions", "rewards", "terminated", "truncated")}
    observations, over = [observation], False
    while not over:
        batch, _ = model.spaces.batch(observation)
        action = model.spaces.env_action(model.agent.explore(batch, step))[0]
        observation, reward, terminated, truncated, _ = env.step(action)
        observations.append(observation)
        for column, value in zip(columns.values(), (action, reward, terminated, truncated), strict=True):
            column.append(value)
        over = terminated or truncated
    return {"observations": np.array(observations), **{name: np.array(column) for name, column in columns.items()}}


def trained(env: str, run: Path, steps: int, options: list[str]) -> Model:
    """The model of a run of `gem` that has taken this many steps; it is started, or continued."""
    start = ["resume", str(run)] if holds_run(run) else ["train", env, "--algo", "gem", "--run", str(run)]
    if code := gemrl_main([*start, "--steps", str(steps), *([] if holds_run(run) else options)]):
        raise SystemExit(code)
    return load(run)


def collected(options: argparse.Namespace) -> Iterator[tuple[str, list[Episode]]]:
    """The episodes of each kind, by its name."""
    env = gym.make(options.env)
    for steps in (0, *options.steps):
        kept = options.run / f"episodes-{steps}.npz"
        if not kept.exists():
            model = trained(options.env, options.run, steps or min(options.steps), options.others)
            seeds = [derived_seed(options.seed, f"episodes after {steps} steps", number) for number in range(options.episodes)]
            played = enumerate(play(model, env, steps, seed) for seed in seeds)
            parts: dict[str, Any] = {f"{number}/{name}": x for number, one in played for name, x in one.items()}
            np.savez_compressed(kept, **parts)
        yield (f"gem after {steps:,} steps" if steps else "random"), _read(kept)


def _read(file: Path) -> list[Episode]:
    """Episodes that were kept."""
    with np.load(file) as archive:
        count = len({name.partition("/")[0] for name in archive.files})
        names = ("observations", "actions", "rewards", "terminated", "truncated")
        return [{name: archive[f"{number}/{name}"] for name in names} for number in range(count)]


def main() -> None:
    """Trains, collects, writes the data, and what is in it as a table beside it."""
    parser = argparse.ArgumentParser(description=__doc__, epilog="Other options are those of gemrl train, such as --threads 1.")
    parser.add_argument("env", help="environment id")
    parser.add_argument("--steps", type=int, nargs="+", required=True, help="steps of gem after which episodes are recorded")
    parser.add_argument("--episodes", type=int, default=50, help="episodes of each kind (default: 50)")
    parser.add_argument("--seed", type=int, default=0, help="seed of gem and of the episodes (default: 0)")
    parser.add_argument("--run", type=Path, help="run folder of gem (default: runs/mixed-data/ENV/SEED)")
    parser.add_argument("--out", type=Path, default=Path("mixed.npz"), help="the file to write (default: mixed.npz)")
    options, others = parser.parse_known_args()
    options.run = options.run or Path("runs", "mixed-data", options.env.replace("/", "-"), str(options.seed))
    options.others = ["--seed", str(options.seed), *others]
    kinds = dict(collected(options))
    everything = [episode for episodes in kinds.values() for episode in episodes]
    arrays: dict[str, Any] = {name: np.concatenate([one[name] for one in everything]) for name in everything[0]}
    np.savez_compressed(options.out, **arrays)
    with options.out.with_suffix(".csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("episodes of", "episodes", "rows", "return_mean", "return_max"))
        for name, episodes in (*kinds.items(), ("all", everything)):
            table.writerow(row := summary(name, episodes))
            print("{:24} {:4} episodes {:8,} rows   return {:10,.1f}, best {:10,.1f}".format(*row))


def summary(name: str, episodes: list[Episode]) -> tuple[str, int, int, float, float]:
    """A name, and the number of episodes, their rows, their mean return and the best one."""
    returns = [float(episode["rewards"].sum()) for episode in episodes]
    return name, len(returns), sum(len(episode["rewards"]) for episode in episodes), float(np.mean(returns)), max(returns)


if __name__ == "__main__":
    main()
