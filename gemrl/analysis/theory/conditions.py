"""The bias caused by violated conditions of the theorems: time limits, shared targets, the extra max of the released code."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gemrl.algorithms.planning import Single, Twin, TwinReleased
from gemrl.algorithms.tabular import GEM, StepSize, Tabular
from gemrl.analysis.theory.evidence import Finding, Mean, expected_maximum
from gemrl.analysis.theory.mdps import MDP, grid, near_deterministic, q_star
from gemrl.analysis.theory.simulator import learn
from gemrl.analysis.theory.theorems import DEEP, LARGE_STEPS, Advance, Budget, equal_values_bias

TREATMENTS = {
    "bootstrap": GEM,
    "as termination": replace(GEM, limit_is_death=True),
    "TwinReleased": replace(GEM, planner=TwinReleased(DEEP)),
}
"""Ways to handle an episode that was cut off by a time limit."""

SHARING = {
    "Twin": GEM,
    "Single": replace(GEM, planner=Single(DEEP)),
    "Twin, shared returns": replace(GEM, shared=True),
    "TwinReleased": replace(GEM, planner=TwinReleased(DEEP)),
}


def mean_bias(mdp: MDP, algorithm: Tabular, episodes: list[int], seeds: int, rng: np.random.Generator) -> Mean:
    """The mean of Q - Q* over all pairs and tables after the given episodes; its standard error is over `seeds` runs per MDP."""
    live = ~mdp.terminal[..., None] & np.ones(mdp.size[2], bool)
    star, runs = q_star(mdp), mdp.repeat(seeds)
    shape = (mdp.size[0], seeds, *mdp.size[1:])
    biases = [(q.mean(0).reshape(shape) - star[:, None]) for q, _ in learn(runs, algorithm, episodes, rng)]
    bias = (np.mean(biases, axis=0) * live[:, None]).sum((2, 3)) / live.sum((1, 2))[:, None]
    return Mean.of(bias.mean(0))  # the MDPs are fixed; only the runs are random


def conditions(budget: Budget, rng: np.random.Generator, advance: Advance) -> Finding:
    """The bias that each violated condition causes."""
    data: dict[str, Any] = {"limits": (5, 10, 20, 40), "lengths": (1, 2, 3, 5, 10, 20), "alphas": (0.25, 0.5, 1.0)}
    data["cut"] = {}
    for world, pay in (("each step costs 1", -1.0), ("each step pays 1", 1.0)):
        mdp, data["cut"][world] = grid(3, 3, pay, gamma=0.9), {}
        for name, algorithm in TREATMENTS.items():
            algorithm = replace(algorithm, epsilon=0.6, step_size=LARGE_STEPS)
            steps = 6 * budget.episodes  # the same number of steps for every limit
            runs = [(replace(algorithm, time_limit=limit), [steps // limit]) for limit in data["limits"]]
            data["cut"][world][name] = [mean_bias(mdp, *run, budget.seeds, rng) for run in runs]
            advance()
    planners: tuple[type[Single | Twin | TwinReleased], ...] = (Single, Twin, TwinReleased)
    bias = partial(equal_values_bias, sigma=1.0, rho=0.0, samples=budget.samples, rng=rng)
    # With a depth of n no rollout is truncated, so only the extra max of the released planner's two changes has an effect.
    data["extra"] = {kind.__name__: [bias(kind(n), n) for n in data["lengths"]] for kind in planners}
    advance()
    stochastic = near_deterministic(rng, np.full(10, 2.0), states=3, actions=2)
    measured_at = list(range(budget.episodes // 4, budget.episodes // 2, 20))
    data["shared"] = {}
    for name, algorithm in SHARING.items():
        sizes = [StepSize(first=alpha, power=0) for alpha in data["alphas"]]
        algorithms = [replace(algorithm, step_size=size, epsilon=1.0) for size in sizes]
        data["shared"][name] = [mean_bias(stochastic, one, measured_at, 3 * budget.seeds, rng) for one in algorithms]
        advance()
    return _finding(data)


def _finding(data: dict[str, Any]) -> Finding:
    """The verdict: whether every violation makes the bias significantly worse than the control."""
    (costs, pays), extra, shared = data["cut"].values(), data["extra"], data["shared"]
    worse = [  # violation minus control; where steps pay, treating a time limit as termination underestimates
        costs["as termination"][0].minus(costs["bootstrap"][0]),
        pays["bootstrap"][0].minus(pays["as termination"][0]),
        costs["TwinReleased"][0].minus(costs["bootstrap"][0]),
        extra["TwinReleased"][3].minus(extra["Twin"][3]),
        *(means[-1].minus(shared["Twin"][-1]) for name, means in shared.items() if name != "Twin"),
    ]
    shown = all(mean.interval(len(worse))[0] > 0 for mean in worse)
    text = f"episodes cut off after 5 steps, each step costs 1: bias {costs['bootstrap'][0].text()} with a bootstrap, "
    text += f"{costs['as termination'][0].text()} if treated as termination, {costs['TwinReleased'][0].text()} as released; "
    text += f"each step pays 1: {pays['as termination'][0].text()} if treated as termination; "
    text += f"the extra max over 5 rollouts: {extra['TwinReleased'][3].text()} (theory {expected_maximum(2):+.3f}); "
    text += "tables with step size 1 under random bonuses: "
    text += ", ".join(f"{name} {means[-1].text()}" for name, means in shared.items())
    return Finding("Conditions", "each is needed" if shown else "not all are shown to be needed", text, data)
