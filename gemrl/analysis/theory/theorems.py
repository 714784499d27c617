"""The theorems of the paper as experiments: each function runs one experiment and returns its finding.

docs/theory.md states exactly what is claimed and checked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from gemrl.algorithms.planning import Planner, Single, Twin
from gemrl.algorithms.tabular import DOUBLE_Q, GEM, NSTEP_Q, Q_LEARNING, StepSize, Tabular
from gemrl.analysis.theory.evidence import Finding, Mean, expected_maximum, share
from gemrl.analysis.theory.mdps import (
    MDP,
    best,
    chain,
    expected,
    greedy,
    near_deterministic,
    policy_value,
    q_max,
    q_star,
    random_deterministic,
    random_stochastic,
    solve,
    worst_admitted,
)
from gemrl.analysis.theory.simulator import learn, play

Array = np.ndarray
Advance = Callable[[], None]
DEEP = 1000
"""A rollout cap larger than the length of every episode here."""


@dataclass(frozen=True)
class Budget:
    """The amount of computation."""

    samples: int = 20_000
    mdps: int = 20
    seeds: int = 10
    episodes: int = 1000


QUICK, FULL = Budget(), Budget(samples=400_000, mdps=100, seeds=30, episodes=4000)
SMALL_STEPS, LARGE_STEPS = StepSize(scale=10), StepSize(scale=1000)
"""Both satisfy Robbins-Monro: small steps average out randomness, large steps suit deterministic MDPs."""


def equal_values_bias(planner: Planner, length: int, sigma: float, rho: float, samples: int, rng: np.random.Generator) -> Mean:
    """The bias of a planned return if the true value of all rollouts is 0; the noise of the two estimates has correlation rho."""
    total = []
    for chunk in np.array_split(np.empty(samples), max(1, samples * length // 100_000)):
        own, free = rng.normal(size=(2, len(chunk), length))
        q_next = sigma * np.stack([own, rho * own + np.sqrt(1 - rho**2) * free])
        last = np.broadcast_to(np.arange(length) == length - 1, own.shape)
        total.append(planner(np.zeros(own.shape), np.ones(own.shape), last, q_next)[..., 0].mean(0))
    return Mean.of(np.concatenate(total))


class Trajectories:
    """Terminated episodes of the uniformly random policy in stochastic MDPs, with the exact Q^pi along them."""

    def __init__(self, mdps: int, samples: int, rng: np.random.Generator) -> None:
        few = random_stochastic(rng, mdps, states=6, actions=2)
        uniform = np.full(few.size, 1 / few.size[2])
        q_pi = expected(few, policy_value(few, uniform))
        mdp = few.repeat(samples // mdps)
        steps = play(mdp, np.zeros(mdp.size), Tabular(epsilon=1.0, time_limit=41), rng)
        # An episode of one step leaves nothing to choose, and the smaller index set of the paper would be empty.
        kept = steps.terminated[:-1].any(0) & ~steps.terminated[0]
        self.reward = steps.reward[:-1, kept].T
        self.last = steps.terminated[:-1, kept].T
        self.discount = np.where(self.last, 0.0, mdp.gamma)
        lanes = np.arange(mdp.size[0]) // (samples // mdps)
        self.q_next = q_pi[lanes, steps.next_state[:-1], steps.action[1:]][:, kept].T

    def planned(self, planner: Planner, sigma: float, rng: np.random.Generator) -> Array:
        """Planned returns of the first step, with independent noise on both estimates."""
        q_next = self.q_next + sigma * rng.normal(size=(2, *self.q_next.shape))
        return planner(self.reward, self.discount, self.last, q_next)[..., 0].mean(0)

    def best(self, *, with_full_return: bool = True) -> Array:
        """max_h of the true Q^pi_{t,h}; the theorem in the paper's main text leaves out the full return."""
        reward = self.reward if with_full_return else np.where(self.last, -1e9, self.reward)
        return Single(DEEP)(reward, self.discount, self.last, self.q_next[None])[0, :, 0]


def theorem_1(budget: Budget, rng: np.random.Generator, advance: Advance) -> Finding:
    """The bias of Single and Twin as a function of noise, rollout length and correlation."""
    sigmas, lengths, rhos = (0.25, 0.5, 1.0, 1.5, 2.0), (1, 2, 3, 5, 10, 20, 50), (0.0, 0.25, 0.5, 0.75, 1.0)
    planners: dict[str, Planner] = {"Single": Single(DEEP), "Twin": Twin(DEEP)}
    taken = Trajectories(10, budget.samples, rng)
    truth = {"all": taken.best(), "body": taken.best(with_full_return=False)}
    noise: dict[str, list[Mean]] = {name: [] for name in (*planners, "body")}
    for sigma in sigmas:
        returns = {name: taken.planned(planner, sigma, rng) for name, planner in planners.items()}
        for name in planners:
            noise[name].append(Mean.of(returns[name] - truth["all"]))
        noise["body"].append(Mean.of(returns["Twin"] - truth["body"]))
        advance()
    bias = partial(equal_values_bias, samples=budget.samples, rng=rng)
    length, rho = {}, {}
    for name, planner in planners.items():
        length[name] = [bias(planner, n, 1.0, 0.0) for n in lengths]
        rho[name] = [bias(planner, 5, 1.0, r) for r in rhos]
        advance()
    independent = [*noise["Twin"], *length["Twin"], rho["Twin"][0]]
    count = len(independent)
    worst = max(independent, key=lambda mean: mean.interval(count)[0])
    holds = worst.interval(count)[0] <= 0
    text = f"with independent estimates Twin's bias is {'not ' if holds else ''}significantly above 0 in {count} settings, "
    text += f"closest: {worst.text(count)}; "
    text += f"5 rollouts, unit noise: Single {rho['Single'][0].text()} (theory {expected_maximum(5):+.3f}), "
    text += f"Twin {rho['Twin'][0].text()}, Twin with two equal estimates {rho['Twin'][-1].text()}; "
    text += f"with the smaller index set of the main text, noise {sigmas[0]}: {noise['body'][0].text()}"
    data = {"sigmas": sigmas, "lengths": lengths, "rhos": rhos, "noise": noise, "length": length, "rho": rho}
    return Finding("Theorem 1", "holds" if holds else "fails", text, data)


def errors(mdp: MDP, q: Array, star: Array) -> Array:
    """The largest |Q - Q*| over tables and pairs, relative to the largest |Q*|, for each MDP [M]."""
    error = np.where(mdp.terminal[..., None], 0.0, abs(q - star))
    relative: Array = error.max((0, 2, 3)) / abs(star).max((1, 2))
    return relative


def theorem_2(budget: Budget, rng: np.random.Generator, advance: Advance) -> Finding:
    """Tabular GEM and other tabular methods in deterministic MDPs: relative error by environment steps."""
    tolerance = 1e-3
    problems = {"random MDPs": random_deterministic(rng, budget.mdps), "chain of 10 states": chain(10).repeat(budget.mdps)}
    methods = {"GEM": GEM, "Q-learning": Q_LEARNING, "double Q": DOUBLE_Q, "5-step Q": NSTEP_Q}
    marks = np.unique(np.geomspace(5, budget.episodes, 30).astype(int)).tolist()
    curves: dict[str, dict[str, tuple[Array, Array]]] = {}
    for problem, mdp in problems.items():
        star, curves[problem] = q_star(mdp), {}
        for name, method in methods.items():
            algorithm = replace(method, step_size=LARGE_STEPS, epsilon=0.5, time_limit=40)
            measured = [(steps.mean(), errors(mdp, q, star)) for q, steps in learn(mdp, algorithm, marks, rng)]
            curves[problem][name] = np.array([steps for steps, _ in measured]), np.stack([error for _, error in measured])
            advance()
    final = np.concatenate([curves[problem]["GEM"][1][-1] for problem in problems])
    within = int((final < tolerance).sum())
    text = f"relative error below {tolerance:g} in {share(within, len(final))} runs, worst {final.max():.1g}; "
    text += "median steps until then, " + "; ".join(
        f"{problem}: " + ", ".join(f"{name} {steps_to(*curve, tolerance)}" for name, curve in curves[problem].items())
        for problem in problems
    )
    data = {"curves": curves, "tolerance": tolerance}
    return Finding("Theorem 2", "holds" if within == len(final) else "fails", text, data)


def steps_to(steps: Array, error: Array, tolerance: float) -> str:
    """The number of environment steps after which the median error stays below a tolerance."""
    above = np.flatnonzero(np.median(error, axis=1) >= tolerance)
    reached = above[-1] + 1 if above.size else 0
    return f"{steps[reached]:,.0f}" if reached < len(steps) else "not reached"


def lemma(budget: Budget, rng: np.random.Generator, advance: Advance) -> Finding:
    """Where the tables end between Q* and Q_max in stochastic MDPs: the mean over seeds for each pair."""
    mdp = random_stochastic(rng, budget.mdps, states=6, actions=2)
    star, top, live = q_star(mdp), q_max(mdp), ~mdp.terminal
    algorithm = replace(GEM, step_size=SMALL_STEPS, epsilon=0.6)
    repeats = 2 * budget.seeds
    marks = np.unique(np.geomspace(10, budget.episodes, 15).astype(int)).tolist()
    steps, low, high = [], [], []
    for q, counts in learn(mdp.repeat(repeats), algorithm, marks, rng):
        seeds = q.mean(0).reshape(mdp.size[0], repeats, *mdp.size[1:]).swapaxes(0, 1)[:, live]  # [seeds, pairs, A]
        steps.append(counts.mean())
        low.append((seeds - star[live]).reshape(repeats, -1))
        high.append((top[live] - seeds).reshape(repeats, -1))
        advance()
    below, above = ([Mean.of(pair) for pair in side[-1].T] for side in (low, high))
    count = len(below) + len(above)
    least = [min(side, key=lambda mean: mean.value) for side in (below, above)]
    violations = sum(mean.interval(count)[1] < 0 for mean in below + above)
    gap = (top - star)[live].reshape(-1)
    position = np.array([mean.value for mean in below])[gap > 0] / gap[gap > 0]
    text = f"{violations} of {len(below)} pairs significantly violate a bound ({budget.mdps} stochastic MDPs, {repeats} seeds, "
    text += f"{steps[-1]:,.0f} steps each); "
    text += f"smallest Q - Q*: {least[0].text(count)}, smallest Q_max - Q: {least[1].text(count)}; "
    text += f"the median pair lies {100 * np.median(position) if position.size else 0:.0f}% of the way from Q* to Q_max"
    undershoot = [max(0.0, -float(side.mean(0).min())) for side in low]
    overshoot = [max(0.0, -float(side.mean(0).min())) for side in high]
    data = {"steps": steps, "position": position, "undershoot": undershoot, "overshoot": overshoot}
    return Finding("Lemma", "fails" if violations else "holds", text, data)


def theorem_4(budget: Budget, rng: np.random.Generator, advance: Advance) -> Finding:
    """The loss of the greedy policy in nearly deterministic MDPs as mu grows, compared with the bound."""
    mus = np.geomspace(0.03, 30, 10)
    target = np.repeat(mus, budget.mdps)
    mdp = near_deterministic(rng, target)
    advance()
    value, bound = best(q_star(mdp)), 2 * target / (1 - mdp.gamma)
    ((q, _),) = learn(mdp, replace(GEM, step_size=SMALL_STEPS, epsilon=0.6), [budget.episodes], rng)
    advance()
    policies = {
        "GEM": policy_value(mdp, greedy(q.mean(0))),
        "greedy on Q_max": policy_value(mdp, greedy(q_max(mdp))),
        "worst policy allowed by Q* <= Q <= Q_max": worst_admitted(mdp),
    }
    loss = {name: (value - policy).max(1) for name, policy in policies.items()}
    worst = solve(mdp, choose=lambda q: q.min(-1)).min(-1)
    can_fail = (value - worst).max(1) > bound  # otherwise no policy could violate the bound
    within, count = int((loss["GEM"] <= bound)[can_fail].sum()), int(can_fail.sum())
    allowed = loss["worst policy allowed by Q* <= Q <= Q_max"]
    text = f"the loss is within the bound in {share(within, count)} MDPs in which some policy violates it "
    text += f"({len(bound)} MDPs in total, mu from {mus[0]:g} to {mus[-1]:g}); "
    text += f"it is at most {100 * (loss['GEM'] / bound).max():.1f}% of the bound, on average "
    text += f"{Mean.of(loss['GEM'][-budget.mdps :]).text()} at mu = {mus[-1]:g} (bound {bound[-1]:g}); "
    text += f"the worst policy that the Lemma allows reaches {100 * (allowed / bound).max():.0f}%"
    data = {"mus": mus, "bound": 2 * mus / (1 - mdp.gamma), "loss": {name: x.reshape(len(mus), -1) for name, x in loss.items()}}
    return Finding("Theorem 4", "holds" if within == count else "fails", text, data)
