"""The rows that drawn rows reach, draws of whole trajectories, and a refresh of no more rows than a round needs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemrl.agents.continuous import train_round
from gemrl.agents.drawing import draw_round
from gemrl.agents.learner import init_learner
from gemrl.agents.memory.reach import Pool, Trajectories, newest, reached
from gemrl.agents.memory.ring import Memory, RowIndex, empty_rows
from gemrl.algorithms.planning import LambdaReturn, NStep, Planner, Single, Stopping, Twin, TwinReleased
from gemrl.algorithms.targets import Planned
from tests.compiled import draw, insert, plan, refresh
from tests.test_continuous import LAYOUT, host, random_memory, random_rows, small

CAPACITY = 40


def ring(written: tuple[int, ...], seed: int = 0, extra: tuple[str, ...] = ()) -> Memory:
    """A memory of one lane for each of these numbers of rows, those beyond the capacity overwritten."""
    lanes = len(written)
    memory = Memory.empty(lanes, CAPACITY, LAYOUT, 2, extra)
    for start in range(0, max(written), CAPACITY):
        count = np.clip(np.array(written) - start, 0, CAPACITY).astype(np.int32)
        memory = insert(memory, random_rows(CAPACITY, seed=seed + start, lanes=lanes), count)
    return memory


def in_time(memory: Memory, lane: int) -> np.ndarray:
    """Where trajectories of a lane end, oldest row first."""
    return memory.lane(lane)["last"]


@pytest.mark.parametrize("written", [(25,), (40,), (67,), (25, 67, 1), (40, 40)])
def test_trajectories_are_the_rows_between_two_ends(written: tuple[int, ...]) -> None:
    memory = ring(written)
    found = Trajectories.of(memory)
    for lane in range(len(written)):
        last = in_time(memory, lane)
        for row in range(len(last)):
            first = next((t + 1 for t in range(row - 1, -1, -1) if last[t]), 0)
            end = next((t for t in range(row, len(last)) if last[t]), len(last) - 1)
            assert (found.first[lane, row], found.last[lane, row]) == (first, end)


@pytest.mark.parametrize("depth", [1, 2, 5, 1000])
@pytest.mark.parametrize("written", [(25,), (67,), (25, 67)])
def test_reached_rows_are_those_that_a_rollout_uses(depth: int, written: tuple[int, ...]) -> None:
    memory = ring(written, seed=3)
    drawn = draw(memory, jax.random.key(0), (6,), planned=False)
    expected = np.zeros((len(written), CAPACITY), bool)
    for lane, row in zip(np.asarray(drawn.lane), np.asarray(drawn.offset), strict=True):
        last = in_time(memory, lane)
        for t in range(row, min(row + depth, len(last))):
            expected[lane, t] = True
            if last[t]:
                break
    np.testing.assert_array_equal(reached(memory, drawn, depth), expected)


def test_the_newest_rows_of_each_lane() -> None:
    found = np.asarray(newest(ring((25, 67)), jnp.array([3, 2])))
    assert [list(np.flatnonzero(lane)) for lane in found] == [[22, 23, 24], [38, 39]]


def drawn_rows(memory: Memory, rows: int, keys: int = 400, each: int = 50) -> RowIndex:
    """Rows [keys, each] from as many pools."""

    def one(key: Any) -> RowIndex:
        first, second = jax.random.split(key)
        return Pool.drawn(memory, first, rows).draw(memory, second, (each,))

    return jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(5), keys))


def test_over_all_pools_rows_are_drawn_uniformly() -> None:
    memory = ring((25, 67), seed=1)
    found = drawn_rows(memory, rows=20)
    number = np.where(np.asarray(found.lane) == 0, 0, 25) + np.asarray(found.offset)
    counts = np.bincount(number.ravel(), minlength=65)
    assert len(counts) == 65
    # Rows of one pool are drawn together, so counts vary more than those of independent draws.
    share = np.array([(number == row).mean(axis=1) for row in range(65)])
    error = share.std(axis=1, ddof=1) / np.sqrt(len(number))
    assert (np.abs(share.mean(axis=1) - 1 / 65) < 5 * error).all()


def test_a_pool_has_few_whole_trajectories() -> None:
    memory = ring((40,), seed=2)
    rows, ends = 20, np.flatnonzero(in_time(memory, 0)[:-1])
    lengths = np.diff([-1, *ends, 39])
    trajectories = len(lengths)
    found = drawn_rows(memory, rows)
    first = np.asarray(Trajectories.of(memory).first)[0][np.asarray(found.offset)]
    most = int(np.ceil(rows / ((lengths**2).sum() / 40)))
    assert 1 < max(len(set(pool)) for pool in first) <= most < trajectories
    position = (np.asarray(memory.head)[0] - 40 + np.asarray(found.offset)) % CAPACITY
    np.testing.assert_array_equal(position, found.position)


def test_a_pool_has_about_as_many_rows_as_wanted_however_long_its_trajectories_are() -> None:
    """Some are 30 times as long as others, and drawn 30 times as often."""
    capacity, lengths = 4000, [60, 2] * 64
    last = np.zeros((1, capacity), bool)
    last[0, np.cumsum(lengths) - 1] = True
    filled = sum(lengths)
    rows = empty_rows(1, capacity, LAYOUT)._replace(last=last)
    memory = insert(Memory.empty(1, capacity, LAYOUT, 2), rows, jnp.array([filled]))
    pools = jax.vmap(lambda key: Pool.drawn(memory, key, 600))(jax.random.split(jax.random.key(0), 300))
    used = np.arange(600) < np.asarray(pools.count)[:, None]
    totals = (np.asarray(pools.length) * used).sum(axis=1)
    assert abs(totals.mean() - 600) < 60  # it is rounded up to whole trajectories
    assert (np.asarray(pools.count) == 11).all()


def test_a_small_memory_is_drawn_from_as_a_whole() -> None:
    memory = ring((25,))
    pool = Pool.drawn(memory, jax.random.key(0), 25)
    assert bool(pool.whole)
    index, everywhere = pool.draw(memory, jax.random.key(1), (50,)), draw(memory, jax.random.key(1), (50,), planned=False)
    np.testing.assert_array_equal(index.offset, everywhere.offset)


PLANNERS = [Twin(3), Twin(1000), Single(4), NStep(3), LambdaReturn(0.9, 4), Stopping(7), TwinReleased(5)]


@pytest.mark.parametrize("written", [(33,), (33, 67)], ids=["one lane", "two lanes"])
@pytest.mark.parametrize("planner", PLANNERS, ids=repr)
def test_drawn_rows_get_the_returns_of_a_whole_refresh(planner: Planner, written: tuple[int, ...]) -> None:
    """Other rows keep older values, which must not matter: here they are NaN."""
    recipe = small(targets=Planned(planner), batch_size=4, gradient_steps=2)
    learner = init_learner(recipe, LAYOUT, seed=2)
    memory = ring(written, extra=planner.extra)
    drawn = draw_round(recipe, memory, jax.random.key(1)).rows
    wanted = reached(memory, drawn, planner.rollout_cap)
    whole = plan(refresh(recipe, learner, memory, memory.size, jax.random.key(0)), planner)
    unknown = jax.tree.map(lambda x: jnp.full_like(x, jnp.nan), (memory.q_next, memory.q_stored))
    blank = memory.__class__(**(vars(memory) | {"q_next": unknown[0], "q_stored": unknown[1]}))
    part = plan(refresh(recipe, learner, blank, wanted, jax.random.key(0)), planner)
    at = drawn.lane, drawn.position
    if planner.rollout_cap <= 3:
        assert int(wanted.sum()) < int(memory.size.sum())
    assert np.isfinite(np.asarray(part.planned[:, *at])).all()
    np.testing.assert_allclose(part.planned[:, *at], whole.planned[:, *at], rtol=1e-5, atol=1e-6)


def test_a_round_learns_the_same_from_fewer_rows() -> None:
    """Targets that move rarely need values of all rows; here one round of each is compared, in which they move."""
    fewer = small(batch_size=4, gradient_steps=3)
    all_rows = fewer.but(target_update_interval=fewer.train_freq + 1)
    assert fewer.moves_every_round
    assert not all_rows.moves_every_round
    before = np.asarray(random_memory().q_next)
    (learner, memory), (expected, whole) = (
        train_round(recipe, init_learner(recipe, LAYOUT, 1), random_memory(), random_rows(5), np.array([5]), True)[:2]
        for recipe in (fewer, all_rows)
    )
    for ours, theirs in zip(jax.tree.leaves(host(learner.critics)), jax.tree.leaves(host(expected.critics)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    kept = (np.asarray(memory.q_next) == before)[0, 0, :40]
    assert 0 < kept.sum() < 40
    assert not (np.asarray(whole.q_next) == before)[0, 0, :40].any()
    assert (np.asarray(memory.q_next)[:, 0, 40:45] == np.asarray(whole.q_next)[:, 0, 40:45]).mean() > 0.9  # new rows are valued
