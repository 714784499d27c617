"""Model-free episodic control (Blundell et al., 2016; section 2.3 of the paper), in plain numpy.

Returns are written when an episode ends. The return of a truncated episode is bootstrapped with the memory's own estimate of the
final state, as everywhere in this package. Otherwise positive rewards would make states near a time limit look bad. Negative
rewards would make them look good, and the maximum in equation 1 would never correct that.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from gemrl.agents.memory.episodes import Encoded, Episode, packed, unpacked
from gemrl.agents.memory.neighbours import Array, Columns, Table
from gemrl.agents.memory.recorded import check_keeps_nothing
from gemrl.algorithms.recipes.nearest import NearestRecipe
from gemrl.algorithms.returns import discounted_returns
from gemrl.core.exceptions import DataError, ModelFileError
from gemrl.core.layout import Layout
from gemrl.core.resources import Need, check_memory
from gemrl.core.seeding import stream
from gemrl.core.snapshot import Snapshot
from gemrl.core.steps import EPISODE_CAP, Trajectory, Transition

INDEX_BYTES = 150
"""Bytes for a row in the dictionary of its table: its slot, and two Python integers."""


class Remembered(NamedTuple):
    """All that acting needs: the rows of all tables, concatenated, and the random projection."""

    projection: Array | None  # [O, D]
    sizes: Array  # [A] int64
    columns: Columns


class NearestMemory:
    """A table of best returns for each action, and the unfinished episodes."""

    def __init__(self, tables: list[Table], lanes: int) -> None:
        self.tables = tables
        self.running = [Episode() for _ in range(lanes)]

    def __len__(self) -> int:
        """The rows of all tables plus the steps of unfinished episodes."""
        return sum(map(len, self.tables)) + sum(map(len, self.running))


class NearestAgent:
    """Acts on the best returns of the most similar states."""

    def __init__(self, recipe: NearestRecipe, layout: Layout, *, lanes: int = 1, seed: int = 0, device: Any = None) -> None:
        self.recipe, self._layout, self.lanes = recipe, layout, lanes
        size = layout.states or layout.size
        self._width = recipe.width(size)
        projected = self._width < size
        rows = layout.choices * recipe.rows_per_action
        needs = [Need("rows", rows * (4 * self._width + 24 + INDEX_BYTES), "rows_per_action")]
        check_memory([*needs, Need("projection", 8 * size * self._width * projected, "projection")])
        rng = stream(seed, "projection")
        self._projection = rng.standard_normal((size, self._width), np.float32) / self._width**0.5 if projected else None
        tables = [Table(recipe.rows_per_action, self._width) for _ in range(layout.choices)]
        self._memory, self._finished = NearestMemory(tables, lanes), list[Episode]()
        self._noise = stream(seed, "exploration")

    @property
    def gamma(self) -> float:
        """The discount factor of its returns."""
        return self.recipe.gamma

    @property
    def memory(self) -> NearestMemory:
        """The tables, after writing all finished episodes."""
        self._write_all()
        return self._memory

    @property
    def notes(self) -> dict[str, str]:
        """Nothing."""
        return {}

    def encode(self, observations: Array) -> list[Encoded]:
        """The digest and key of each observation. [B, *O] -> [B]."""
        if self._layout.states:
            keys = self._keys_of_states(observations[:, 0])
        else:
            flat = observations.reshape(len(observations), -1).astype(np.float32) + np.float32(0)  # turns -0.0 into 0.0
            if observations.dtype == np.uint8:
                flat /= 255
            keys = flat if self._projection is None else flat @ self._projection
            observations = flat if self._layout.dtype == "float32" else observations
        return [Encoded(_digest(one), key) for one, key in zip(observations, keys, strict=True)]

    def _keys_of_states(self, numbers: Array) -> Array:
        """The keys of discrete states: one-hot vectors or, projected, rows of the projection. [B] -> [B, D]."""
        if self._projection is not None:
            return self._projection[numbers]
        return np.asarray(numbers[:, None] == np.arange(self._layout.states), np.float32)

    def estimates(self, states: list[Encoded], *, touch: bool = False) -> tuple[Array, Array]:
        """Equation 2 for every action, -inf if its table is empty [B, A]; and whether the estimate is reliable [B, A].

        It is not if the action was never taken in this state and its table has fewer than k rows. With `touch`, the rows that
        were read count as used.
        """
        values = np.full((len(states), self._layout.choices), -np.inf, np.float32)
        reliable = np.zeros(values.shape, bool)
        keys, digests = np.stack([one.key for one in states]), [one.digest for one in states]
        for action, table in enumerate(self._memory.tables):
            if not len(table):
                continue
            values[:, action], known, rows = table.read(digests, keys, self.recipe.neighbours)
            reliable[:, action] = known | (len(table) >= self.recipe.neighbours)
            if touch:
                table.touch(rows)
        return values, reliable

    def act(self, observation: Array) -> Array:
        """The greedy actions; ties go to the first action. [B, *O] -> [B, 1]."""
        return self.estimates(self.encode(observation))[0].argmax(axis=1).astype(np.int32)[:, None]

    def sample(self, observation: Array, rng: np.random.Generator) -> Array:
        """The greedy actions, since the policy is deterministic. [B, *O] -> [B, 1]."""
        return self.act(observation)

    def explore(self, observation: Array, step: int) -> Array:
        """Random actions during warm-up and then with probability epsilon; otherwise those of `_choose`. [E, *O] -> [E, 1]."""
        action = self._layout.random_actions(len(observation), self._noise)
        if step < self.recipe.learning_starts:
            return action
        greedy = np.flatnonzero(self._noise.random(len(observation)) >= self.recipe.epsilon(step))
        if len(greedy):
            action[greedy, 0] = self._choose(self.encode(observation[greedy]))
        return action

    def _choose(self, states: list[Encoded]) -> Array:
        """Actions without a reliable estimate first, then the best ones; ties are broken at random. [B].

        Unreliable estimates come first because a mean over few rows would favour whatever was tried by chance. Ties are broken
        at random because always taking the first action would move in one direction as long as the memory is empty.
        """
        values, reliable = self.estimates(states, touch=True)
        optimistic = np.where(reliable, values, np.inf)
        best = optimistic == optimistic.max(axis=1, keepdims=True)
        return np.where(best, self._noise.random(best.shape), -1).argmax(axis=1)

    def observe(self, transition: Transition) -> None:
        """Stores one step of every environment; finished episodes are written in the next round."""
        lanes = [int(lane) for lane in np.flatnonzero(transition.stored)]
        if not lanes:
            return
        for lane, state in zip(lanes, self.encode(transition.observation[lanes]), strict=True):
            episode = self._memory.running[lane]
            episode.observations.append(state)
            episode.actions.append(int(transition.action[lane, 0]))
            episode.rewards.append(float(transition.reward[lane]))
            if transition.terminated[lane]:
                self._end(lane, None)
            elif transition.truncated[lane]:
                self._end(lane, self.encode(transition.next_observation[[lane]])[0])
            elif len(episode) > EPISODE_CAP:  # some environments never end an episode
                self._truncate(lane)

    def remember(self, trajectories: Sequence[Trajectory], *, keep: bool) -> None:
        """Stores recorded trajectories, whose returns are written in the next round. Raises if a table might not hold them."""
        check_keeps_nothing(keep, "mfec")
        actions = np.concatenate([trajectory.action[:, 0] for trajectory in trajectories])
        most = int(np.bincount(actions).max())
        if most > self.recipe.rows_per_action:
            raise DataError(f"the data has {most:,} rows of one action: set rows_per_action to {most:,} or more")
        self.abandon()
        for trajectory in trajectories:
            for transition in trajectory.transitions(0, self.lanes):
                self.observe(transition)

    def _end(self, lane: int, final: Encoded | None) -> None:
        """Ends the episode of a lane, with its final state if it was truncated."""
        episode = self._memory.running[lane]
        episode.final = final
        self._finished.append(episode)
        self._memory.running[lane] = Episode()

    def _truncate(self, lane: int) -> None:
        """Truncates an episode at the state of its last step; the step itself is dropped."""
        episode = self._memory.running[lane]
        episode.actions.pop()
        episode.rewards.pop()
        self._end(lane, episode.observations.pop())

    def abandon(self) -> None:
        """Truncates the unfinished episodes: their environments are about to be reset."""
        for lane, episode in enumerate(self._memory.running):
            if len(episode):
                self._truncate(lane)
        self._write_all()

    def rounds_due(self, before: int, step: int) -> list[int]:
        """One round if an episode has finished."""
        return [step] if self._finished else []

    def refreshes(self, step: int) -> bool:
        """Never: stored returns are not computed again."""
        return False

    def learn(self, step: int) -> dict[str, float]:
        """Writes the returns of finished episodes; there are no losses."""
        self._write_all()
        return {}

    def _write_all(self) -> None:
        for episode in self._finished:
            returns = discounted_returns(np.array(episode.rewards), self.gamma, self._bootstrap(episode))
            for state, action, value in reversed(list(zip(episode.observations, episode.actions, returns, strict=True))):
                self._memory.tables[action].write(*state, value)
        self._finished.clear()

    def _bootstrap(self, episode: Episode) -> float:
        """The value of the state after an episode's last step."""
        if episode.final is None or not len(episode):
            return 0.0
        value = float(self.estimates([episode.final])[0].max())
        if np.isfinite(value):
            return value
        # The memory is empty: assume that the mean reward continues. Without a discount that sum is infinite, so assume 0.
        return float(np.mean(episode.rewards)) / (1 - self.gamma) if self.gamma < 1 else 0.0

    def values(self, observation: Array, action: Array) -> Array:
        """Equation 2 for state-action pairs; 0 if the action's table is empty. [B, *O], [B, 1] -> [B]."""
        states, taken, values = self.encode(observation), action[:, 0], np.zeros(len(observation), np.float32)
        for number, table in enumerate(self._memory.tables):
            indices = np.flatnonzero(taken == number)
            if len(table) and len(indices):
                digests, keys = [states[index].digest for index in indices], np.stack([states[index].key for index in indices])
                values[indices] = table.read(digests, keys, self.recipe.neighbours).values
        return values

    @property
    def learner(self) -> Remembered:
        """The tables and the projection; a copy."""
        self._write_all()
        rows = [table.filled for table in self._memory.tables]
        columns = Columns(*(np.concatenate(column) for column in zip(*rows, strict=True)))
        return Remembered(self._projection, np.array([len(table.digest) for table in rows]), columns)

    def set_learner(self, learner: Remembered) -> None:
        """Restores a saved learner."""
        sizes, columns = learner.sizes, learner.columns
        ends = np.cumsum(sizes)
        if (sizes < 0).any() or any(len(column) != ends[-1] for column in columns):
            raise ModelFileError("the tables of returns are damaged: their sizes do not match their rows")
        self._projection = learner.projection
        for table, size, end in zip(self._memory.tables, sizes, ends, strict=True):
            table.restore(Columns(*(column[end - size : end] for column in columns)))

    def snapshot(self) -> Snapshot:
        """All state except the learner: the unfinished episodes and the random generator."""
        self._write_all()
        return Snapshot({"noise": self._noise.bit_generator.state}, packed(self._memory.running, self._width)._asdict())

    def restore(self, saved: Snapshot) -> None:
        """Restores a snapshot."""
        self._noise.bit_generator.state = saved.facts["noise"]
        self._memory.running = unpacked(saved.arrays, self.lanes, self._width, self._layout.choices)


def _digest(observation: Array) -> int:
    return int.from_bytes(blake2b(observation.tobytes(), digest_size=8).digest(), "little", signed=True)
