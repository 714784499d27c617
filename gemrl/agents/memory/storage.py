"""Snapshots of the memory: saves its filled rows as named arrays, and restores them."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from gemrl.agents.memory.ring import VALUES, Memory, column_bytes, memory_bytes
from gemrl.core.arrays import Array
from gemrl.core.exceptions import ModelFileError
from gemrl.core.layout import Layout
from gemrl.core.resources import Need, check_memory
from gemrl.core.snapshot import Snapshot, fitting

_COUNTS = ("head", "size", "unplanned")


def snapshot_of(memory: Memory) -> Snapshot:
    """A snapshot of the filled rows; it copies nothing if the device is the host."""
    # If its head differs from its size, a lane has wrapped and may use every row; else rows from the head on were never written.
    wrapped = bool((np.asarray(memory.head) != np.asarray(memory.size)).any())
    filled = memory.capacity if wrapped else int(memory.size.max())
    arrays = {name: _filled(name, np.asarray(column), filled) for name, column in _columns(memory).items()}
    counts = {name: np.asarray(getattr(memory, name)) for name in _COUNTS}
    images = memory.frames.used if memory.frames is not None else 0
    return Snapshot({"filled": filled, "images": images}, arrays | counts | _images(memory, images))


def restored(
    saved: Snapshot,
    lanes: int,
    capacity: int,
    layout: Layout,
    pairs: int,
    extra: Sequence[str] = (),
    neighbours: int = 0,
    *,
    host: bool = False,
) -> Memory:
    """The memory of this shape, restored from a snapshot."""
    shape = lanes, capacity, layout, pairs, extra, neighbours
    copies = 0 if host else memory_bytes(*shape) + column_bytes(*shape)  # it is filled on the host, then copied to the device
    check_memory([Need("rows", memory_bytes(*shape), "buffer_size"), Need("copying them", copies, "buffer_size")])
    filled, memory = saved.facts["filled"], Memory.empty(*shape, host=True)
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
            raise ModelFileError(f"array {name} is out of range for a memory of {capacity} rows")
        wanted[name][...] = array
    return memory if host else jax.tree.map(jnp.array, memory)


def _columns(memory: Memory) -> dict[str, Array]:
    """All arrays with one entry per row, by name."""
    return memory.rows.columns() | memory.values()


def _images(memory: Memory, count: int) -> dict[str, np.ndarray]:
    """The first `count` slots for images, and how many images were ever written, by name."""
    if memory.frames is None:
        return {}
    return {"frames": np.asarray(memory.frames.pixels)[:, :count], "frames_written": np.asarray(memory.frames.written)}


def _filled(name: str, column: np.ndarray, filled: int) -> np.ndarray:
    """The filled rows of a column, as a view."""
    return column[:, :, :filled] if name in VALUES else column[:, :filled]
