"""GEM on tables, the paper's Algorithm 3, and what it is compared with: pure numpy, many MDPs side by side.

An algorithm is a frozen `Tabular`; the others are the same with named fields changed. In each MDP an episode is played and
stored, its returns are planned (gemrl/planning.py), and then its pairs are gone through in time order: one table, drawn
evenly, moves toward its return. All returns of an episode are planned once, from the tables as they were at its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gemrl.errors import check_number
from gemrl.mdps import MDP
from gemrl.planning import NStep, Planner, Twin

Array = np.ndarray


@dataclass(frozen=True)
class StepSize:
    """alpha = first * (1 + n / scale)^-power at the n-th update of a pair: Robbins-Monro for 1/2 < power <= 1, constant for 0."""

    first: float = 1.0
    scale: float = 100.0
    power: float = 1.0

    def __post_init__(self) -> None:
        check_number("first", self.first, 0, 1)
        check_number("scale", self.scale, 1e-6)
        check_number("power", self.power, 0, 1)

    def __call__(self, n: Array) -> Array:
        """Step sizes for counts of earlier updates, of any shape."""
        return self.first * (1 + n / self.scale) ** -self.power


@dataclass(frozen=True)
class Own:
    """A table's value of the next state by its own judgement: max_a Q(i)(s', a)."""

    def __call__(self, q: Array) -> Array:
        """Values [K, ...] of tables [K, ..., A]."""
        return q.max(-1)


@dataclass(frozen=True)
class Crossed:
    """Double Q-learning's: the table chooses the action, the other one tells its value."""

    def __call__(self, q: Array) -> Array:
        """Values [K, ...] of tables [K, ..., A]."""
        return np.take_along_axis(q[::-1], q.argmax(-1)[..., None], -1)[..., 0]


@dataclass(frozen=True)
class Tabular:
    """A tabular algorithm; the defaults are GEM's."""

    planner: Planner = Twin(1000)
    tables: int = 2
    bootstrap: Own | Crossed = Own()
    step_size: StepSize = StepSize()
    epsilon: float = 0.3
    """How often an action is random."""
    time_limit: int = 20
    """Steps after which an episode is cut; the value of the state it was cut at still counts."""
    limit_is_death: bool = False
    """A mistake to study: a cut taken for the end of all rewards."""
    shared: bool = False
    """A mistake to study: all tables move, each toward the mean of all returns, as with the released code's broadcast."""


GEM = Tabular()
Q_LEARNING = Tabular(planner=NStep(1), tables=1)
DOUBLE_Q = Tabular(planner=NStep(1), bootstrap=Crossed())
NSTEP_Q = Tabular(planner=NStep(5), tables=1)


class Episodes(NamedTuple):
    """One episode of each MDP, in time order, padded behind its end. Each [T, M]."""

    state: Array
    action: Array
    reward: Array
    next_state: Array
    terminated: Array
    played: Array
    """Whether the step was taken: false behind an episode's end."""


def play(mdp: MDP, q: Array, algorithm: Tabular, rng: np.random.Generator) -> Episodes:
    """An episode in each MDP, epsilon-greedy on tables q [M, S, A]."""
    count, states, actions = mdp.size
    lane = np.arange(count)
    shape = (algorithm.time_limit, count)
    explore, random_action = rng.random(shape) < algorithm.epsilon, rng.integers(0, actions, shape)
    luck, draw = rng.random(shape), rng.random((count, 1))
    state = np.minimum((draw >= mdp.start.cumsum(-1)).sum(-1), states - 1)
    greedy, playing, rows = q.argmax(-1), np.ones(count, bool), []
    for t in range(algorithm.time_limit):
        action = np.where(explore[t], random_action[t], greedy[lane, state])
        following = (luck[t][:, None] >= mdp.cumulative[lane, state, action]).sum(-1)
        reward, terminated = mdp.reward[lane, state, action, following], mdp.terminal[lane, following]
        rows.append((state, action, reward, following, terminated, playing))
        playing = playing & ~terminated
        state = following
    return Episodes(*(np.stack(column) for column in zip(*rows, strict=True)))


def plan(mdp: MDP, q: Array, episode: Episodes, algorithm: Tabular) -> Array:
    """The planned returns [K, T, M] of an episode for tables q [K, M, S, A]."""
    q_next = algorithm.bootstrap(q[:, np.arange(mdp.size[0]), episode.next_state])
    cut = np.arange(len(episode.state))[:, None] == len(episode.state) - 1
    dead = episode.terminated | (cut & algorithm.limit_is_death)
    reward, discount, last = episode.reward, np.where(dead, 0.0, mdp.gamma), episode.terminated | cut
    returns = algorithm.planner(reward.T, discount.T, last.T, q_next.transpose(0, 2, 1)).transpose(0, 2, 1)
    if algorithm.shared:
        returns = np.broadcast_to(returns.mean(0), returns.shape)
    return returns


def move(q: Array, updates: Array, pairs: Iterable[Any], targets: Iterable[Any], step_size: StepSize) -> None:
    """Moves flat tables q [K * ...] toward targets, in place, one step of time after the other, since a pair may come again.

    A step of time is one pair, or an array of different ones; `updates` counts how often each was moved.
    """
    for pair, target in zip(pairs, targets, strict=True):
        q[pair] += step_size(updates[pair]) * (target - q[pair])
        updates[pair] += 1


class Tables:
    """The tables Q(1), ..., Q(K) of one algorithm in M MDPs, from arbitrary beginnings."""

    def __init__(self, mdp: MDP, algorithm: Tabular, rng: np.random.Generator) -> None:
        self._mdp, self._algorithm, self._rng = mdp, algorithm, rng
        self.q = rng.normal(size=(algorithm.tables, *mdp.size))
        """[K, M, S, A]."""
        self._updates = np.zeros(self.q.shape)
        self.steps = np.zeros(mdp.size[0], int)
        """Environment steps in each MDP [M]."""

    def learn_episode(self) -> None:
        """Algorithm 3 for one episode of each MDP."""
        algorithm, mdp = self._algorithm, self._mdp
        acting = self.q[self._rng.integers(algorithm.tables, size=mdp.size[0]), np.arange(mdp.size[0])]
        episode = play(mdp, acting, algorithm, self._rng)
        returns = plan(mdp, self.q, episode, algorithm)
        drawn = self._rng.integers(algorithm.tables, size=episode.state.shape)
        for table in range(algorithm.tables) if algorithm.shared else [drawn]:
            self._move(np.broadcast_to(table, drawn.shape), episode, returns)
        self.steps += episode.played.sum(0)

    def _move(self, table: Array, episode: Episodes, returns: Array) -> None:
        """Moves the table [T, M] of each step toward its return, step after step, since a pair may come again."""
        count, states, actions = self._mdp.size
        pair = ((table * count + np.arange(count)) * states + episode.state) * actions + episode.action
        target = np.take_along_axis(returns, table[None], 0)[0]
        played = range(len(pair)), episode.played
        pairs, targets = ([column[t][now] for t, now in zip(*played, strict=True)] for column in (pair, target))
        move(self.q.reshape(-1), self._updates.reshape(-1), pairs, targets, self._algorithm.step_size)


def learn(mdp: MDP, algorithm: Tabular, episodes: Iterable[int], rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
    """Tables [K, M, S, A] and environment steps [M] after so many episodes each, in ascending order."""
    tables, done = Tables(mdp, algorithm, rng), 0
    for goal in episodes:
        for _ in range(goal - done):
            tables.learn_episode()
        done = goal
        yield tables.q.copy(), tables.steps.copy()
