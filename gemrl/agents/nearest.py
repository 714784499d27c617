"""Model-free episodic control (Blundell et al., 2016), the paper's section 2.3: a stranger to the other recipes, and plain numpy.

Returns are written when an episode is over. Where a time limit cut it, the rest of its return is the memory's own estimate of the
state it was cut at, as everywhere in this package. "The rewards so far and nothing after" would make states near a cut look bad
where rewards are positive; where they are negative it would make them look good, and a maximum never takes that back.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from gemrl.agents.memory.episodes import Episode, Seen, packed, unpacked
from gemrl.agents.memory.neighbours import Array, Columns, Table
from gemrl.algorithms.recipes.nearest import NearestRecipe
from gemrl.algorithms.returns import discounted_returns
from gemrl.core.exceptions import ModelFileError
from gemrl.core.layout import Layout
from gemrl.core.seeding import stream
from gemrl.core.snapshot import Snapshot
from gemrl.core.steps import EPISODE_CAP, Transition
from gemrl.core.validation import check_memory


class Remembered(NamedTuple):
    """All that acting needs: the rows of all tables behind each other, and the random projection."""

    projection: Array | None  # [O, D]
    sizes: Array  # [A] int64
    columns: Columns


class NearestMemory:
    """A table of best returns for each action, and the episodes that are not over yet."""

    def __init__(self, tables: list[Table], lanes: int) -> None:
        self.tables = tables
        self.running = [Episode() for _ in range(lanes)]

    def __len__(self) -> int:
        """Rows of all tables, and the steps that wait for their episode's end."""
        return sum(map(len, self.tables)) + sum(map(len, self.running))


class NearestAgent:
    """Acts on the best returns of the most similar states."""

    def __init__(self, recipe: NearestRecipe, layout: Layout, *, lanes: int = 1, seed: int = 0, device: Any = None) -> None:
        self.recipe, self._layout, self.lanes = recipe, layout, lanes
        numbers = layout.states or layout.size
        self._width = recipe.width(numbers)
        projected = self._width < numbers
        row = 4 * self._width + 24
        check_memory(layout.choices * recipe.rows_per_action * row + 4 * numbers * self._width * projected, "rows_per_action")
        rng = stream(seed, "projection")
        self._projection = rng.standard_normal((numbers, self._width), np.float32) / self._width**0.5 if projected else None
        tables = [Table(recipe.rows_per_action, self._width) for _ in range(layout.choices)]
        self._memory, self._over = NearestMemory(tables, lanes), list[Episode]()
        self._noise = stream(seed, "exploration")

    @property
    def gamma(self) -> float:
        """The discount factor of its returns."""
        return self.recipe.gamma

    @property
    def memory(self) -> NearestMemory:
        """The tables, to look into."""
        self._write_all()
        return self._memory

    def see(self, observations: Array) -> list[Seen]:
        """Digests and keys of observations [B, *O]."""
        if self._layout.states:
            keys = self._keys_of_states(observations[:, 0])
        else:
            flat = observations.reshape(len(observations), -1).astype(np.float32) + np.float32(0)  # no negative zeros
            if observations.dtype == np.uint8:
                flat /= 255
            keys = flat if self._projection is None else flat @ self._projection
            observations = flat if self._layout.dtype == "float32" else observations
        return [Seen(_digest(one), key) for one, key in zip(observations, keys, strict=True)]

    def _keys_of_states(self, numbers: Array) -> Array:
        """Projected, a vector of zeros with a one in it is a row of the projection. [B] -> [B, D]."""
        if self._projection is not None:
            return self._projection[numbers]
        return np.asarray(numbers[:, None] == np.arange(self._layout.states), np.float32)

    def estimates(self, seen: list[Seen], *, used: bool = False) -> tuple[Array, Array]:
        """Equation 2 of every action, -inf where its table is empty [B, A], and whether that is to be relied on [B, A].

        An action that was never taken here, and seldom elsewhere, has no k neighbours to speak for it.
        """
        values = np.full((len(seen), self._layout.choices), -np.inf, np.float32)
        reliable = np.zeros(values.shape, bool)
        keys, digests = np.stack([one.key for one in seen]), [one.digest for one in seen]
        for action, table in enumerate(self._memory.tables):
            if not len(table):
                continue
            values[:, action], met, rows = table.read(digests, keys, self.recipe.neighbours)
            reliable[:, action] = met | (len(table) >= self.recipe.neighbours)
            if used:
                table.touch(rows)
        return values, reliable

    def act(self, observation: Array) -> Array:
        """The actions of the best estimates, the first of equally good ones. [B, *O] -> [B, 1]."""
        return self.estimates(self.see(observation))[0].argmax(axis=1).astype(np.int32)[:, None]

    def sample(self, observation: Array, rng: np.random.Generator) -> Array:
        """The best actions: the policy is deterministic. [B, *O] -> [B, 1]."""
        return self.act(observation)

    def explore(self, observation: Array, step: int) -> Array:
        """Random ones, while warming up and then with the probability epsilon; else those of `_choose`. [E, *O] -> [E, 1]."""
        action = self._layout.random_actions(len(observation), self._noise)
        if step < self.recipe.learning_starts:
            return action
        chosen = np.flatnonzero(self._noise.random(len(observation)) >= self.recipe.epsilon(step))
        if len(chosen):
            action[chosen, 0] = self._choose(self.see(observation[chosen]))
        return action

    def _choose(self, seen: list[Seen]) -> Array:
        """An action that nothing is known of, if there is one, else a best one; of equally good ones any. [B].

        Unknown ones come first since a mean over few rows would settle for whatever was tried by chance; any of them, since
        always taking the first would walk in one direction while nothing is known at all.
        """
        values, reliable = self.estimates(seen, used=True)
        worth = np.where(reliable, values, np.inf)
        best = worth == worth.max(axis=1, keepdims=True)
        return np.where(best, self._noise.random(best.shape), -1).argmax(axis=1)

    def observe(self, transition: Transition) -> None:
        """Remembers one step of every environment; episodes that end wait for the next round."""
        lanes = [int(lane) for lane in np.flatnonzero(transition.stored)]
        if not lanes:
            return
        for lane, seen in zip(lanes, self.see(transition.observation[lanes]), strict=True):
            episode = self._memory.running[lane]
            episode.seen.append(seen)
            episode.actions.append(int(transition.action[lane, 0]))
            episode.rewards.append(float(transition.reward[lane]))
            if transition.terminated[lane]:
                self._end(lane, None)
            elif transition.truncated[lane]:
                self._end(lane, self.see(transition.next_observation[[lane]])[0])
            elif len(episode) > EPISODE_CAP:  # some environments never end one
                self._break_off(lane)

    def _end(self, lane: int, end: Seen | None) -> None:
        episode = self._memory.running[lane]
        episode.end = end
        self._over.append(episode)
        self._memory.running[lane] = Episode()

    def _break_off(self, lane: int) -> None:
        """Ends an episode at the state of its last step, whose outcome does not count any more."""
        episode = self._memory.running[lane]
        episode.actions.pop()
        episode.rewards.pop()
        self._end(lane, episode.seen.pop())

    def abandon(self) -> None:
        """Ends the running episodes: their environments are about to be reset."""
        for lane, episode in enumerate(self._memory.running):
            if len(episode):
                self._break_off(lane)
        self._write_all()

    def rounds_due(self, before: int, step: int) -> list[int]:
        """One, if an episode is over."""
        return [step] if self._over else []

    def refreshes(self, step: int) -> bool:
        """Never: tables keep what was written to them."""
        return False

    def learn(self, step: int) -> dict[str, float]:
        """Writes the returns of the episodes that are over; it has no losses."""
        self._write_all()
        return {}

    def _write_all(self) -> None:
        for episode in self._over:
            returns = discounted_returns(np.array(episode.rewards), self.gamma, self._rest(episode))
            for seen, action, value in reversed(list(zip(episode.seen, episode.actions, returns, strict=True))):
                self._memory.tables[action].write(*seen, value)
        self._over.clear()

    def _rest(self, episode: Episode) -> float:
        """The value of what follows an episode's last step."""
        if episode.end is None or not len(episode):
            return 0.0
        value = float(self.estimates([episode.end])[0].max())
        if np.isfinite(value):
            return value
        # The memory is empty: let it go on as it went. Without a discount that is endless, so there nothing follows.
        return float(np.mean(episode.rewards)) / (1 - self.gamma) if self.gamma < 1 else 0.0

    def values(self, observation: Array, action: Array) -> Array:
        """Equation 2 of pairs; 0 where nothing is known. [B, *O], [B, 1] -> [B]."""
        seen, taken, found = self.see(observation), action[:, 0], np.zeros(len(observation), np.float32)
        for number, table in enumerate(self._memory.tables):
            at = np.flatnonzero(taken == number)
            if len(table) and len(at):
                digests, keys = [seen[place].digest for place in at], np.stack([seen[place].key for place in at])
                found[at] = table.read(digests, keys, self.recipe.neighbours).values
        return found

    @property
    def learner(self) -> Remembered:
        """The tables and the projection; a copy."""
        self._write_all()
        rows = [table.filled for table in self._memory.tables]
        columns = Columns(*(np.concatenate(column) for column in zip(*rows, strict=True)))
        return Remembered(self._projection, np.array([len(table.digest) for table in rows]), columns)

    def set_learner(self, learner: Remembered) -> None:
        """Takes over a saved learner."""
        sizes, columns = learner.sizes, learner.columns
        ends = np.cumsum(sizes)
        if (sizes < 0).any() or any(len(column) != ends[-1] for column in columns):
            raise ModelFileError("the tables of returns are damaged: their sizes do not agree with their rows")
        self._projection = learner.projection
        for table, size, end in zip(self._memory.tables, sizes, ends, strict=True):
            table.restore(Columns(*(column[end - size : end] for column in columns)))

    def snapshot(self) -> Snapshot:
        """All that decides its future beside the learner: the running episodes and the random state."""
        self._write_all()
        return Snapshot({"noise": self._noise.bit_generator.state}, packed(self._memory.running, self._width)._asdict())

    def restore(self, saved: Snapshot) -> None:
        """Takes over a snapshot."""
        self._noise.bit_generator.state = saved.facts["noise"]
        self._memory.running = unpacked(saved.arrays, self.lanes, self._width, self._layout.choices)


def _digest(observation: Array) -> int:
    return int.from_bytes(blake2b(observation.tobytes(), digest_size=8).digest(), "little", signed=True)
