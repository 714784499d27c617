"""Whether a planner believes in luck: the best of many returns in a random world is partly chance, which Stopping ignores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gemrl.algorithms.planning import NStep, Stopping, Twin
from gemrl.algorithms.tabular import GEM
from gemrl.analysis.theory.conditions import mean_bias
from gemrl.analysis.theory.evidence import Finding
from gemrl.analysis.theory.mdps import q_star, random_deterministic, random_stochastic
from gemrl.analysis.theory.simulator import learn
from gemrl.analysis.theory.theorems import DEEP, LARGE_STEPS, SMALL_STEPS, Advance, Budget, errors, steps_to

PLANNERS = {"Twin": Twin(DEEP), "Stopping": Stopping(DEEP), "one step": NStep(1)}
"""All with two tables, so that they differ in the planner only."""


def luck(budget: Budget, rng: np.random.Generator, advance: Advance) -> Finding:
    """The bias of each planner in stochastic MDPs, and its speed in deterministic ones."""
    data: dict[str, Any] = {"epsilons": (0.1, 0.3, 0.6, 1.0), "tolerance": 1e-3, "bias": {}, "curves": {}}
    stochastic = random_stochastic(rng, budget.mdps // 2, states=6, actions=2)
    measured_at = [budget.episodes * 4 // 5, budget.episodes]
    for name, planner in PLANNERS.items():
        algorithm = replace(GEM, planner=planner, step_size=SMALL_STEPS)
        runs = [replace(algorithm, epsilon=epsilon) for epsilon in data["epsilons"]]
        data["bias"][name] = [mean_bias(stochastic, run, measured_at, budget.seeds, rng) for run in runs]
        advance()
    mdp = random_deterministic(rng, budget.mdps)
    star, marks = q_star(mdp), np.unique(np.geomspace(5, budget.episodes, 30).astype(int)).tolist()
    for name, planner in PLANNERS.items():
        algorithm = replace(GEM, planner=planner, step_size=LARGE_STEPS, epsilon=0.5, time_limit=40)
        measured = [(steps.mean(), errors(mdp, q, star)) for q, steps in learn(mdp, algorithm, marks, rng)]
        data["curves"][name] = np.array([steps for steps, _ in measured]), np.stack([error for _, error in measured])
        advance()
    return _finding(data)


def _finding(data: dict[str, Any]) -> Finding:
    """The verdict: unlike Twin, Stopping overestimates no more than one-step returns; in deterministic MDPs it converges."""
    bias, curves = data["bias"], data["curves"]
    count = 2 * len(data["epsilons"])
    excess = {name: [one.minus(control) for one, control in zip(bias[name], bias["one step"], strict=True)] for name in bias}
    ignores = all(mean.interval(count)[0] <= 0 for mean in excess["Stopping"])
    shown = all(mean.interval(count)[0] > 0 for mean in excess["Twin"])
    converges = float(curves["Stopping"][1][-1].max()) < data["tolerance"]
    text = "mean of Q - Q* in stochastic MDPs, epsilon 0.1 and 0.6: "
    text += ", ".join(f"{name} {means[0].text()} and {means[2].text()}" for name, means in bias.items())
    text += f"; median steps to a relative error of {data['tolerance']:g} in deterministic MDPs: "
    text += ", ".join(f"{name} {steps_to(steps, error, data['tolerance'])}" for name, (steps, error) in curves.items())
    return Finding("Luck", "holds" if ignores and shown and converges else "fails", text, data)
