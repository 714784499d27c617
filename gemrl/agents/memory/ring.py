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

from gemrl.agents.memory.frames import Frames, NewFrames, stored
from gemrl.algorithms.planning import Planner
from gemrl.core.arrays import Array
from gemrl.core.exceptions import ModelFileError
from gemrl.core.layout import Layout
from gemrl.core.snapshot import Snapshot, fitting
from gemrl.core.validation import check_memory


class Rows(NamedTuple):
    """Transitions of E lanes. `discount` is gamma, or 0 if terminated; `last`: the trajectory cannot be followed further."""

    observation: Array  # [E, N, *O]
    action: Array  # [E, N, A]
    reward: Array  # [E, N]
    discount: Array  # [E, N]
    last: Array  # [E, N] bool
    next_observation: Array  # [E, N, *O]
    film: NewFrames | None = None
    """Images that came with new rows, if their observations are references to images."""

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


class Memory(eqx.Module):
    """The ring, with the values of next states and the planned returns of each pair of critics."""

    rows: Rows
    q_next: Array  # [K, E, N]
    planned: Array  # [K, E, N], NaN where not planned
    frames: Frames | None  # what references mean
    head: Array  # [E], where the next row goes
    size: Array  # [E], rows filled
    unplanned: Array  # [E], newest rows that were not planned yet

    @staticmethod
    def empty(lanes: int, capacity: int, layout: Layout, pairs: int, *, host: bool = False) -> Memory:
        """A memory of `capacity` rows per lane: on the device, or on the host, of numpy arrays to be written to in place."""
        check_memory(lanes * capacity * row_bytes(layout, pairs), "buffer_size")
        memory = _empty(lanes, capacity, layout, pairs)
        return memory if host else jax.tree.map(jnp.array, memory)

    @property
    def capacity(self) -> int:
        """Rows per lane."""
        return self.rows.reward.shape[1]

    def observations(self, lane: Array, kept: Array, frames: int) -> Array:
        """What was seen [*S, *O], of what the rows of lanes [*S] kept of it: stacks of `frames` images, or the same."""
        return kept if self.frames is None else self.frames.stacks(lane, kept, frames)

    def snapshot(self) -> Snapshot:
        """Its filled rows, without a copy where the device is the host."""
        # A lane whose head is not at its size has wrapped: its rows may stand anywhere. Else those beyond were never written.
        wrapped = bool((np.asarray(self.head) != np.asarray(self.size)).any())
        filled = self.capacity if wrapped else int(self.size.max())
        arrays = {name: _filled(name, np.asarray(column), filled) for name, column in _columns(self).items()}
        counts = {name: np.asarray(getattr(self, name)) for name in _COUNTS}
        images = self.frames.used if self.frames is not None else 0
        return Snapshot({"filled": filled, "images": images}, arrays | counts | _images(self, images))

    @staticmethod
    def restored(saved: Snapshot, lanes: int, capacity: int, layout: Layout, pairs: int, *, host: bool = False) -> Memory:
        """The memory of this shape whose snapshot was taken."""
        check_memory(lanes * capacity * row_bytes(layout, pairs), "buffer_size")
        filled, memory = saved.facts["filled"], _empty(lanes, capacity, layout, pairs)
        if not isinstance(filled, int) or not 0 <= filled <= capacity:
            raise ModelFileError(f"a memory of {capacity} rows cannot hold {filled}")
        room = memory.frames.pixels.shape[1] if memory.frames is not None else 0
        images = saved.facts.get("images", room)
        if not isinstance(images, int) or not 0 <= images <= room:
            raise ModelFileError(f"a memory with room for {room} images cannot hold {images}")
        counts = {name: getattr(memory, name) for name in _COUNTS}
        wanted = {name: _filled(name, column, filled) for name, column in _columns(memory).items()}
        wanted |= counts | _images(memory, images)
        for name, array in fitting(saved.arrays, wanted).items():
            if name in counts and not ((array >= 0) & (array <= capacity)).all():
                raise ModelFileError(f"array {name} counts beyond a memory of {capacity} rows")
            wanted[name][...] = array
        return memory if host else jax.tree.map(jnp.array, memory)

    def __len__(self) -> int:
        """Rows filled, over all lanes."""
        return int(self.size.sum())

    def lane(self, lane: int = 0) -> dict[str, np.ndarray]:
        """The rows of one lane, oldest first, with their `planned` returns and `q_next` [K, n]."""
        if not 0 <= lane < len(self.size):  # JAX would take the nearest one
            raise IndexError(f"the memory has lanes 0 to {len(self.size) - 1}, so none of number {lane}")
        size, head = int(self.size[lane]), int(self.head[lane])
        order = (head - size + np.arange(size)) % self.capacity
        columns = {name: np.asarray(column[lane])[order] for name, column in self.rows.columns().items()}
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


def _empty(lanes: int, capacity: int, layout: Layout, pairs: int) -> Memory:
    """A memory on the host, each array its own."""
    values = np.zeros((pairs, lanes, capacity), np.float32)
    counts = (np.zeros(lanes, np.int32) for _ in _COUNTS)
    frames = Frames.empty(lanes, capacity, layout) if layout.frames > 1 else None
    return Memory(empty_rows(lanes, capacity, stored(layout)), values, np.full_like(values, np.nan), frames, *counts)


def _columns(memory: Memory) -> dict[str, Array]:
    """All that has a value per row, by name."""
    return memory.rows.columns() | {"q_next": memory.q_next, "planned": memory.planned}


def _images(memory: Memory, count: int) -> dict[str, np.ndarray]:
    """The first so many places for images that rows refer to, and how many were ever written, by name."""
    if memory.frames is None:
        return {}
    return {"frames": np.asarray(memory.frames.pixels)[:, :count], "frames_written": np.asarray(memory.frames.written)}


def _filled(name: str, column: np.ndarray, filled: int) -> np.ndarray:
    """The filled rows of a column, as a view."""
    return column[:, :, :filled] if name in ("q_next", "planned") else column[:, :filled]


def row_bytes(layout: Layout, pairs: int) -> int:
    """Bytes of one row: two observations, action, reward, discount, last, two values of each pair, and an image it refers to."""
    kept = stored(layout)
    image = layout.size // layout.frames if layout.frames > 1 else 0
    return image + 2 * kept.size * np.dtype(kept.dtype).itemsize + 4 * (kept.action + 2 + 2 * pairs) + 1


def insert(memory: Memory, new: Rows, count: Array) -> Memory:
    """The memory with the first count[e] rows of `new` [E, F] behind its newest ones; F must not exceed the capacity."""
    capacity, lanes = memory.capacity, jnp.arange(memory.size.shape[0])[:, None]
    offset = jnp.arange(new.reward.shape[1])
    # Rows beyond the count get an index outside the ring, which a scatter drops.
    position = jnp.where(offset < count[:, None], (memory.head[:, None] + offset) % capacity, capacity)
    columns = new._replace(film=None)
    rows = jax.tree.map(lambda ring, block: ring.at[lanes, position].set(block, mode="drop"), memory.rows, columns)
    size, frames = jnp.minimum(memory.size + count, capacity), memory.frames
    if frames is not None and new.film is not None:
        frames = frames.pushed(*new.film)
        # After many short episodes images run out before rows do: the oldest rows are forgotten with their images.
        age = (memory.head[:, None] + count[:, None] - 1 - jnp.arange(capacity)) % capacity
        size = jnp.minimum(size, (frames.hold(rows.observation) & (age < size[:, None])).sum(axis=1))
    return Memory(
        rows,
        memory.q_next,
        memory.planned.at[:, lanes, position].set(jnp.nan, mode="drop"),
        frames,
        (memory.head + count) % capacity,
        size,
        jnp.minimum(memory.unplanned + count, size),
    )


def cut(memory: Memory, lane: Array) -> Memory:
    """The memory with the newest row of `lane` marked as last: its trajectory was abandoned."""
    newest = (memory.head[lane] - 1) % memory.capacity
    rows = memory.rows._replace(last=memory.rows.last.at[lane, newest].set(memory.size[lane] > 0))
    return eqx.tree_at(lambda m: m.rows, memory, rows)
