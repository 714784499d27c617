"""Tabular GEM (Algorithm 3 of the paper), Q-learning and its variants, for environments with discrete states and actions.

A row is learned as soon as no later row can change its return: when its episode ends, or when it is followed by as many rows as
the planner looks ahead. So GEM learns an episode when it ends, in time order, from returns that are planned once, with the tables
as they were at its end. Q-learning learns after every step, and an episode that never ends is learned too. This module does not
use JAX.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gemrl.agents.memory.recorded import Room, check_keeps_nothing, lanes_for
from gemrl.agents.memory.ring import Memory
from gemrl.agents.memory.storage import restored, snapshot_of
from gemrl.algorithms.bootstraps import NEXT_ACTIONS, permitted
from gemrl.algorithms.registry import TabularRecipe
from gemrl.algorithms.tabular import move
from gemrl.core.exceptions import BadValue, ModelFileError
from gemrl.core.layout import Layout
from gemrl.core.seeding import stream
from gemrl.core.snapshot import Snapshot, fit
from gemrl.core.steps import Trajectory, Transition


class TabularLearner(NamedTuple):
    """Everything that learning changes, except the memory. Each [K, S, A]."""

    q: np.ndarray
    updates: np.ndarray
    """How often each state-action pair of each table was updated."""


class TabularAgent:
    """K tables of Q-values. It acts epsilon-greedily on one of them, drawn for each episode of each lane."""

    def __init__(self, recipe: TabularRecipe, layout: Layout, *, lanes: int = 1, seed: int = 0, device: Any = None) -> None:
        self.recipe, self.lanes, self._layout = recipe, lanes, layout
        shape = recipe.tables, layout.states, layout.choices
        self.learner = TabularLearner(np.full(shape, float(recipe.initial_value)), np.zeros(shape, np.int64))
        self._memory_shape = lanes, max(1, recipe.buffer_size // lanes), layout, recipe.tables, recipe.planner.extra
        self._ring: Memory | None = None  # made with the first rows, since a model that only acts needs none
        self._noise, self._draws = stream(seed, "exploration"), stream(seed, "tables")
        self._acting = self._draws.integers(recipe.tables, size=lanes)
        self._n_updates = 0

    @property
    def gamma(self) -> float:
        """The discount factor of its returns."""
        return self.recipe.gamma

    @property
    def memory(self) -> Memory:
        """The episodic memory, on the host. Rows that were not learned yet count as unplanned."""
        if self._ring is None:
            self._ring = Memory.empty(*self._memory_shape, host=True)
        return self._ring

    @property
    def notes(self) -> dict[str, str]:
        """Nothing."""
        return {}

    def act(self, observation: np.ndarray) -> np.ndarray:
        """The greedy actions by the mean of the tables. [B, 1] -> [B, 1]."""
        values = self.learner.q[:, self._states(observation)].mean(0)
        best = permitted(values, self._layout.split(observation)[1]).argmax(-1)
        return best[:, None].astype(self._layout.action_dtype)

    def sample(self, observation: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The greedy actions: exploration is for training only. [B, 1] -> [B, 1]."""
        return self.act(observation)

    def explore(self, observation: np.ndarray, step: int) -> np.ndarray:
        """Epsilon-greedy actions. Ties are broken at random, since all actions in a new state are equal. [E, 1] -> [E, 1]."""
        allowed = self._layout.split(observation)[1]
        values = permitted(self.learner.q[self._acting, self._states(observation)], allowed)
        ties = self._noise.random(values.shape)
        best = np.where(values == values.max(-1, keepdims=True), ties, -1.0).argmax(-1)[:, None]
        random = self._layout.random_actions(len(observation), self._noise, allowed)
        explores = self._noise.random(random.shape) < self.recipe.epsilon(step)
        return np.where(explores, random, best).astype(self._layout.action_dtype)

    def values(self, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
        """The mean of the tables' Q(s, a). [B, 1], [B, 1] -> [B]."""
        return self.learner.q[:, self._states(observation), action[:, 0]].mean(0)

    def observe(self, transition: Transition) -> None:
        """Stores one step of every environment; where an episode ends, draws the table that acts in the next one."""
        memory, lane = self.memory, np.flatnonzero(transition.stored)
        rows, head, size, waiting = memory.rows, memory.head, memory.size, memory.unplanned
        at, ended = (lane, head[lane]), (transition.terminated | transition.truncated)[lane]
        rows.observation[at], rows.next_observation[at] = transition.observation[lane], transition.next_observation[lane]
        rows.action[at], rows.reward[at] = transition.action[lane], transition.reward[lane]
        rows.discount[at], rows.last[at] = np.where(transition.terminated[lane], 0.0, self.gamma), ended
        memory.planned[:, *at] = np.nan
        head[lane] = (head[lane] + 1) % memory.capacity
        size[lane] = np.minimum(size[lane] + 1, memory.capacity)
        waiting[lane] = np.minimum(waiting[lane] + 1, size[lane])
        for ending in lane[ended]:
            self._acting[ending] = self._draws.integers(self.recipe.tables)

    def remember(self, trajectories: Sequence[Trajectory], *, keep: bool) -> None:
        """Stores recorded trajectories, which are learned in the first round."""
        check_keeps_nothing(keep, "a tabular agent")
        chosen = lanes_for(trajectories, Room(self.lanes, self._memory_shape[1], None, self.lanes))
        self.abandon()
        for trajectory, lane in zip(trajectories, chosen, strict=True):
            for transition in trajectory.transitions(lane, self.lanes):
                self.observe(transition)

    def abandon(self) -> None:
        """Ends the running trajectories: their environments are about to be reset."""
        for lane in map(int, np.flatnonzero(self.memory.size)):
            self.memory.rows.last[lane, self._newest(lane, 1)] = True

    def rounds_due(self, before: int, step: int) -> list[int]:
        """One round if there are rows to learn."""
        due = step > self.recipe.learning_starts and any(self._due(lane) for lane in range(self.lanes))
        return [step] if due else []

    def refreshes(self, step: int) -> bool:
        """Never: a round learns a few rows and does not refresh the memory."""
        return False

    def learn(self, step: int) -> dict[str, float]:
        """Learns all rows whose returns are final, lane by lane; after an episode's end, replays stored episodes too."""
        errors, sizes = [], []
        for lane, positions, count in self._due_rows():
            error, size = self._learn_rows(lane, positions, count)
            errors.append(error)
            sizes.append(size)
        error, size = np.concatenate(errors), np.concatenate(sizes)
        self._n_updates += len(error)
        metrics = {"critic_loss": (error**2).mean(), "learning_rate": size.mean(), "n_updates": self._n_updates}
        return {name: float(value) for name, value in metrics.items()}

    def _due_rows(self) -> Iterator[tuple[int, np.ndarray, int]]:
        """Yields a lane, positions of its rows in time order, and how many of them, from the first, to learn."""
        for lane in range(self.lanes):
            positions, count = self._newest(lane, self.memory.unplanned[lane]), self._due(lane)
            if count:
                ended = self.memory.rows.last[lane, positions].any()
                self.memory.unplanned[lane] -= count
                yield lane, positions, count
                for _ in range(self.recipe.replays if ended else 0):
                    yield self._draw_episode()

    def _draw_episode(self) -> tuple[int, np.ndarray, int]:
        """A random lane and a random episode in it, as in `_due_rows`; the memory must hold at least one."""
        ends = [self._ends(lane) for lane in range(self.lanes)]
        lane = int(self._draws.choice([lane for lane, endings in enumerate(ends) if endings.size]))
        number = int(self._draws.integers(len(ends[lane])))
        begin, end = ends[lane][number - 1] + 1 if number else 0, ends[lane][number] + 1
        return lane, (self._oldest(lane) + np.arange(begin, end)) % self.memory.capacity, int(end - begin)

    def _ends(self, lane: int) -> np.ndarray:
        """The offsets, from a lane's oldest row, of the rows where trajectories end, in time order."""
        ends, oldest = np.flatnonzero(self.memory.rows.last[lane]), self._oldest(lane)
        return np.concatenate([ends[ends >= oldest] - oldest, ends[ends < oldest] - oldest + self.memory.capacity])

    def _oldest(self, lane: int) -> int:
        return int(self.memory.head[lane] - self.memory.size[lane]) % self.memory.capacity

    def _newest(self, lane: int, count: int) -> np.ndarray:
        """Positions of the newest rows of a lane, oldest first [count]."""
        return (self.memory.head[lane] - count + np.arange(count)) % self.memory.capacity

    def _due(self, lane: int) -> int:
        """How many rows of a lane, from the oldest one not yet learned, have a return that no later row can change."""
        waiting = int(self.memory.unplanned[lane])
        if waiting and self.recipe.planner.rollout_cap == 1:
            return waiting
        ends = np.flatnonzero(self.memory.rows.last[lane, self._newest(lane, waiting)])
        reach = min(self.recipe.planner.rollout_cap, self.memory.capacity)
        return max(waiting - reach + 1, int(ends[-1]) + 1 if ends.size else 0, 0)

    def _learn_rows(self, lane: int, positions: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Plans consecutive rows and updates a table, drawn for each of the first `count`; errors and step sizes [count]."""
        recipe, (q, updates), memory, rows = self.recipe, self.learner, self.memory, self.memory.rows
        discount = np.where(rows.discount[lane, positions] == 0, 0.0, self.gamma)  # in the precision of the tables
        states = rows.next_observation[lane, positions]
        following, allowed = q[:, states[:, 0]], self._layout.split(states)[1]
        q_next = recipe.bootstrap(permitted(following, allowed))
        reward, last, learned = rows.reward[lane, positions].astype(q.dtype), rows.last[lane, positions], positions[:count]
        actions = self._next_actions(lane, positions, following, allowed)
        returns = recipe.planner(reward, discount, last, q_next, **actions)[:, :count]
        memory.q_next[:, lane, positions], memory.planned[:, lane, learned] = q_next, returns
        table = self._draws.integers(recipe.tables, size=count)
        target = returns[table, np.arange(count)]
        pairs = table, rows.observation[lane, learned, 0], rows.action[lane, learned, 0]
        errors, sizes = target - q[pairs], recipe.step_size(updates[pairs])
        move(q.reshape(-1), updates.reshape(-1), np.ravel_multi_index(pairs, q.shape), target, recipe.step_size)
        return errors, sizes

    def _next_actions(self, lane: int, positions: np.ndarray, q: np.ndarray, allowed: np.ndarray | None) -> dict[str, np.ndarray]:
        """What the planner needs of the Q-values of next states [K, N, A]; arbitrary where a trajectory ends. Each [K, N]."""
        memory = self.memory
        taken = memory.rows.action[None, lane, (positions + 1) % memory.capacity, 0]
        values = {name: NEXT_ACTIONS[name](q, allowed, taken) for name in self.recipe.planner.extra}
        for name, column in values.items():
            getattr(memory, name)[:, lane, positions] = column
        return values

    def _states(self, observation: np.ndarray) -> np.ndarray:
        """The states as integers. [B, 1] -> [B]."""
        states = observation[:, 0]  # a mask of allowed actions may follow
        if not ((states >= 0) & (states < self._layout.states)).all():
            raise BadValue(f"an observation is not in the observation space of {self._layout.states} states")
        return states

    def set_learner(self, learner: TabularLearner) -> None:
        """Restores a saved learner."""
        self.learner = TabularLearner(*(np.array(table) for table in learner))
        self._n_updates = int(self.learner.updates.sum())

    def snapshot(self) -> Snapshot:
        """All state except the learner."""
        facts = {"noise": self._noise.bit_generator.state, "draws": self._draws.bit_generator.state}
        return Snapshot.of(agent=Snapshot(facts, {"acting": self._acting}), memory=snapshot_of(self.memory))

    def restore(self, saved: Snapshot) -> None:
        """Restores a snapshot."""
        own = saved.part("agent")
        self._noise.bit_generator.state, self._draws.bit_generator.state = own.facts["noise"], own.facts["draws"]
        acting = fit("acting", own.arrays["acting"], self._acting.shape, self._acting.dtype)
        if not ((acting >= 0) & (acting < self.recipe.tables)).all():
            raise ModelFileError("array acting is damaged: it names a table that does not exist")
        self._acting = np.array(acting)
        self._ring = restored(saved.part("memory"), *self._memory_shape, host=True)
