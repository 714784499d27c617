"""Episodic control compared with one-step bootstrapping on a sparse grid, and on CartPole-v1.

Run with `python -m benchmarks.episodic_control`. All agents explore by the same rule. The measure is the true value of the greedy
policy in the start state, by a linear solve.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from rich.progress import track

from benchmarks.q_learning import STEP_SIZE, QLearning
from benchmarks.queue import RESULTS, finished, gemrl_job, run_all
from gemrl.agents.making import make_agent
from gemrl.agents.nearest import NearestAgent
from gemrl.agents.protocol import Agent
from gemrl.algorithms.recipes.discrete import DQN
from gemrl.algorithms.registry import NearestRecipe
from gemrl.analysis.figures.curves import LINES
from gemrl.analysis.figures.encoding import encoded
from gemrl.analysis.palette import DASHES, MARKERS
from gemrl.analysis.theory.evidence import Mean
from gemrl.analysis.theory.mdps import MDP, grid, policy_value, q_star
from gemrl.envs.vector import as_task
from gemrl.experiments.run_logs import read_evaluations
from gemrl.training.loop import train

SIDE, LIMIT, STEPS, EVERY = 12, 500, 6_000, 250
WORLDS = {"deterministic": 0.0, "slippery": 0.2}
"""The probability that a step goes in a random direction."""
AGENTS: dict[str, tuple[str, dict[str, int]]] = {
    "mfec": ("#0072B2", {}),
    "Q-learning": ("#D55E00", {}),
    "Q-learning as DQN: replays, copied targets": ("#CC79A7", {"replays": 64, "copy_every": 500}),
    "Q-learning with replays, no copies": ("#009E73", {"replays": 64}),
    "dqn, a network": ("#E69F00", {}),
}
"""Colours (Okabe and Ito) and fields of `QLearning`; 64 replayed rows per step and target copies as in `dqn`."""
NETWORK = DQN.but(learning_starts=250, exploration_steps=1000, exploration_final_eps=0.1, net_arch=(128, 128))
NETWORK = NETWORK.but(learning_rate=1e-3, train_freq=4, gradient_steps=4, target_update_interval=500)
"""A network does not know which actions were tried, so it starts with random ones; one gradient step per environment step."""
RECIPE = NearestRecipe(exploration_initial_eps=0.1, exploration_final_eps=0.1)


def sparse_grid(slip: float, side: int = SIDE) -> MDP:
    """A square grid from one corner to the opposite one, where the only reward is."""
    cells = grid(side, side, 0.0, RECIPE.gamma)
    transition = (1 - slip) * cells.transition + slip * cells.transition.mean(axis=2, keepdims=True)
    reward = np.broadcast_to(cells.terminal[:, None, None, :].astype(float), transition.shape)
    return replace(cells, transition=transition, reward=reward, start=np.eye(side**2)[:1])


class Walk(gym.Env):
    """An MDP with one start state as an environment."""

    def __init__(self, mdp: MDP) -> None:
        self._mdp = mdp
        _, states, actions = mdp.size
        self.observation_space, self.action_space = gym.spaces.Discrete(states), gym.spaces.Discrete(actions)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self._state = int(self._mdp.start[0].argmax())
        return self._state, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        mdp, before = self._mdp, self._state
        self._state = int((self.np_random.random() >= mdp.cumulative[0, before, action]).sum())
        return self._state, float(mdp.reward[0, before, action, self._state]), bool(mdp.terminal[0, self._state]), False, {}


def start_value(mdp: MDP, agent: Agent) -> float:
    """The true value of the greedy policy in the start state."""
    _, states, actions = mdp.size
    chosen = agent.act(np.arange(states, dtype=np.int32)[:, None])[:, 0]
    return float(policy_value(mdp, np.eye(actions)[chosen][None])[0, mdp.start[0].argmax()]) + 0.0


def run(world: str, name: str, seed: int) -> Iterator[tuple[int, float]]:
    """Trains one agent and yields steps and values."""
    mdp = sparse_grid(WORLDS[world])
    task = as_task(gym.wrappers.TimeLimit(Walk(mdp), LIMIT), seed)
    layout = task.spaces.layout
    recipe = RECIPE.for_environment("", layout)
    agent: Agent = NearestAgent(recipe, layout, seed=seed)
    if name == "dqn, a network":
        agent = make_agent(NETWORK, layout, lanes=1, seed=seed, device=None)
    elif name != "mfec":
        step_size = STEP_SIZE[WORLDS[world] > 0]
        agent = QLearning(recipe, layout.states, layout.choices, seed, step_size, **AGENTS[name][1])
    for event in train(agent, task, STEPS):
        if event.taken and event.step % EVERY == 0:
            yield event.step, start_value(mdp, agent)


def run_grids(file: Path, seeds: int) -> None:
    """Writes a row per world, agent, seed and step."""
    cases = [(world, name, seed) for world in WORLDS for name in AGENTS for seed in range(seeds)]
    with file.open("w", newline="") as out:
        lines = csv.writer(out, lineterminator="\n")
        lines.writerow(("world", "agent", "seed", "step", "value"))
        for case in track(cases, "grids"):
            lines.writerows((*case, step, f"{value:.6f}") for step, value in run(*case))


def read_grids(file: Path) -> dict[tuple[str, str], np.ndarray]:
    """Values [seeds, steps] by world and agent."""
    found: dict[tuple[str, str], dict[int, list[float]]] = {}
    with file.open(newline="") as lines:
        for row in csv.DictReader(lines):
            found.setdefault((row["world"], row["agent"]), {}).setdefault(int(row["seed"]), []).append(float(row["value"]))
    return {case: np.array(list(values.values())) for case, values in found.items()}


def draw(values: dict[tuple[str, str], np.ndarray], target: Path) -> None:
    """Draws a panel per world: means with 95% intervals."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9.5, 4.2), sharey=True, layout="constrained")
    for panel, (world, slip) in zip(panels, WORLDS.items(), strict=True):
        best = float(q_star(sparse_grid(slip))[0, 0].max())
        panel.axhline(best, color="#777777", linewidth=0.8, linestyle="--")
        panel.text(0, best, "optimal", ha="left", va="bottom", fontsize=8, color="#777777")
        for number, (name, (colour, _)) in enumerate(AGENTS.items()):
            means = [Mean.of(column) for column in values[world, name].T]
            low, high = np.array([mean.interval() for mean in means]).T
            step = EVERY * np.arange(1, len(means) + 1)
            panel.fill_between(step, low, high, color=colour, alpha=0.2, linewidth=0)
            # Some curves coincide, so dashes differ and markers alternate.
            look = {"linestyle": LINES[DASHES[number % len(DASHES)]], "marker": MARKERS[number], "markersize": 5}
            panel.plot(step, [mean.value for mean in means], color=colour, markevery=(number, len(AGENTS)), label=name, **look)
        random = f", {slip:.0%} random steps" if slip else ""
        panel.set_title(f"{world}{random}", fontsize=11)
        panel.set_xlabel("environment steps")
        panel.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("value of the greedy policy")
    panels[0].set_ylim(bottom=-0.02)  # values are never negative, even where an interval extends below 0
    figure.legend(
        *panels[0].get_legend_handles_labels(), fontsize=8, frameon=False, loc="outside lower center", ncols=3, handlelength=3
    )
    target.write_bytes(encoded(figure))


def grid_table(values: dict[tuple[str, str], np.ndarray]) -> str:
    """Values at some steps as a Markdown table, with 95% intervals."""
    steps = (500, 1_000, 2_000, 4_000, 6_000)
    lines = [f"| world | agent | {' | '.join(f'{step:,} steps' for step in steps)} |", "|---" * (len(steps) + 2) + "|"]
    for (world, name), runs in values.items():
        means = [Mean.of(runs[:, step // EVERY - 1]) for step in steps]
        cells = [f"{mean.value:.2f} [{mean.interval()[0]:.2f}, {mean.interval()[1]:.2f}]" for mean in means]
        lines.append(f"| {world} | {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cartpole_table(seeds: int) -> str:
    """The evaluations of the finished runs as a Markdown table."""
    runs = {seed: read_evaluations(cartpole(seed)) for seed in range(seeds) if finished(cartpole(seed))}
    lines = ["| seed | 10,000 steps | 20,000 steps |", "|---|---|---|"]
    lines += [f"| {seed} | {' | '.join(f'{value:,.0f}' for value in run['return_mean'])} |" for seed, run in runs.items()]
    return "\n".join(lines)


def cartpole(seed: int) -> Path:
    """The run folder of a seed on CartPole-v1."""
    return RESULTS / "mfec" / "CartPole-v1" / str(seed)


def main() -> None:
    """Runs what is not finished yet, draws the figure, and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="seeds on the grids, if results/mfec/grids.csv does not exist yet")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    run_all([gemrl_job(cartpole(seed), "CartPole-v1", "mfec", seed, 20_000) for seed in range(3)], options.workers)
    file = RESULTS / "mfec" / "grids.csv"
    if not file.exists():
        partial = file.with_suffix(".partial")
        run_grids(partial, options.seeds)
        partial.rename(file)
    values = read_grids(file)
    draw(values, Path("docs/images/mfec-grid.png"))
    print(f"{grid_table(values)}\n\n{cartpole_table(3)}")


if __name__ == "__main__":
    main()
