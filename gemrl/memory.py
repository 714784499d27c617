"""The episodic memory: a ring of transitions in time order, one lane per environment, with their planned returns beside them.

A lane holds the newest rows of one environment, so what survives overwriting is always the suffix of a trajectory. Rows enter
at once but can be drawn only after they were planned: `unplanned` counts the newest rows that were not. The functions here are
pure and run on the device; callers donate the memory, so that it is updated in place.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gemrl.environments import Transition
from gemrl.planning import Array, Planner


class Rows(NamedTuple):
    """Transitions of E lanes. `discount` is gamma, or 0 if terminated; `last`: the trajectory cannot be followed further."""

    observation: Array  # [E, N, D]
    action: Array  # [E, N, A], in [-1, 1]
    reward: Array  # [E, N]
    discount: Array  # [E, N]
    last: Array  # [E, N] bool
    next_observation: Array  # [E, N, D]


def empty_rows(lanes: int, rows: int, observation: int, action: int) -> Rows:
    """Rows of zeros, on the host."""
    single, real = (lanes, rows), np.float32
    return Rows(
        np.zeros((*single, observation), real),
        np.zeros((*single, action), real),
        np.zeros(single, real),
        np.zeros(single, real),
        np.zeros(single, bool),
        np.zeros((*single, observation), real),
    )


class Memory(eqx.Module):
    """The ring, with the values of next states and the planned returns of each pair of critics."""

    rows: Rows
    q_next: Array  # [K, E, N]
    planned: Array  # [K, E, N], NaN where not planned
    head: Array  # [E], where the next row goes
    size: Array  # [E], rows filled
    unplanned: Array  # [E], newest rows that were not planned yet

    @staticmethod
    def empty(lanes: int, capacity: int, observation: int, action: int, pairs: int) -> Memory:
        """A memory of `capacity` rows per lane."""
        zeros = np.zeros(lanes, np.int32)
        values = np.zeros((pairs, lanes, capacity), np.float32)
        rows = empty_rows(lanes, capacity, observation, action)
        memory = Memory(rows, values, np.full_like(values, np.nan), zeros, zeros, zeros)
        return jax.tree.map(jnp.array, memory)

    @property
    def capacity(self) -> int:
        """Rows per lane."""
        return self.rows.reward.shape[1]

    def __len__(self) -> int:
        """Rows filled, over all lanes."""
        return int(self.size.sum())

    def lane(self, lane: int = 0) -> dict[str, np.ndarray]:
        """The rows of one lane, oldest first, with their `planned` returns and `q_next` [K, n]."""
        size, head = int(self.size[lane]), int(self.head[lane])
        order = (head - size + np.arange(size)) % self.capacity
        columns = {name: np.asarray(column[lane])[order] for name, column in self.rows._asdict().items()}
        return columns | {
            "planned": np.asarray(self.planned[:, lane])[:, order],
            "q_next": np.asarray(self.q_next[:, lane])[:, order],
        }

    @property
    def n_trajectories(self) -> int:
        """Trajectories, or what survives of them, over all lanes."""
        count = 0
        for lane in range(self.size.shape[0]):
            last = self.lane(lane)["last"]
            count += int(last[:-1].sum()) + (last.size > 0)
        return count

    def planned_returns(self, lane: int = 0) -> np.ndarray:
        """The planned return of each row of a lane, oldest first [K, n]; NaN where a row was not planned yet."""
        return self.lane(lane)["planned"]

    def chosen_lengths(self, planner: Planner, lane: int = 0) -> np.ndarray:
        """The rollout length h* that `planner` chooses for each row of a lane, oldest first [K, n]; 0 if not planned yet."""
        rows, planned = self.lane(lane), int(self.size[lane] - self.unplanned[lane])
        lengths = np.zeros(rows["q_next"].shape, np.int32)
        if planned:
            inputs = (rows[name][..., :planned] for name in ("reward", "discount", "last", "q_next"))
            lengths[:, :planned] = planner.chosen(*inputs)
        return lengths


def insert(memory: Memory, new: Rows, count: Array) -> Memory:
    """The memory with the first count[e] rows of `new` [E, F] behind its newest ones; F must not exceed the capacity."""
    capacity, lanes = memory.capacity, jnp.arange(memory.size.shape[0])[:, None]
    offset = jnp.arange(new.reward.shape[1])
    # Rows beyond the count get an index outside the ring, which a scatter drops.
    position = jnp.where(offset < count[:, None], (memory.head[:, None] + offset) % capacity, capacity)
    rows = jax.tree.map(lambda ring, block: ring.at[lanes, position].set(block, mode="drop"), memory.rows, new)
    return Memory(
        rows,
        memory.q_next,
        memory.planned.at[:, lanes, position].set(jnp.nan, mode="drop"),
        (memory.head + count) % capacity,
        jnp.minimum(memory.size + count, capacity),
        jnp.minimum(memory.unplanned + count, capacity),
    )


def cut(memory: Memory, lane: Array) -> Memory:
    """The memory with the newest row of `lane` marked as last: its trajectory was abandoned."""
    newest = (memory.head[lane] - 1) % memory.capacity
    rows = memory.rows._replace(last=memory.rows.last.at[lane, newest].set(memory.size[lane] > 0))
    return eqx.tree_at(lambda m: m.rows, memory, rows)


def plan(memory: Memory, planner: Planner) -> Memory:
    """The memory with every row's return planned anew from its `q_next`."""
    capacity = memory.capacity
    place = jnp.arange(capacity)
    # In this order the unfilled rows come first, then the filled ones from oldest to newest, so nothing follows the newest.
    to_time = (memory.head[:, None] + place) % capacity
    to_ring = (place - memory.head[:, None]) % capacity

    def in_time(x: Array) -> Array:
        return jnp.take_along_axis(x, jnp.broadcast_to(to_time, x.shape), axis=-1)

    rows = memory.rows
    returns = planner(in_time(rows.reward), in_time(rows.discount), in_time(rows.last), in_time(memory.q_next))
    returns = jnp.take_along_axis(returns, jnp.broadcast_to(to_ring, returns.shape), axis=-1)
    planned = jnp.where(place < memory.size[:, None], returns, jnp.nan)
    return eqx.tree_at(lambda m: (m.planned, m.unplanned), memory, (planned, jnp.zeros_like(memory.unplanned)))


class Place(NamedTuple):
    """Where drawn rows are: lane, position in its ring, and how many older rows the lane has. Each [*S]."""

    lane: Array
    position: Array
    offset: Array


def draw(memory: Memory, key: Array, shape: tuple[int, ...], *, planned: bool) -> Place:
    """Places drawn uniformly, with replacement, from all rows or from all planned ones; `shape` is S."""
    ready = memory.size - memory.unplanned if planned else memory.size
    ends = jnp.cumsum(ready)
    flat = jax.random.randint(key, shape, 0, ends[-1])
    lane = jnp.searchsorted(ends, flat, side="right")
    offset = flat - (ends - ready)[lane]
    return Place(lane, ((memory.head - memory.size)[lane] + offset) % memory.capacity, offset)


class Stretch(NamedTuple):
    """What follows drawn rows, row by row, themselves first. `last` also marks the newest row. Each [*S, steps]."""

    reward: Array
    discount: Array
    last: Array
    position: Array


def stretch(memory: Memory, place: Place, steps: int) -> Stretch:
    """The rows from each place on; those behind a last one are of other trajectories."""
    ahead = jnp.arange(steps)
    lane, position = place.lane[..., None], (place.position[..., None] + ahead) % memory.capacity
    newest = place.offset[..., None] + ahead >= (memory.size - 1)[lane]
    rows = memory.rows
    return Stretch(rows.reward[lane, position], rows.discount[lane, position], rows.last[lane, position] | newest, position)


class Staging:
    """Rows on the host that wait for their way to the device, so that a step costs no device call."""

    def __init__(self, lanes: int, rows: int, observation: int, action: int) -> None:
        self._shape = (lanes, rows, observation, action)
        self._lanes = np.arange(lanes)
        self.rows, self.count = empty_rows(*self._shape), np.zeros(lanes, np.int32)

    @property
    def full(self) -> bool:
        """Whether another step might not fit."""
        return bool(self.count.max() == self._shape[1])

    def add(self, step: Transition, gamma: float) -> None:
        """Appends one step of every lane; a lane that only reset its environment keeps its count, so its row is void."""
        at = self._lanes, self.count
        self.rows.observation[at] = step.observation
        self.rows.action[at] = step.action
        self.rows.reward[at] = step.reward
        self.rows.discount[at] = np.where(step.terminated, 0.0, gamma)
        self.rows.last[at] = step.terminated | step.truncated
        self.rows.next_observation[at] = step.next_observation
        self.count = self.count + step.stored

    def take(self) -> tuple[Rows, np.ndarray]:
        """All rows and how many of each lane count; the staging is empty after that."""
        taken = self.rows, self.count
        self.rows, self.count = empty_rows(*self._shape), np.zeros_like(self.count)
        return taken
