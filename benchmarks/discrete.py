"""Tables of the steps to solve CartPole-v1 and LunarLander-v3: `python -m benchmarks.discrete`.

The runs come from `gemrl study cartpole --results-only --out results/cartpole` and from
`gemrl train LunarLander-v3 --steps 150000 --threads 1 --seed S --run results/lunarlander/gem-discrete/LunarLander-v3/S`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gemrl.experiments.run_logs import read_evaluations

SOLVED = {"CartPole-v1": 475.0, "LunarLander-v3": 200.0}
"""The mean return of an evaluation at which a task counts as solved."""


def first_solved(folder: Path, bound: float) -> str:
    """The step of the first evaluation that reached the bound, and the share of evaluations from then on that did."""
    data = read_evaluations(folder)
    reached = data["return_mean"] >= bound
    if not reached.any():
        return f"not reached (best {data['return_mean'].max():,.0f})"
    first = int(reached.argmax())
    return f"{int(data['step'][first]):,} ({np.mean(reached[first:]):.0%})"


def table(study: Path, env: str) -> str:
    """A Markdown table with a row per algorithm and a column per seed; the last column has the final returns."""
    folders = sorted(study.glob(f"*/{env}/*/evaluations.csv"))
    algos = sorted({file.parts[-4] for file in folders}, key=lambda name: (not name.startswith("gem"), name))
    seeds = sorted({file.parts[-2] for file in folders}, key=int)
    lines = [f"| {env} | " + " | ".join(f"seed {seed}" for seed in seeds) + " | final returns |", "|---" * (len(seeds) + 2) + "|"]
    for algo in algos:
        runs = [study / algo / env / seed for seed in seeds]
        cells = [first_solved(run, SOLVED[env]) if run.exists() else "not run" for run in runs]
        finals = [f"{read_evaluations(run)['return_mean'][-1]:,.0f}" for run in runs if run.exists()]
        lines.append(f"| {algo} | {' | '.join(cells)} | {', '.join(finals)} |")
    return "\n".join(lines)


def main() -> None:
    """Prints both tables."""
    for study, env in (("results/cartpole", "CartPole-v1"), ("results/lunarlander", "LunarLander-v3")):
        print(table(Path(study), env), end="\n\n")


if __name__ == "__main__":
    main()
