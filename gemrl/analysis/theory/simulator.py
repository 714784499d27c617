"""Tabular algorithms on many small MDPs at once, in numpy.

In each MDP an episode is played and its returns are planned (gemrl/algorithms/planning.py) with the tables at its end. Then its
state-action pairs are updated in time order: one table, drawn uniformly at random, moves toward the return.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from gemrl.algorithms.tabular import Tabular, move
from gemrl.analysis.theory.mdps import MDP, Array


class Episodes(NamedTuple):
    """One episode of each MDP in time order, padded after its end. All arrays are [T, M]."""

    state: Array
    action: Array
    reward: Array
    next_state: Array
    terminated: Array
    played: Array
    """Whether the step was taken; false after the end of an episode."""


def play(mdp: MDP, q: Array, algorithm: Tabular, rng: np.random.Generator) -> Episodes:
    """An episode in each MDP, epsilon-greedy on tables q [M, S, A]."""
    count, states, actions = mdp.size
    lane = np.arange(count)
    shape = (algorithm.time_limit, count)
    explore, random_action = rng.random(shape) < algorithm.epsilon, rng.integers(0, actions, shape)
    chance, draw = rng.random(shape), rng.random((count, 1))
    state = np.minimum((draw >= mdp.start.cumsum(-1)).sum(-1), states - 1)
    greedy, playing, rows = q.argmax(-1), np.ones(count, bool), []
    for t in range(algorithm.time_limit):
        action = np.where(explore[t], random_action[t], greedy[lane, state])
        following = (chance[t][:, None] >= mdp.cumulative[lane, state, action]).sum(-1)
        reward, terminated = mdp.reward[lane, state, action, following], mdp.terminal[lane, following]
        rows.append((state, action, reward, following, terminated, playing))
        playing = playing & ~terminated
        state = following
    return Episodes(*(np.stack(column) for column in zip(*rows, strict=True)))


def plan(mdp: MDP, q: Array, episode: Episodes, algorithm: Tabular) -> Array:
    """The planned returns [K, T, M] of an episode for tables q [K, M, S, A]."""
    q_next = algorithm.bootstrap(q[:, np.arange(mdp.size[0]), episode.next_state])
    cut = np.arange(len(episode.state))[:, None] == len(episode.state) - 1
    ended = episode.terminated | (cut & algorithm.limit_is_death)
    reward, discount, last = episode.reward, np.where(ended, 0.0, mdp.gamma), episode.terminated | cut
    lanes, after = np.arange(mdp.size[0]), np.roll(episode.action, -1, axis=0)  # nothing follows the last step
    q_stored = q[:, lanes, episode.next_state, after]
    values = (x.transpose(0, 2, 1) for x in (q_next, q_stored))
    returns = algorithm.planner(reward.T, discount.T, last.T, *values).transpose(0, 2, 1)
    if algorithm.shared:
        returns = np.broadcast_to(returns.mean(0), returns.shape)
    return returns


class Tables:
    """The tables Q(1), ..., Q(K) of one algorithm in M MDPs, randomly initialised."""

    def __init__(self, mdp: MDP, algorithm: Tabular, rng: np.random.Generator) -> None:
        self._mdp, self._algorithm, self._rng = mdp, algorithm, rng
        self.q = rng.normal(size=(algorithm.tables, *mdp.size))
        """[K, M, S, A]."""
        self._updates = np.zeros(self.q.shape)
        self.steps = np.zeros(mdp.size[0], int)
        """Environment steps in each MDP [M]."""

    def learn_episode(self) -> None:
        """Runs Algorithm 3 for one episode in each MDP."""
        algorithm, mdp = self._algorithm, self._mdp
        acting = self.q[self._rng.integers(algorithm.tables, size=mdp.size[0]), np.arange(mdp.size[0])]
        episode = play(mdp, acting, algorithm, self._rng)
        returns = plan(mdp, self.q, episode, algorithm)
        drawn = self._rng.integers(algorithm.tables, size=episode.state.shape)
        for table in range(algorithm.tables) if algorithm.shared else [drawn]:
            self._move(np.broadcast_to(table, drawn.shape), episode, returns)
        self.steps += episode.played.sum(0)

    def _move(self, table: Array, episode: Episodes, returns: Array) -> None:
        """Moves the chosen table [T, M] of each step toward its return; step by step, because pairs may repeat."""
        count, states, actions = self._mdp.size
        pair = ((table * count + np.arange(count)) * states + episode.state) * actions + episode.action
        target = np.take_along_axis(returns, table[None], 0)[0]
        played = range(len(pair)), episode.played
        pairs, targets = ([column[t][now] for t, now in zip(*played, strict=True)] for column in (pair, target))
        move(self.q.reshape(-1), self._updates.reshape(-1), pairs, targets, self._algorithm.step_size)


def learn(mdp: MDP, algorithm: Tabular, episodes: Iterable[int], rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
    """Yields the tables [K, M, S, A] and environment steps [M] after these numbers of episodes, which must ascend."""
    tables, done = Tables(mdp, algorithm, rng), 0
    for goal in episodes:
        for _ in range(goal - done):
            tables.learn_episode()
        done = goal
        yield tables.q.copy(), tables.steps.copy()
