"""The ring: what survives, what can be drawn, what people see."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from gemrl.environments import Transition
from gemrl.memory import Memory, Rows, Staging, cut, empty_rows, insert, plan, sample
from gemrl.planning import NStep, Twin


def block(start: int, count: int, ends: tuple[int, ...] = (), lanes: int = 1) -> Rows:
    """Rows numbered from `start`, the number being observation and reward; `ends` are the numbers of last rows."""
    rows = empty_rows(lanes, count, 1, 1)
    numbers = start + np.arange(count)
    rows.observation[:] = numbers[:, None]
    rows.reward[:] = numbers
    rows.discount[:] = 1.0
    rows.last[:] = np.isin(numbers, ends)
    return rows


def filled(total: int, capacity: int, ends: tuple[int, ...] = (), width: int = 3) -> Memory:
    """A memory that saw rows 0..total-1 in blocks of `width`."""
    memory = Memory.empty(1, capacity, 1, 1, 2)
    for start in range(0, total, width):
        count = min(width, total - start)
        memory = insert(memory, block(start, width, ends), jnp.array([count]))
    return memory


def test_the_newest_rows_survive_in_order() -> None:
    for total in (1, 5, 7, 8, 20):
        memory = filled(total, 7)
        assert len(memory) == min(total, 7)
        np.testing.assert_array_equal(memory.lane()["reward"], np.arange(max(0, total - 7), total))


def test_survivors_are_suffixes_of_trajectories() -> None:
    memory = plan(filled(10, 7, ends=(4, 8)), NStep(100))
    # Rows 3..9 survive: the end of one trajectory, a whole one, and a running one. Sums never cross an ending.
    assert memory.n_trajectories == 3
    np.testing.assert_allclose(memory.planned_returns()[0], [3 + 4, 4, 5 + 6 + 7 + 8, 6 + 7 + 8, 7 + 8, 8, 9])
    np.testing.assert_array_equal(memory.chosen_lengths(NStep(100))[0], [2, 1, 4, 3, 2, 1, 1])


def test_a_row_that_was_not_planned_is_never_drawn() -> None:
    memory = plan(filled(6, 10), Twin(3))
    memory = insert(memory, block(6, 3), jnp.array([3]))
    assert np.isnan(memory.planned_returns()[:, 6:]).all()
    assert np.isfinite(memory.planned_returns()[:, :6]).all()
    drawn = sample(memory, jax.random.key(0), (5000,))
    assert set(np.unique(drawn.observation)) == set(range(6))
    assert np.isfinite(drawn.planned).all()
    drawn = sample(plan(memory, Twin(3)), jax.random.key(0), (5000,))
    assert set(np.unique(drawn.observation)) == set(range(9))


def test_a_row_that_overwrites_a_planned_one_is_never_drawn_either() -> None:
    memory = plan(filled(10, 10), Twin(3))
    memory = insert(memory, block(10, 3), jnp.array([2]))
    drawn = sample(memory, jax.random.key(0), (5000,))
    assert set(np.unique(drawn.observation)) == set(range(2, 10))


def test_sampling_is_uniform_over_lanes_of_different_length() -> None:
    memory = Memory.empty(2, 50, 1, 1, 2)
    first, second = block(0, 40), block(100, 40)
    rows = jax.tree.map(lambda a, b: np.concatenate([a, b]), first, second)
    memory = plan(insert(memory, rows, jnp.array([40, 10])), Twin(3))
    drawn = np.asarray(sample(memory, jax.random.key(3), (50_000,)).observation).ravel()
    numbers, counts = np.unique(drawn, return_counts=True)
    assert set(numbers) == {*range(40), *range(100, 110)}
    assert abs(counts - 1000).max() < 6 * np.sqrt(1000)  # binomial: 6 standard deviations


def test_each_row_is_drawn_with_its_own_return() -> None:
    memory = plan(filled(23, 10), NStep(1))
    drawn = sample(memory, jax.random.key(1), (3, 100))
    assert drawn.observation.shape == (3, 100, 1)
    np.testing.assert_array_equal(drawn.planned[0], drawn.observation[..., 0])


def test_an_abandoned_trajectory_is_cut() -> None:
    memory = cut(filled(5, 10), jnp.array(0))
    memory = plan(insert(memory, block(5, 3), jnp.array([3])), NStep(100))
    assert memory.n_trajectories == 2
    np.testing.assert_allclose(memory.planned_returns()[0][:5], [10, 10, 9, 7, 4])
    assert not cut(Memory.empty(1, 4, 1, 1, 2), jnp.array(0)).rows.last.any()


def test_an_empty_memory_can_be_looked_into() -> None:
    memory = Memory.empty(1, 4, 1, 1, 2)
    assert (len(memory), memory.n_trajectories) == (0, 0)
    assert memory.chosen_lengths(Twin(3)).shape == (2, 0)


def test_staging_tells_death_from_time_limit() -> None:
    staging = Staging(1, 3, 1, 1)
    for terminated, truncated in ((False, False), (True, False), (False, True)):
        one = np.ones((1, 1), np.float32)
        staging.add(Transition(one, one, np.ones(1), np.array([terminated]), np.array([truncated]), 2 * one), 0.9)
    assert staging.full
    rows, count = staging.take()
    np.testing.assert_allclose(rows.discount[0], [0.9, 0.0, 0.9])
    np.testing.assert_array_equal(rows.last[0], [False, True, True])
    np.testing.assert_array_equal(count, [3])
    assert not staging.full
