"""Exact values compared with independent methods: enumeration of policies, a linear program, enumeration of paths."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import optimize

from gemrl.analysis.theory.mdps import (
    MDP,
    best,
    chain,
    greedy,
    grid,
    mu,
    near_deterministic,
    policy_value,
    q_max,
    q_star,
    random_deterministic,
    random_stochastic,
    worst_admitted,
)
from gemrl.core.exceptions import BadValue


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def live(mdp: MDP, number: int) -> np.ndarray:
    return np.flatnonzero(~mdp.terminal[number])


def all_policies(mdp: MDP, number: int) -> list[np.ndarray]:
    """V of every deterministic policy of one MDP, each by a plain linear solve over its live states."""
    states, values = live(mdp, number), []
    for actions in itertools.product(range(mdp.size[2]), repeat=len(states)):
        rows = mdp.transition[number, states, list(actions)]
        pay = (rows * mdp.reward[number, states, list(actions)]).sum(-1)
        value = np.zeros(mdp.size[1])
        value[states] = np.linalg.solve(np.eye(len(states)) - mdp.gamma * rows[:, states], pay)
        values.append(value)
    return values


def test_q_star_is_the_best_of_all_policies() -> None:
    mdp = random_stochastic(rng(), 4, states=4, actions=3)
    for number in range(4):
        np.testing.assert_allclose(best(q_star(mdp))[number], np.max(all_policies(mdp, number), axis=0), atol=1e-12)


def test_v_star_solves_its_linear_program() -> None:
    """The smallest V with V(s) >= E[r + gamma V(s')] for every pair."""
    mdp = random_stochastic(rng(1), 3, states=10, actions=4, gamma=0.95)
    for number in range(3):
        states = live(mdp, number)
        rows = mdp.transition[number, states].reshape(-1, mdp.size[1])
        pay = (rows * mdp.reward[number, states].reshape(rows.shape)).sum(-1)
        own = np.repeat(np.eye(len(states)), mdp.size[2], axis=0)
        solved = optimize.linprog(np.ones(len(states)), mdp.gamma * rows[:, states] - own, -pay, bounds=(None, None))
        np.testing.assert_allclose(best(q_star(mdp))[number, states], solved.x, atol=1e-7)


def test_policy_value_by_hand() -> None:
    """Two ways through a chain of 3, gamma 1/2: always left gives 0.01 / (1 - 1/2), right gives 1 at the second step."""
    mdp = chain(3, gamma=0.5)
    left, right = np.eye(2)[np.zeros((1, 3), int)], np.eye(2)[np.ones((1, 3), int)]
    np.testing.assert_allclose(policy_value(mdp, left), [[0.02, 0.02, 0.0]])
    np.testing.assert_allclose(policy_value(mdp, right), [[0.5, 1.0, 0.0]])
    np.testing.assert_allclose(q_star(mdp), [[[0.26, 0.5], [0.26, 1.0], [0.0, 0.0]]])


def test_greedy_on_q_star_is_worth_v_star() -> None:
    for mdp in (
        random_stochastic(rng(2), 20),
        random_deterministic(rng(3), 20),
        grid(),
        chain(),
        near_deterministic(rng(), np.ones(5)),
    ):
        np.testing.assert_allclose(policy_value(mdp, greedy(q_star(mdp))), best(q_star(mdp)), atol=1e-11)


def test_q_max_is_the_best_path() -> None:
    """All paths of 5 steps are enumerated; gamma^5 bounds the remainder."""
    mdp = random_stochastic(rng(4), 3, states=3, actions=2, branches=2, gamma=0.05)

    def walk(number: int, state: int, action: int, steps: int) -> float:
        found = []
        for following in np.flatnonzero(mdp.transition[number, state, action]):
            value = mdp.reward[number, state, action, following]
            if steps and not mdp.terminal[number, following]:
                value += mdp.gamma * max(walk(number, int(following), a, steps - 1) for a in range(2))
            found.append(value)
        return float(max(found))

    for number in range(3):
        expected = [[walk(number, state, action, 4) for action in range(2)] for state in live(mdp, number)]
        np.testing.assert_allclose(q_max(mdp)[number, live(mdp, number)], expected, atol=10 * 0.05**5)


def test_q_max_equals_q_star_in_deterministic_mdps() -> None:
    mdp = random_deterministic(rng(5), 10)
    np.testing.assert_allclose(q_max(mdp), q_star(mdp), atol=1e-12)
    assert (mu(random_stochastic(rng(5), 10)) > 0.1).all()


def test_near_deterministic_mdps_have_the_requested_mu() -> None:
    target = np.array([0.0, 0.01, 0.5, 20.0])
    np.testing.assert_allclose(mu(near_deterministic(rng(), target)), target, atol=1e-8)


def test_worst_admitted_policy_is_the_worst_greedy_one() -> None:
    """All policies are enumerated; a policy is admitted if it is greedy for some Q between Q* and Q_max."""
    mdp = near_deterministic(rng(6), np.full(4, 1.5), states=3, actions=2)
    star, top = q_star(mdp), q_max(mdp)
    strict = 0
    for number in range(4):
        states = live(mdp, number)
        policies = list(itertools.product(range(2), repeat=len(states)))
        admitted = [(top[number, states, p] >= star[number, states].max(-1) - 1e-12).all() for p in policies]
        values = np.array(all_policies(mdp, number))[admitted]
        np.testing.assert_allclose(worst_admitted(mdp)[number], values.min(0), atol=1e-12)
        strict += bool((values.min(0) < values.max(0) - 0.01).any())
    assert strict > 0  # otherwise this would compare V* with itself


def test_invalid_mdps_are_rejected() -> None:
    good = chain(3)
    with pytest.raises(BadValue, match="must be probability distributions"):
        MDP(good.transition / 2, good.reward, good.terminal, good.start, 0.9)
    with pytest.raises(BadValue, match="gamma"):
        MDP(good.transition, good.reward, good.terminal, good.start, 1.0)
    with pytest.raises(BadValue, match=r"\[M, S, A, S\]"):
        MDP(good.transition, good.reward[0], good.terminal, good.start, 0.9)
