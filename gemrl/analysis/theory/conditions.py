"""What happens where a condition of the theorems fails: cut episodes, shared targets, the released code's extra max."""

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
    "taken for death": replace(GEM, limit_is_death=True),
    "TwinReleased": replace(GEM, planner=TwinReleased(DEEP)),
}
"""What can be made of an episode that a time limit cut."""

SHARING = {
    "Twin": GEM,
    "Single": replace(GEM, planner=Single(DEEP)),
    "Twin, shared returns": replace(GEM, shared=True),
    "TwinReleased": replace(GEM, planner=TwinReleased(DEEP)),
}


def mean_bias(mdp: MDP, algorithm: Tabular, episodes: list[int], seeds: int, rng: np.random.Generator) -> Mean:
    """The mean of Q - Q* over all pairs, tables and the given moments; its error is that of the MDPs' runs, `seeds` each."""
    live = ~mdp.terminal[..., None] & np.ones(mdp.size[2], bool)
    star, runs = q_star(mdp), mdp.repeat(seeds)
    shape = (mdp.size[0], seeds, *mdp.size[1:])
    seen = [(q.mean(0).reshape(shape) - star[:, None]) for q, _ in learn(runs, algorithm, episodes, rng)]
    bias = (np.mean(seen, axis=0) * live[:, None]).sum((2, 3)) / live.sum((1, 2))[:, None]
    return Mean.of(bias.mean(0))  # MDPs are fixed here, chance is in the runs


def conditions(budget: Budget, rng: np.random.Generator, advance: Advance) -> Finding:
    """The bias that each broken condition brings."""
    data: dict[str, Any] = {"limits": (5, 10, 20, 40), "lengths": (1, 2, 3, 5, 10, 20), "alphas": (0.25, 0.5, 1.0)}
    data["cut"] = {}
    for world, pay in (("each step costs 1", -1.0), ("each step pays 1", 1.0)):
        mdp, data["cut"][world] = grid(3, 3, pay, gamma=0.9), {}
        for name, algorithm in TREATMENTS.items():
            algorithm = replace(algorithm, epsilon=0.6, step_size=LARGE_STEPS)
            steps = 6 * budget.episodes  # the same for every limit
            runs = [(replace(algorithm, time_limit=limit), [steps // limit]) for limit in data["limits"]]
            data["cut"][world][name] = [mean_bias(mdp, *run, budget.seeds, rng) for run in runs]
            advance()
    planners: tuple[type[Single | Twin | TwinReleased], ...] = (Single, Twin, TwinReleased)
    bias = partial(equal_values_bias, sigma=1.0, rho=0.0, samples=budget.samples, rng=rng)
    # With a depth of n no rollout is cut short, so of the released planner's two changes only the extra max is at work.
    data["extra"] = {kind.__name__: [bias(kind(n), n) for n in data["lengths"]] for kind in planners}
    advance()
    lucky = near_deterministic(rng, np.full(10, 2.0), states=3, actions=2)
    events = list(range(budget.episodes // 4, budget.episodes // 2, 20))
    data["shared"] = {}
    for name, algorithm in SHARING.items():
        sizes = [StepSize(first=alpha, power=0) for alpha in data["alphas"]]
        algorithms = [replace(algorithm, step_size=size, epsilon=1.0) for size in sizes]
        data["shared"][name] = [mean_bias(lucky, one, events, 3 * budget.seeds, rng) for one in algorithms]
        advance()
    return _judged(data)


def _judged(data: dict[str, Any]) -> Finding:
    (costs, pays), extra, shared = data["cut"].values(), data["extra"], data["shared"]
    worse = [  # each beside what keeps the condition; where steps pay, a death that was none is underestimated
        costs["taken for death"][0].minus(costs["bootstrap"][0]),
        pays["bootstrap"][0].minus(pays["taken for death"][0]),
        costs["TwinReleased"][0].minus(costs["bootstrap"][0]),
        extra["TwinReleased"][3].minus(extra["Twin"][3]),
        *(means[-1].minus(shared["Twin"][-1]) for name, means in shared.items() if name != "Twin"),
    ]
    shown = all(mean.interval(len(worse))[0] > 0 for mean in worse)
    told = f"episodes cut after 5 steps where each costs 1: bias {costs['bootstrap'][0].told()} with a bootstrap, "
    told += f"{costs['taken for death'][0].told()} taken for death, {costs['TwinReleased'][0].told()} as released; "
    told += f"where each pays 1: {pays['taken for death'][0].told()} taken for death; "
    told += f"the extra max over 5 rollouts: {extra['TwinReleased'][3].told()} (theory {expected_maximum(2):+.3f}); "
    told += "tables moved by whole steps under luck: " + ", ".join(f"{name} {means[-1].told()}" for name, means in shared.items())
    return Finding("Conditions", "each is needed" if shown else "not each is shown to be needed", told, data)
