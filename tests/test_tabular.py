"""Tabular GEM against solved MDPs, and its vectorised parts against Algorithm 3 written as plain loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gemrl.algorithms.planning import NStep, Single, Twin, TwinReleased
from gemrl.algorithms.tabular import DOUBLE_Q, GEM, NSTEP_Q, Q_LEARNING, Crossed, Own, StepSize, Tabular
from gemrl.analysis.theory.mdps import chain, q_max, q_star, random_deterministic, random_stochastic
from gemrl.analysis.theory.simulator import Episodes, Tables, learn, plan, play
from tests.test_planning import brute


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def largest_error(algorithm: Tabular, episodes: int) -> np.ndarray:
    """max |Q - Q*| over tables and pairs in each of 20 random deterministic MDPs."""
    mdp = random_deterministic(rng(20), 20)
    ((q, _),) = learn(mdp, algorithm, [episodes], rng(21))
    error: np.ndarray = np.where(mdp.terminal[..., None], 0.0, abs(q - q_star(mdp))).max((0, 2, 3))
    return error


@pytest.mark.parametrize("algorithm", [GEM, replace(GEM, planner=Twin(3)), Q_LEARNING, DOUBLE_Q])
def test_convergence_to_q_star_in_deterministic_mdps(algorithm: Tabular) -> None:
    """Theorem 2, in finite time. Each pair is updated at least 100 times with step sizes near 1, and each update reduces its
    error to gamma = 0.8 of the largest: 0.8^100 = 2e-10 of an initial error below 10. More than 1e-6 would be a bias."""
    algorithm = replace(algorithm, step_size=StepSize(scale=1000), epsilon=0.6)
    assert largest_error(algorithm, 1500).max() < 1e-6


def test_n_step_q_learning_does_not_converge() -> None:
    """Its returns include random actions; this shows that the convergence test can fail."""
    assert np.median(largest_error(replace(NSTEP_Q, step_size=StepSize(scale=1000), epsilon=0.6), 1500)) > 0.1


def test_bounds_of_the_lemma_in_stochastic_mdps() -> None:
    """Q* <= Q <= Q_max in the limit. With step sizes 1 / (1 + n/10) and n > 300, a table still fluctuates by about
    sqrt(alpha / 2) = 0.13 of a return's deviation (about 1), and the mean of 20 tables by 0.13 / sqrt(20) = 0.03. The
    tolerance is three times that."""
    mdp, seeds = random_stochastic(rng(30), 20, states=5, actions=2), 10
    star, top, terminal = q_star(mdp), q_max(mdp), mdp.terminal[..., None]
    algorithm = replace(GEM, step_size=StepSize(scale=10), epsilon=0.7)
    ((q, _),) = learn(mdp.repeat(seeds), algorithm, [1000], rng(31))
    mean = q.mean(0).reshape(20, seeds, *mdp.size[1:]).mean(1)
    assert np.where(terminal, 0.0, star - mean).max() < 0.1
    assert np.where(terminal, 0.0, mean - top).max() < 0.1
    # Not at the trivial end of the interval: GEM overestimates random outcomes, Q-learning does not.
    assert np.median((mean - star)[~mdp.terminal]) > 0.3
    ((plain, _),) = learn(mdp.repeat(seeds), replace(Q_LEARNING, step_size=StepSize(scale=10), epsilon=0.7), [1000], rng(31))
    assert abs(np.median((plain.mean(0).reshape(20, seeds, *mdp.size[1:]).mean(1) - star)[~mdp.terminal])) < 0.05


def test_both_tables_converge_to_each_other() -> None:
    """|Q(1) - Q(2)| goes to 0 in stochastic MDPs too; the proofs of Theorem 2 and of the Lemma rely on it."""
    mdp = random_stochastic(rng(30), 20, states=5, actions=2)
    algorithm = replace(GEM, step_size=StepSize(scale=10), epsilon=0.7)
    distance = [
        abs(np.where(mdp.terminal[..., None], 0.0, q[0] - q[1])).mean() for q, _ in learn(mdp, algorithm, [20, 1500], rng(32))
    ]
    assert distance[1] < 0.15 * distance[0]


def test_episodes_follow_the_mdp() -> None:
    mdp = chain(5).repeat(200)
    right = np.broadcast_to(np.eye(2)[1], mdp.size)
    episode = play(mdp, right, Tabular(epsilon=0.0, time_limit=6), rng())
    assert (episode.action == 1).all()
    np.testing.assert_array_equal(episode.played.sum(0), 4 - episode.state[0])  # state 4 is terminal
    assert set(episode.state[0]) == {0, 1, 2, 3}
    np.testing.assert_array_equal((episode.reward * episode.played).sum(0), 1.0)
    np.testing.assert_array_equal(episode.state[1:][episode.played[1:]], episode.next_state[:-1][episode.played[1:]])


def test_transitions_are_sampled_with_their_probabilities() -> None:
    mdp = random_stochastic(rng(1), 1, states=4, actions=2).repeat(40_000)
    episode = play(mdp, np.zeros(mdp.size), Tabular(epsilon=1.0, time_limit=1), rng(2))
    for state in range(3):
        reached = episode.next_state[0][(episode.state[0] == state) & (episode.action[0] == 1)]
        share = np.bincount(reached, minlength=4) / len(reached)
        np.testing.assert_allclose(
            share, mdp.transition[0, state, 1], atol=4 * 0.5 / np.sqrt(len(reached))
        )  # four standard errors


def by_hand(tables: Tables, mdp_number: int, before: np.ndarray, episode: Episodes, drawn: np.ndarray) -> np.ndarray:
    """Algorithm 3's update of one MDP's tables [K, S, A] in plain loops; update counts start at 0."""
    q, mdp = before.copy(), tables._mdp
    length = int(episode.played[:, mdp_number].sum())
    steps = [column[:length, mdp_number] for column in episode]
    discount = np.where(steps[4], 0.0, mdp.gamma)
    last = np.arange(length) == length - 1
    q_next = before[:, steps[3]].max(-1)
    returns, _ = brute(Twin(1000), (steps[2], discount, last, q_next))
    updates = np.zeros(q.shape)
    for t in range(length):
        entry = (drawn[t, mdp_number], steps[0][t], steps[1][t])
        q[entry] += (1 + updates[entry] / 100) ** -1 * (returns[drawn[t, mdp_number], t] - q[entry])
        updates[entry] += 1
    return q


def test_one_episode_is_algorithm_3(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeated pairs, randomly chosen tables, and endings before and at the time limit: all as in the plain loops."""
    mdp = random_stochastic(rng(3), 12, states=4, actions=2)
    tables = Tables(mdp, GEM, rng(4))
    before, seen = tables.q.copy(), []

    class Recorder:
        """The generator of the tables, which also records every draw of tables."""

        def __init__(self, source: np.random.Generator) -> None:
            self._source = source

        def integers(self, *words: int, size: object = None) -> np.ndarray:
            seen.append(self._source.integers(*words, size=size))  # type: ignore[call-overload]
            return seen[-1]

        def __getattr__(self, name: str) -> object:
            return getattr(self._source, name)

    episode = play(mdp, before[0], GEM, rng(5))
    monkeypatch.setattr("gemrl.analysis.theory.simulator.play", lambda *_: episode)
    tables._rng = Recorder(rng(6))  # type: ignore[assignment]
    tables.learn_episode()
    drawn = seen[-1]
    assert drawn.shape == episode.state.shape
    for number in range(12):
        np.testing.assert_allclose(tables.q[:, number], by_hand(tables, number, before[:, number], episode, drawn), atol=1e-12)
    assert not episode.played.all()
    assert episode.played[-1].any()


def test_truncated_episodes_bootstrap_unless_treated_as_terminated() -> None:
    mdp = chain(30)
    episode = Episodes(*(np.array([[x]]) for x in (3, 1, 0.0, 4, False, True)))
    q = np.full((2, *mdp.size), 7.0)
    np.testing.assert_allclose(plan(mdp, q, episode, GEM), 0.95 * 7.0)
    np.testing.assert_allclose(plan(mdp, q, episode, replace(GEM, limit_is_death=True)), 0.0)


def test_bootstraps_and_step_sizes_on_literal_numbers() -> None:
    q = np.array([[[1.0, 3.0]], [[5.0, 2.0]]])
    np.testing.assert_array_equal(Own()(q), [[3.0], [5.0]])
    np.testing.assert_array_equal(Crossed()(q), [[2.0], [1.0]])
    np.testing.assert_allclose(StepSize(scale=10)(np.array([0, 10, 90])), [1.0, 0.5, 0.1])
    np.testing.assert_allclose(StepSize(first=0.2, power=0)(np.array([0, 1000])), 0.2)


def test_shared_returns_make_the_tables_equal() -> None:
    mdp = random_stochastic(rng(7), 3)
    *_, (q, _) = learn(mdp, replace(GEM, shared=True, epsilon=1.0), [300], rng(8))
    np.testing.assert_allclose(q[0][~mdp.terminal], q[1][~mdp.terminal], atol=1e-9)


@pytest.mark.parametrize("planner", [Twin(5), Single(5), TwinReleased(5), NStep(3)], ids=str)
def test_planner_affects_the_tables(planner: object) -> None:
    mdp = random_stochastic(rng(9), 2)
    ((q, _),) = learn(mdp, replace(GEM, planner=planner), [20], rng(10))  # type: ignore[arg-type]
    ((other, _),) = learn(mdp, replace(GEM, planner=Twin(2)), [20], rng(10))
    assert abs(q - other).max() > 1e-3
