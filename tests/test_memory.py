"""The ring of the memory: which rows survive, which can be drawn, and how it is read."""

from __future__ import annotations

import platform
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemrl.agents.memory.ring import Memory, Rows, empty_rows, row_bytes
from gemrl.agents.memory.sampling import segment
from gemrl.agents.memory.staging import Staging
from gemrl.algorithms.planning import NStep, Twin
from gemrl.core.layout import Layout
from gemrl.core.steps import Transition
from tests.compiled import cut, draw, insert, plan


def block(start: int, count: int, ends: tuple[int, ...] = (), lanes: int = 1) -> Rows:
    """Rows numbered from `start`; the number is both observation and reward. `ends` are the numbers of last rows."""
    rows = empty_rows(lanes, count, Layout((1,)))
    numbers = start + np.arange(count)
    rows.observation[:] = numbers[:, None]
    rows.reward[:] = numbers
    rows.discount[:] = 1.0
    rows.last[:] = np.isin(numbers, ends)
    return rows


def filled(total: int, capacity: int, ends: tuple[int, ...] = (), width: int = 3) -> Memory:
    """A memory to which rows 0..total-1 were added in blocks of `width`."""
    memory = Memory.empty(1, capacity, Layout((1,)), 2)
    for start in range(0, total, width):
        count = min(width, total - start)
        memory = insert(memory, block(start, width, ends), jnp.array([count]))
    return memory


def drawn_numbers(memory: Memory, seed: int = 0, count: int = 5000, *, planned: bool = True) -> np.ndarray:
    """The numbers of drawn rows."""
    index = draw(memory, jax.random.key(seed), (count,), planned=planned)
    assert np.isfinite(memory.planned[:, index.lane, index.position]).all() or not planned
    return np.asarray(memory.rows.reward[index.lane, index.position])


def test_the_newest_rows_survive_in_order() -> None:
    for total in (1, 5, 7, 8, 20):
        memory = filled(total, 7)
        assert len(memory) == min(total, 7)
        np.testing.assert_array_equal(memory.lane()["reward"], np.arange(max(0, total - 7), total))


def test_overwritten_trajectories_keep_their_ends() -> None:
    memory = plan(filled(10, 7, ends=(4, 8)), NStep(100))
    # Rows 3..9 survive: the end of one trajectory, a whole one, and a running one. No sum crosses the end of a trajectory.
    assert memory.n_trajectories == 3
    np.testing.assert_allclose(memory.planned_returns()[0], [3 + 4, 4, 5 + 6 + 7 + 8, 6 + 7 + 8, 7 + 8, 8, 9])
    np.testing.assert_array_equal(memory.chosen_lengths(NStep(100))[0], [2, 1, 4, 3, 2, 1, 1])


def test_unplanned_rows_are_never_drawn() -> None:
    memory = plan(filled(6, 10), Twin(3))
    memory = insert(memory, block(6, 3), jnp.array([3]))
    assert np.isnan(memory.planned_returns()[:, 6:]).all()
    assert (memory.chosen_lengths(Twin(3))[:, 6:] == 0).all()
    assert (memory.chosen_lengths(Twin(3))[:, :6] > 0).all()
    assert np.isfinite(memory.planned_returns()[:, :6]).all()
    assert set(drawn_numbers(memory)) == set(range(6))
    assert set(drawn_numbers(memory, planned=False)) == set(range(9))  # Fresh targets need no planned returns
    assert set(drawn_numbers(plan(memory, Twin(3)))) == set(range(9))


def test_unplanned_rows_that_overwrite_planned_ones_are_never_drawn() -> None:
    memory = plan(filled(10, 10), Twin(3))
    memory = insert(memory, block(10, 3), jnp.array([2]))
    assert set(drawn_numbers(memory)) == set(range(2, 10))


def test_sampling_is_uniform_over_lanes_of_different_length() -> None:
    memory = Memory.empty(2, 50, Layout((1,)), 2)
    first, second = block(0, 40), block(100, 40)
    rows = jax.tree.map(lambda a, b: np.concatenate([a, b]), first, second)
    memory = plan(insert(memory, rows, jnp.array([40, 10])), Twin(3))
    numbers, counts = np.unique(drawn_numbers(memory, 3, 50_000), return_counts=True)
    assert set(numbers) == {*range(40), *range(100, 110)}
    assert abs(counts - 1000).max() < 6 * np.sqrt(1000)  # binomial: 6 standard deviations


def test_a_row_index_has_position_and_offset() -> None:
    memory = plan(filled(23, 10), NStep(1))
    index = draw(memory, jax.random.key(1), (3, 100), planned=True)
    numbers = memory.rows.reward[index.lane, index.position]
    assert numbers.shape == (3, 100)
    np.testing.assert_array_equal(index.offset, numbers - 13)  # rows 13..22 survive
    np.testing.assert_array_equal(memory.planned[0, index.lane, index.position], numbers)


def test_a_segment_follows_the_ring_up_to_the_newest_row() -> None:
    memory = filled(23, 10, ends=(17,))
    index = draw(memory, jax.random.key(1), (200,), planned=False)
    ahead = segment(memory, index, 4)
    numbers = np.asarray(memory.rows.reward[index.lane, index.position])
    for row, first in enumerate(numbers):
        exists = first + np.arange(4) <= 22
        np.testing.assert_array_equal(ahead.reward[row][exists], (first + np.arange(4))[exists])
        np.testing.assert_array_equal(ahead.last[row][exists], np.isin(first + np.arange(4), (17, 22))[exists])


def test_an_abandoned_trajectory_is_cut() -> None:
    memory = cut(filled(5, 10), jnp.array(0))
    memory = plan(insert(memory, block(5, 3), jnp.array([3])), NStep(100))
    assert memory.n_trajectories == 2
    np.testing.assert_allclose(memory.planned_returns()[0][:5], [10, 10, 9, 7, 4])
    assert not cut(Memory.empty(1, 4, Layout((1,)), 2), jnp.array(0)).rows.last.any()


def test_a_lane_that_does_not_exist_is_refused() -> None:
    """JAX would clamp the index."""
    for wrong in (1, -1):
        with pytest.raises(IndexError, match=f"lane {wrong} does not exist"):
            Memory.empty(1, 10, Layout((1,)), 2).lane(wrong)


def test_an_empty_memory_can_be_read() -> None:
    memory = Memory.empty(1, 4, Layout((1,)), 2)
    assert (len(memory), memory.n_trajectories) == (0, 0)
    assert memory.chosen_lengths(Twin(3)).shape == (2, 0)


def test_staging_distinguishes_termination_from_truncation() -> None:
    staging = Staging(1, 3, Layout((1,)))
    for terminated, truncated in ((False, False), (True, False), (False, True)):
        one = np.ones((1, 1), np.float32)
        staging.add(
            Transition(one, one, np.ones(1), np.array([terminated]), np.array([truncated]), 2 * one, np.ones(1, bool)), 0.9
        )
    assert staging.full
    rows, count = staging.take()
    np.testing.assert_allclose(rows.discount[0], [0.9, 0.0, 0.9])
    np.testing.assert_array_equal(rows.last[0], [False, True, True])
    np.testing.assert_array_equal(count, [3])
    assert not staging.full


def test_staging_skips_lanes_that_were_only_reset() -> None:
    staging = Staging(2, 3, Layout((1,)))
    for number, stored in ((1, (True, True)), (2, (True, False)), (3, (True, True))):
        values, no = np.full((2, 1), number, np.float32), np.zeros(2, bool)
        staging.add(Transition(values, values, values[:, 0], no, no, values, np.array(stored)), 0.9)
    rows, count = staging.take()
    np.testing.assert_array_equal(count, [3, 2])
    np.testing.assert_array_equal(rows.reward[0], [1, 2, 3])
    np.testing.assert_array_equal(rows.reward[1, :2], [1, 3])


def test_row_bytes_is_the_size_of_a_row() -> None:
    memory = Memory.empty(2, 50, Layout((17,), 6), 2)
    counts = sum(getattr(memory, name).nbytes for name in ("head", "size", "unplanned"))
    assert sum(array.nbytes for array in jax.tree.leaves(memory)) - counts == 100 * row_bytes(Layout((17,), 6), 2)


COUNT_PAGE_FAULTS = """
import ctypes, resource, sys, threading
from gemrl.core.heap import keep_memory
if sys.argv[1] == "keep":
    keep_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
def work():
    for _ in range(5):
        pointer = libc.malloc(100_000_000)
        ctypes.memset(pointer, 1, 100_000_000)
        libc.free(pointer)
def page_faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
work()
before, thread = page_faults(), threading.Thread(target=work)  # XLA computes in its own threads
thread.start()
thread.join()
print(page_faults() - before)
"""


def page_faults(mode: str) -> int:
    return int(subprocess.run([sys.executable, "-c", COUNT_PAGE_FAULTS, mode], capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_freed_memory_is_reused_without_page_faults() -> None:
    """A process that allocates and frees 100 MB again and again."""
    assert page_faults("keep") < page_faults("return") / 10


MEASURE_GROWTH = """
import resource
from gemrl.training.models import GEM
from tests.probes import Truncated
small = dict(net_arch=(8,), buffer_size=2000, learning_starts=100, train_freq=500, gradient_steps=2, target_update_interval=500)
model = GEM(Truncated(), seed=0, **small)
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
model.learn(2_500)
for part in range(5):
    before = resident()
    model.learn(3_000, reset_num_timesteps=False)
    print(resident() - before)
"""


def test_resident_memory_does_not_grow() -> None:
    """Once the ring is full. A leak would show in every part of the training; the allocator settles after some."""
    shown = subprocess.run([sys.executable, "-c", MEASURE_GROWTH], capture_output=True, text=True, check=True).stdout
    assert min(int(line) for line in shown.split()) < 64_000  # leaking one Python float per step would be 96,000
