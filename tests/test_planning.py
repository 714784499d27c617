"""Planners compared with a brute-force definition that shares no code with them."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from gemrl.agents.memory.refreshing import plan
from gemrl.agents.memory.ring import Memory, empty_rows, insert
from gemrl.algorithms.planning import LambdaReturn, NStep, Planner, Single, Stopping, Twin, TwinReleased
from gemrl.core.exceptions import BadValue
from gemrl.core.layout import Layout

Trajectories = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def rollouts(reward: np.ndarray, discount: np.ndarray, last: np.ndarray, q: np.ndarray, t: int, depth: int) -> list[float]:
    """V[t, 1], V[t, 2], ... by walking along the trajectory, for one estimate q [N]."""
    values, total, factor = [], 0.0, 1.0
    for row in range(t, min(t + depth, len(reward))):
        total += factor * reward[row]
        factor *= discount[row]
        values.append(total + factor * q[row])
        if last[row]:
            break
    return values


def first_best(values: list[float]) -> int:
    return max(range(len(values)), key=lambda h: (values[h], -h))


def brute(planner: Planner, data: Trajectories) -> tuple[np.ndarray, np.ndarray]:
    """Returns and lengths [K, N] by definition."""
    reward, discount, last, q_next = data
    returns, lengths = np.empty(q_next.shape), np.empty(q_next.shape, int)
    for k in range(len(q_next)):
        for t in range(len(reward)):
            own = rollouts(reward, discount, last, q_next[k], t, planner.rollout_cap)
            if isinstance(planner, NStep):
                value, h = own[-1], len(own) - 1
            elif isinstance(planner, LambdaReturn):
                weights = [(1 - planner.lam) * planner.lam**i for i in range(len(own) - 1)] + [planner.lam ** (len(own) - 1)]
                value, h = float(np.dot(weights, own)), len(own) - 1
            elif isinstance(planner, Single):
                h = first_best(own)
                value = own[h]
            else:
                other = rollouts(reward, discount, last, q_next[1 - k], t, planner.rollout_cap)
                if isinstance(planner, TwinReleased) and len(own) < planner.depth and last[t + len(own) - 1]:
                    end = rollouts(reward, discount, last, np.zeros(len(reward)), t, planner.depth)[-1]
                    own, other = [*own, end], [*other, end]
                h = first_best(own)
                value = other[h]
                if isinstance(planner, TwinReleased) and own[0] > value:
                    value, h = own[0], 0
            returns[k, t], lengths[k, t] = value, h + 1
    return returns, lengths


def stopped(planner: Stopping, data: Trajectories, q_stored: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns and lengths [2, N] of the stopping rule by definition: one row at a time, without looking at later rewards."""
    reward, discount, last, q_next = data
    returns, lengths = np.empty(q_next.shape), np.empty(q_next.shape, int)
    for k in range(2):
        for t in range(len(reward)):
            end = t
            while end + 1 - t < planner.depth and not last[end] and end + 1 < len(reward):
                if q_stored[k, end] < q_next[k, end] - planner.margin:
                    break
                end += 1
            returns[k, t] = rollouts(reward, discount, last, q_next[1 - k], t, end - t + 1)[-1]
            lengths[k, t] = end - t + 1
    return returns, lengths


@st.composite
def trajectories(draw: st.DrawFn, exact: bool = False) -> Trajectories:
    """Rows with terminations and truncations. Exact ones have small whole numbers and gamma 1, so that ties are exact."""
    count = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    ending = draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    terminated, truncated = rng.random(count) < ending / 2, rng.random(count) < ending / 2
    gamma = 1.0 if exact else draw(st.sampled_from([0.0, 0.5, 0.99, 1.0]))
    discount = np.where(terminated, 0.0, gamma)
    last = terminated | truncated
    last[-1] |= draw(st.booleans())
    if exact:
        return rng.integers(-1, 2, count) * 1.0, discount, last, rng.integers(-2, 3, (2, count)) * 1.0
    return rng.normal(size=count), discount, last, rng.normal(size=(2, count)) * draw(st.sampled_from([0.1, 10.0]))


def planners(depth: int) -> list[Planner]:
    return [NStep(depth), LambdaReturn(0.7, depth), LambdaReturn(1.0, depth), Single(depth), Twin(depth), TwinReleased(depth)]


@settings(max_examples=150, deadline=None)
@given(trajectories(), st.integers(1, 50))
def test_returns_equal_the_definition(data: Trajectories, depth: int) -> None:
    for planner in planners(depth):
        np.testing.assert_allclose(planner(*data), brute(planner, data)[0], rtol=1e-9, atol=1e-9, err_msg=str(planner))


@settings(max_examples=150, deadline=None)
@given(trajectories(), st.integers(1, 50), st.sampled_from([0.0, 0.5, 1e9]), st.integers(0, 2**32))
def test_stopping_rule_equals_the_definition(data: Trajectories, depth: int, margin: float, seed: int) -> None:
    planner = Stopping(depth, margin)
    q_stored = data[3] + np.random.default_rng(seed).choice([-1.0, 0.0, 0.3], data[3].shape)
    returns, lengths = stopped(planner, data, q_stored)
    np.testing.assert_allclose(planner(*data, q_stored), returns, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(planner.chosen(*data, q_stored), lengths)


def test_stopping_rule_does_not_look_at_later_rewards() -> None:
    """Where it stops stays the same if every reward changes."""
    rng = np.random.default_rng(0)
    discount, last, q_next, q_stored = np.full(50, 0.9), rng.random(50) < 0.1, rng.normal(size=(2, 50)), rng.normal(size=(2, 50))
    lengths = [Stopping().chosen(rng.normal(size=50), discount, last, q_next, q_stored) for _ in range(3)]
    assert lengths[0].max() > 1
    np.testing.assert_array_equal(lengths[0], lengths[1])
    np.testing.assert_array_equal(lengths[0], lengths[2])


def test_stopping_rule_is_unbiased_where_rewards_are_luck() -> None:
    """One state that pays 1 in one step of twenty, with exact values: V = 0.05 / (1 - 0.99) = 5. The maximum prefers luck."""
    rng, shape = np.random.default_rng(0), (4000, 60)
    reward = (rng.random(shape) < 0.05).astype(float)
    inputs = reward, np.full(shape, 0.99), np.zeros(shape, bool), np.full((2, *shape), 5.0)
    returns = Stopping(1000)(*inputs, np.full((2, *shape), 5.0))[0, :, 0]
    assert abs(returns.mean() - 5) < 4 * returns.std() / np.sqrt(len(returns))
    assert Twin(5)(*inputs)[0, :, 0].mean() == pytest.approx(5.17, abs=0.03)


def test_stopping_rule_needs_values_of_stored_actions() -> None:
    row = np.ones(3)
    with pytest.raises(BadValue, match="q_stored"):
        Stopping()(row, row, row > 1, np.ones((2, 3)))


@settings(max_examples=150, deadline=None)
@given(trajectories(exact=True), st.integers(1, 50))
def test_ties_take_the_shortest_rollout(data: Trajectories, depth: int) -> None:
    for planner in planners(depth):
        returns, lengths = brute(planner, data)
        np.testing.assert_allclose(planner(*data), returns, rtol=1e-12, atol=1e-12, err_msg=str(planner))
        np.testing.assert_array_equal(planner.chosen(*data), lengths, err_msg=str(planner))


def test_jax_and_numpy_agree() -> None:
    rng = np.random.default_rng(0)
    for depth in (1, 3, 64):
        data = (rng.integers(-1, 2, 30), rng.integers(0, 2, 30), rng.random(30) < 0.2, rng.integers(-2, 3, (2, 30)))
        on_device = tuple(jnp.asarray(x, jnp.float32) for x in data)
        for planner in planners(depth):
            np.testing.assert_allclose(jax.jit(planner)(*on_device), planner(*data), rtol=1e-5, atol=1e-5)
            np.testing.assert_array_equal(jax.jit(planner.chosen)(*on_device), planner.chosen(*data))


RING = 12
insert_row = jax.jit(insert)
plan_ring = jax.jit(plan, static_argnums=1)


@settings(max_examples=60, deadline=None)
@given(trajectories(), st.sampled_from([1, 3, 100]))
def test_a_ring_plans_its_surviving_rows_wherever_its_head_is(data: Trajectories, depth: int) -> None:
    """The rows in the ring are planned as if no other rows had been written."""
    reward, discount, last, q_next = data
    memory = Memory.empty(1, RING, Layout((1,)), 2)
    for number in range(len(reward)):
        row = empty_rows(1, 1, Layout((1,)))
        row.reward[:], row.discount[:], row.last[:] = reward[number], discount[number], last[number]
        memory = insert_row(memory, row, np.array([1]))
    survivors = slice(max(0, len(reward) - RING), None)
    position = np.arange(len(reward))[survivors] % RING
    memory = eqx.tree_at(lambda m: m.q_next, memory, memory.q_next.at[:, 0, position].set(q_next[:, survivors]))
    expected, _ = brute(Twin(depth), (reward[survivors], discount[survivors], last[survivors], q_next[:, survivors]))
    np.testing.assert_allclose(plan_ring(memory, Twin(depth)).planned_returns(), expected, rtol=1e-4, atol=1e-4)


@settings(max_examples=50, deadline=None)
@given(trajectories())
def test_identities_between_planners(data: Trajectories) -> None:
    for one_step in (LambdaReturn(0.0, 9), LambdaReturn(0.5, 1), Single(1)):
        np.testing.assert_allclose(one_step(*data), NStep(1)(*data))
    np.testing.assert_allclose(Twin(1)(*data), NStep(1)(*data)[::-1])
    np.testing.assert_allclose(LambdaReturn(1.0, 7)(*data), NStep(7)(*data))
    assert (Single(8)(*data) >= Single(7)(*data) - 1e-12).all()
    reward, discount, last, q_next = data
    same = (reward, discount, last, np.stack([q_next[0], q_next[0]]))
    np.testing.assert_allclose(Twin(9)(*same), Single(9)(*same))


def test_batches_are_planned_independently() -> None:
    rng = np.random.default_rng(0)
    reward, last, q_next = rng.normal(size=(3, 20)), rng.random((3, 20)) < 0.2, rng.normal(size=(2, 3, 20))
    discount = np.full((3, 20), 0.9)
    together = Twin(6)(reward, discount, last, q_next)
    for lane in range(3):
        separate = Twin(6)(reward[lane], discount[lane], last[lane], q_next[:, lane])
        np.testing.assert_allclose(together[:, lane], separate)


def test_equation_7_by_hand() -> None:
    """Three steps with gamma 1/2; the second one is better than estimated."""
    reward, discount = np.array([1.0, 4.0, 0.0]), np.array([0.5, 0.5, 0.0])
    last, q_next = np.array([False, False, True]), np.array([[2.0, 8.0, 9.0], [6.0, 0.0, 9.0]])
    # V1[0] = 1+1, 1+2+2, 1+2+0 and V2[0] = 1+3, 1+2+0, 1+2+0
    np.testing.assert_allclose(Single(3)(reward, discount, last, q_next)[:, 0], [5.0, 4.0])
    np.testing.assert_allclose(Twin(3)(reward, discount, last, q_next)[:, 0], [3.0, 2.0])
    np.testing.assert_array_equal(Twin(3).chosen(reward, discount, last, q_next)[:, 0], [2, 1])


def test_truncation_is_not_termination() -> None:
    """With negative rewards and a time limit, the rewards without a bootstrap must not win, except in the released variant."""
    reward, discount, last = -np.ones(4), np.full(4, 1.0), np.array([False, False, False, True])
    q_next = np.full((2, 4), -50.0)
    np.testing.assert_allclose(Twin(10)(reward, discount, last, q_next)[0], [-51, -51, -51, -51])
    np.testing.assert_allclose(TwinReleased(10)(reward, discount, last, q_next)[0], [-4, -3, -2, -1])
    running = np.zeros(4, bool)
    np.testing.assert_allclose(TwinReleased(10)(reward, discount, running, q_next)[0], [-51, -51, -51, -51])


def test_theorem_1_single_overestimates_and_twin_does_not() -> None:
    """Unit noise on equal true values, r = 0, gamma = 1: Single has the bias of a maximum of n normals, Twin has none."""
    lengths, samples = (2, 5, 20), 40_000
    rng = np.random.default_rng(1)
    for n in lengths:
        noise = rng.normal(size=(2, samples, n))
        zeros, ones = np.zeros((samples, n)), np.ones((samples, n))
        last = np.broadcast_to(np.arange(n) == n - 1, (samples, n))
        single = Single(n)(zeros, ones, last, noise)[..., 0]
        twin = Twin(n)(zeros, ones, last, noise)[..., 0]
        released = TwinReleased(n)(zeros, ones, last, noise)[..., 0]
        expected_maximum, _ = integrate.quad(lambda x, n=n: n * x * stats.norm.pdf(x) * stats.norm.cdf(x) ** (n - 1), -10, 10)
        error = 4 / np.sqrt(samples)
        assert abs(single.mean() - expected_maximum) < error
        assert abs(twin.mean()) < error
        if n == 5:  # the bias of the released form is the expected maximum of two normals, 0.564
            assert abs(released.mean() - 1 / np.sqrt(np.pi)) < error


@pytest.mark.parametrize("depth", [0, -1, 2.5, True, "5"])
def test_an_invalid_depth_is_refused(depth: object) -> None:
    with pytest.raises(BadValue, match="depth must be a whole number"):
        Twin(depth)  # type: ignore[arg-type]


def test_shapes_are_checked() -> None:
    with pytest.raises(BadValue, match="two estimates"):
        Twin(3)(np.zeros(4), np.zeros(4), np.zeros(4, bool), np.zeros((1, 4)))
    with pytest.raises(BadValue, match="one shape"):
        Single(3)(np.zeros(4), np.zeros(3), np.zeros(4, bool), np.zeros((2, 4)))
