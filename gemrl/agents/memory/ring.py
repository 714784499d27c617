"""The episodic memory: a ring of transitions in time order, one lane per environment, with their planned returns.

A lane holds the newest rows of one environment, so what survives overwriting is always the end of a trajectory. Rows are
added immediately but can be drawn only once their return is planned: `unplanned` counts the newest rows without one. The
functions are pure and run on the device; callers donate the memory, so that it is updated in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gemrl.agents.memory.frames import Frames, NewFrames, slots, stored
from gemrl.algorithms.planning import Planner
from gemrl.core.arrays import Array
from gemrl.core.layout import Layout
from gemrl.core.resources import Need, check_memory


class Rows(NamedTuple):
    """Transitions of E lanes. `discount` is gamma, or 0 if terminated; `last`: the trajectory cannot be followed further."""

    observation: Array  # [E, N, *O]
    action: Array  # [E, N, A]
    reward: Array  # [E, N]
    discount: Array  # [E, N]
    last: Array  # [E, N] bool
    next_observation: Array  # [E, N, *O]
    film: NewFrames | None = None
    """The images of new rows, if their observations are references to images."""

    def columns(self) -> dict[str, Array]:
        """Its columns by name."""
        return {name: getattr(self, name) for name in self._fields[:-1]}


def empty_rows(lanes: int, rows: int, layout: Layout) -> Rows:
    """Rows of zeros, on the host."""
    single, real = (lanes, rows), np.float32
    return Rows(
        np.zeros((*single, *layout.observation), layout.dtype),
        np.zeros((*single, layout.action), layout.action_dtype),
        np.zeros(single, real),
        np.zeros(single, real),
        np.zeros(single, bool),
        np.zeros((*single, *layout.observation), layout.dtype),
    )


VALUES = ("q_next", "planned", "q_stored", "q_other", "length", "gain", "nearest")
"""The columns of a memory with one entry per row and pair of critics; the last one has one per row and neighbour.

It has those after the first two only if its recipe uses them."""

FOLLOWED = ("length", "gain")
"""Those that describe a planned rollout, so that minibatches can compute its return."""


class Memory(eqx.Module):
    """The ring, with the values of next states and the planned returns of each pair of critics."""

    rows: Rows
    q_next: Array  # [K, E, N]
    planned: Array  # [K, E, N], NaN where not planned
    frames: Frames | None  # the images that rows refer to
    head: Array  # [E], where the next row goes
    size: Array  # [E], rows filled
    unplanned: Array  # [E], newest rows that were not planned yet
    q_stored: Array | None = None  # [K, E, N], the value of the action that was taken in the next state, if the planner uses it
    q_other: Array | None = None  # [K, E, N], the value of the best other action there, if the planner uses it
    length: Array | None = None  # [K, E, N], the steps of the planned rollout, 0 where not planned, if minibatches follow it
    gain: Array | None = None  # [K, E, N], the discounted sum of the rewards along it
    nearest: Array | None = None  # [J, E, N], the rows most similar to each row, if returns are averaged over neighbours

    @staticmethod
    def empty(
        lanes: int,
        capacity: int,
        layout: Layout,
        pairs: int,
        extra: Sequence[str] = (),
        neighbours: int = 0,
        *,
        host: bool = False,
    ) -> Memory:
        """A memory of `capacity` rows per lane: on the device, or on the host as numpy arrays that are written in place.

        `extra` names the columns that it has in addition: "q_stored", "q_other", "length", "gain".
        """
        check_memory([Need("rows", memory_bytes(lanes, capacity, layout, pairs, extra, neighbours), "buffer_size")])
        values = np.zeros((pairs, lanes, capacity), np.float32)
        head, size, unplanned = (np.zeros(lanes, np.int32) for _ in range(3))
        frames = Frames.empty(lanes, capacity, layout) if layout.kept_once else None
        rows = empty_rows(lanes, capacity, stored(layout))
        more = {name: np.zeros_like(values) for name in extra}
        more |= {"nearest": np.zeros((neighbours, lanes, capacity), np.int32)} if neighbours else {}
        memory = Memory(rows, values, np.full_like(values, np.nan), frames, head, size, unplanned, **more)
        return memory if host else jax.tree.map(jnp.array, memory)

    @property
    def capacity(self) -> int:
        """Rows per lane."""
        return self.rows.reward.shape[1]

    def observations(self, lane: Array, kept: Array) -> Array:
        """Observations [*S, *O] of rows in lanes [*S] from their stored form, which refers to images if these are kept once."""
        return kept if self.frames is None else self.frames.observations(lane, kept)

    def observation(self, lane: Array, position: Array) -> Array:
        """The observations of rows at these places [*S, *O]."""
        return self.observations(lane, self.rows.observation[lane, position])

    def next_observation(self, lane: Array, position: Array) -> Array:
        """Their next observations [*S, *O]."""
        return self.observations(lane, self.rows.next_observation[lane, position])

    def __len__(self) -> int:
        """Rows filled, over all lanes."""
        return int(self.size.sum())

    def lane(self, lane: int = 0) -> dict[str, np.ndarray]:
        """The rows of one lane, oldest first, with their `planned` returns and `q_next` [K, n]."""
        if not 0 <= lane < len(self.size):  # JAX would clamp the index
            raise IndexError(f"lane {lane} does not exist: the memory has lanes 0 to {len(self.size) - 1}")
        size, head = int(self.size[lane]), int(self.head[lane])
        order = (head - size + np.arange(size)) % self.capacity
        columns = {name: np.asarray(column[lane])[order] for name, column in self.rows.columns().items()}
        return columns | {name: np.asarray(column[:, lane])[:, order] for name, column in self.values().items()}

    def values(self) -> dict[str, Array]:
        """Its columns with one entry per row and pair [K, E, N], by name."""
        found = {name: getattr(self, name) for name in VALUES}
        return {name: column for name, column in found.items() if column is not None}

    @property
    def n_trajectories(self) -> int:
        """The number of trajectories over all lanes, partly overwritten ones included."""
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
        rows = self.lane(lane)
        planned = planned_rows(rows)
        lengths = np.zeros(rows["q_next"].shape, np.int32)
        if planned:
            inputs = {name: rows[name][..., :planned] for name in PLANNER_INPUTS if name in rows}
            lengths[:, :planned] = planner.chosen(**inputs)
        return lengths


def planned_rows(lane: dict[str, np.ndarray]) -> int:
    """How many rows of a lane, oldest first, have a planned return; it may still change where they count as unplanned."""
    return int((~np.isnan(lane["planned"][0])).sum())


def row_bytes(layout: Layout, pairs: int, extra: Sequence[str] = (), neighbours: int = 0) -> int:
    """Bytes of one row: two observations, action, reward, discount, last, two or more values of each pair, and one image.

    And the numbers of its neighbours."""
    kept = stored(layout)
    image = _image_bytes(layout) if layout.kept_once else 0
    return (
        image + 2 * kept.size * np.dtype(kept.dtype).itemsize + 4 * (kept.action + 2 + (2 + len(extra)) * pairs + neighbours) + 1
    )


def memory_bytes(lanes: int, capacity: int, layout: Layout, pairs: int, extra: Sequence[str] = (), neighbours: int = 0) -> int:
    """Bytes of a memory of `capacity` rows per lane, with the spare slots for images, without its few counters."""
    spare = (slots(capacity) - capacity) * _image_bytes(layout) if layout.kept_once else 0
    return lanes * (capacity * row_bytes(layout, pairs, extra, neighbours) + spare)


def column_bytes(lanes: int, capacity: int, layout: Layout, pairs: int, extra: Sequence[str] = (), neighbours: int = 0) -> int:
    """Bytes of the largest array of such a memory."""
    kept = stored(layout)
    images = slots(capacity) * _image_bytes(layout) if layout.kept_once else 0
    numbers = max(kept.size * np.dtype(kept.dtype).itemsize, 4 * kept.action, 4 * max(pairs, neighbours))
    return lanes * max(images, capacity * numbers)


def _image_bytes(layout: Layout) -> int:
    """Bytes of one image."""
    return layout.size // layout.frames * np.dtype(layout.dtype).itemsize


def insert(memory: Memory, new: Rows, count: Array) -> Memory:
    """The memory with the first count[e] rows of `new` [E, F] appended; F must not exceed the capacity."""
    capacity, lanes = memory.capacity, jnp.arange(memory.size.shape[0])[:, None]
    offset = jnp.arange(new.reward.shape[1])
    # Rows beyond the count get an index outside the ring, which a scatter drops.
    position = jnp.where(offset < count[:, None], (memory.head[:, None] + offset) % capacity, capacity)
    columns = new._replace(film=None)
    rows = jax.tree.map(lambda ring, block: ring.at[lanes, position].set(block, mode="drop"), memory.rows, columns)
    size, frames = jnp.minimum(memory.size + count, capacity), memory.frames
    if frames is not None and new.film is not None:
        frames = frames.appended(*new.film)
        # Many short episodes fill the image ring before the rows: the oldest rows are then dropped with their images.
        age = (memory.head[:, None] + count[:, None] - 1 - jnp.arange(capacity)) % capacity
        size = jnp.minimum(size, (frames.contains(rows.observation) & (age < size[:, None])).sum(axis=1))
    return Memory(
        rows,
        memory.q_next,
        memory.planned.at[:, lanes, position].set(jnp.nan, mode="drop"),
        frames,
        (memory.head + count) % capacity,
        size,
        jnp.minimum(memory.unplanned + count, size),
        memory.q_stored,
        memory.q_other,
        None if memory.length is None else memory.length.at[:, lanes, position].set(0, mode="drop"),
        memory.gain,
        memory.nearest,
    )


def cut(memory: Memory, lane: Array) -> Memory:
    """The memory with the newest row of `lane` marked as last: its trajectory was abandoned."""
    newest = (memory.head[lane] - 1) % memory.capacity
    rows = memory.rows._replace(last=memory.rows.last.at[lane, newest].set(memory.size[lane] > 0))
    return eqx.tree_at(lambda m: m.rows, memory, rows)


PLANNER_INPUTS = ("reward", "discount", "last", "q_next", "q_stored", "q_other")
"""The columns that planners take."""


class RowIndex(NamedTuple):
    """Rows of the memory: lane, position in its ring, and how many older rows the lane has. Each [*S]."""

    lane: Array
    position: Array
    offset: Array


def draw(memory: Memory, key: Array, shape: tuple[int, ...], *, planned: bool) -> RowIndex:
    """Rows drawn uniformly, with replacement, from all rows or from those with a planned return; `shape` is S."""
    ready = memory.size - memory.unplanned if planned else memory.size
    ends = jnp.cumsum(ready)
    flat = jax.random.randint(key, shape, 0, ends[-1])
    lane = jnp.searchsorted(ends, flat, side="right")
    offset = flat - (ends - ready)[lane]
    return RowIndex(lane, ((memory.head - memory.size)[lane] + offset) % memory.capacity, offset)
