"""The episodic memory: a ring of transitions in time order, one lane per environment, with their planned returns beside them.

A lane holds the newest rows of one environment, so what survives overwriting is always the suffix of a trajectory. Rows enter
at once but can be drawn only after they were planned: `unplanned` counts the newest rows that were not. The functions here are
pure and run on the device; callers donate the memory, so that it is updated in place.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gemrl.errors import BadValue, ModelFileError
from gemrl.planning import Array, Planner
from gemrl.snapshot import Snapshot, fitting


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
        _check_room(lanes * capacity * row_bytes(observation, action, pairs))
        return jax.tree.map(jnp.array, _empty(lanes, capacity, observation, action, pairs))

    @property
    def capacity(self) -> int:
        """Rows per lane."""
        return self.rows.reward.shape[1]

    def snapshot(self) -> Snapshot:
        """Its filled rows, without a copy where the device is the host."""
        filled = int(self.size.max())  # rows beyond were never written: a ring that wrapped is full
        columns = self.rows._asdict() | {"q_next": self.q_next, "planned": self.planned}
        arrays = {name: _filled(name, np.asarray(column), filled) for name, column in columns.items()}
        counts = {name: np.asarray(getattr(self, name)) for name in _COUNTS}
        return Snapshot({"filled": filled}, arrays | counts)

    @staticmethod
    def restored(saved: Snapshot, lanes: int, capacity: int, observation: int, action: int, pairs: int) -> Memory:
        """The memory of this shape whose snapshot was taken."""
        _check_room(lanes * capacity * row_bytes(observation, action, pairs))
        filled, memory = saved.facts["filled"], _empty(lanes, capacity, observation, action, pairs)
        if not isinstance(filled, int) or not 0 <= filled <= capacity:
            raise ModelFileError(f"a memory of {capacity} rows cannot hold {filled}")
        columns = memory.rows._asdict() | {"q_next": memory.q_next, "planned": memory.planned}
        counts = {name: getattr(memory, name) for name in _COUNTS}
        wanted = {name: _filled(name, column, filled) for name, column in columns.items()}
        for name, array in fitting(saved.arrays, wanted | counts).items():
            if name in counts and not ((array >= 0) & (array <= capacity)).all():
                raise ModelFileError(f"array {name} counts beyond a memory of {capacity} rows")
            (wanted | counts)[name][...] = array
        return jax.tree.map(jnp.array, memory)

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


_COUNTS = ("head", "size", "unplanned")


def _empty(lanes: int, capacity: int, observation: int, action: int, pairs: int) -> Memory:
    """A memory on the host, each array its own."""
    values = np.zeros((pairs, lanes, capacity), np.float32)
    counts = (np.zeros(lanes, np.int32) for _ in _COUNTS)
    return Memory(empty_rows(lanes, capacity, observation, action), values, np.full_like(values, np.nan), *counts)


def _filled(name: str, column: np.ndarray, filled: int) -> np.ndarray:
    """The filled rows of a column, as a view."""
    return column[:, :, :filled] if name in ("q_next", "planned") else column[:, :filled]


def row_bytes(observation: int, action: int, pairs: int) -> int:
    """Bytes of one row: two observations, action, reward, discount, last, and two values of each pair."""
    return 4 * (2 * observation + action + 2 + 2 * pairs) + 1


def _check_room(needed: int) -> None:
    """Raises if the machine could never hold so much."""
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > available:
        raise BadValue(
            f"the memory would take {needed / 1e9:,.1f} GB and this machine has {available / 1e9:,.1f}: set a smaller buffer_size"
        )


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
