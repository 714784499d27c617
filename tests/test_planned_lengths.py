"""Rollouts that are planned in the memory and followed by minibatches, and critics that value both of their ends in one pass."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemrl.agents.continuous import extra_columns, train_round, update_memory
from gemrl.agents.drawing import Randomness
from gemrl.agents.learner import Learner, init_learner
from gemrl.agents.memory.ring import Memory, RowIndex
from gemrl.agents.minibatches import Batch, Ends, joint_values
from gemrl.agents.networks.batch_norm import BatchNormNetwork
from gemrl.algorithms.bodies import BatchRenormalized
from gemrl.algorithms.distributions import Gaussian
from gemrl.algorithms.planning import LambdaReturn, NStep, Planner, Single, Stopping, Twin, TwinReleased
from gemrl.algorithms.recipes.continuous import Recipe
from gemrl.algorithms.registry import RECIPES
from gemrl.algorithms.targets import Fresh, PlannedLengths, SelfImitation
from gemrl.core.exceptions import BadValue
from tests.compiled import draw_randomness, fresh_returns, insert
from tests.test_continuous import LAYOUT, random_rows, small

update = jax.jit(update_memory, static_argnums=(0, 3))

LIKE_CROSSQ: dict[str, Any] = {"n_pairs": 1, "joint_critics": True, "distribution": Gaussian(), "alpha": 1.0}


def planned_memory(recipe: Recipe, count: int = 40, lanes: int = 1) -> tuple[Learner, Memory]:
    """A memory of which every row but the last five of each lane was planned."""
    learner = init_learner(recipe, LAYOUT, 0)
    other = init_learner(recipe, LAYOUT, 1)  # target networks that differ from the online ones
    learner = eqx.tree_at(lambda x: (x.target_actor, x.target_critics), learner, (other.actor, other.critics))
    memory = Memory.empty(lanes, 64, LAYOUT, recipe.n_pairs, extra_columns(recipe))
    memory = insert(memory, random_rows(count - 5, lanes=lanes), jnp.full(lanes, count - 5))
    learner, memory = update(recipe, learner, memory, True, jax.random.key(0))
    return learner, insert(memory, random_rows(5, 1, lanes), jnp.full(lanes, 5))


def all_rows(count: int, lanes: int = 1) -> RowIndex:
    lane, offset = (jnp.array(x).reshape(1, -1) for x in np.mgrid[:lanes, :count])
    return RowIndex(lane, offset, offset)


def drawn(recipe: Recipe, memory: Memory, rows: RowIndex) -> Randomness:
    return draw_randomness(recipe, memory, jax.random.key(1), rows)


@pytest.mark.parametrize("planner", [Stopping(7), Stopping(4, margin=1e9), NStep(4), Single(5), Twin(6)])
@pytest.mark.parametrize("lanes", [1, 2])
def test_returns_of_minibatches_equal_planned_ones(planner: Planner, lanes: int) -> None:
    """As long as the target networks stay the same, following the stored rollouts gives the returns that were planned."""
    recipe = small(targets=PlannedLengths(planner), target_policy_noise=0.0)
    learner, memory = planned_memory(recipe, lanes=lanes)
    rows = all_rows(40, lanes)
    returns = np.asarray(fresh_returns(recipe, learner, memory, drawn(recipe, memory, rows)))[:, 0].reshape(2, lanes, 40)
    planned = np.asarray(memory.planned)[..., :40]
    assert np.isnan(planned[..., 35:]).all()
    assert memory.length is not None
    assert float(memory.length.max()) > 1
    np.testing.assert_allclose(returns[..., :35], planned[..., :35], rtol=1e-4, atol=1e-5)


def test_new_rows_bootstrap_after_one_step() -> None:
    recipe = small(targets=PlannedLengths(Stopping()), target_policy_noise=0.0, n_pairs=1)
    learner, memory = planned_memory(recipe)
    rows = RowIndex(*(x[:, 35:] for x in all_rows(40)))
    randomness = drawn(recipe, memory, rows)
    expected = fresh_returns(recipe.but(targets=Fresh()), learner, eqx.tree_at(lambda m: m.length, memory, None), randomness)
    np.testing.assert_array_equal(fresh_returns(recipe, learner, memory, randomness), expected)


def test_an_overwritten_row_is_new_again() -> None:
    recipe = small(targets=PlannedLengths(NStep(4)), n_pairs=1)
    _, memory = planned_memory(recipe)
    memory = insert(memory, random_rows(30, 2), jnp.array([30]))
    assert memory.length is not None
    length = np.asarray(memory.length)[0, 0]
    assert (length[:6] == 0).all()  # 70 rows in a ring of 64
    assert (length[6:35] > 0).all()
    assert (length[35:] == 0).all()


@pytest.mark.parametrize("planner", [NStep(9), Single(9), Twin(9), Stopping(9)])
def test_rewards_along_a_rollout_leave_its_bootstrap(planner: Planner) -> None:
    """A return is the rewards along its rollout plus the discounted value of the state where it ends."""
    rng = np.random.default_rng(3)
    rows = random_rows(60, 3)
    reward, discount, last = (x[0].astype(float) for x in (rows.reward, rows.discount, rows.last))
    q_next, extra = rng.normal(size=(2, 60)), {"q_stored": rng.normal(size=(2, 60))} if planner.uses_stored else {}
    found = planner.rollouts(reward, discount, last, q_next, **extra)
    value = q_next[::-1] if planner.swaps else q_next
    for k in range(2):
        for t in range(60):
            path = np.arange(t, t + found.length[k, t])
            factors = np.append(1.0, np.cumprod(discount[path]))
            assert found.reward[k, t] == pytest.approx(factors[:-1] @ reward[path])
            assert found.other[k, t] == pytest.approx(found.reward[k, t] + factors[-1] * value[k, path[-1]])


def test_joint_critics_without_statistics_equal_targets_that_are_copied_at_once() -> None:
    """Perceptrons do not notice what else is in a minibatch, so one pass is the same as two with the same networks."""
    joint = small(**LIKE_CROSSQ, targets=PlannedLengths(), gradient_steps=6)
    copied = joint.but(joint_critics=False, tau=1.0, target_update_interval=1)
    rows = random_rows(50)
    learners = []
    for recipe in (joint, copied):
        learner = init_learner(recipe, LAYOUT, 0)
        memory = Memory.empty(1, 64, LAYOUT, 1, extra_columns(recipe))
        learner, memory, _ = train_round(recipe, learner, memory, rows, jnp.array([50]), True)
        learners.append(learner)
    for one, other in zip(*(jax.tree.leaves((x.actor, x.critics, x.target_critics)) for x in learners), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-5)


def test_joint_critics_share_the_statistics_of_both_steps() -> None:
    """Values and running means, against numpy: the minibatch is normalized together with the ends of its rollouts."""
    body = BatchRenormalized((8,), momentum=0.5)
    recipe = small(**LIKE_CROSSQ, targets=PlannedLengths(), body=body)
    critics = init_learner(recipe, LAYOUT, 0).critics
    rng = np.random.default_rng(0)
    states, actions = rng.normal(size=(2, 6, 3)).astype(np.float32), rng.normal(2, 3, size=(2, 6, 2)).astype(np.float32)
    reward, discount = rng.normal(size=6).astype(np.float32), np.array([0.99, 0.99, 0, 0.9, 0.99, 0], np.float32)
    ends = Ends(reward, discount, states[1], actions[1])
    nothing: dict[str, Any] = dict.fromkeys(("lower", "upper", "anchor", "states", "actions", "following", "encoder", "noise"))
    batch = Batch(observation=states[0], action=actions[0], returns=ends, **nothing)
    q, returns, statistics = joint_values(critics, batch, ends)
    values = []
    for critic, (running, _) in zip(critics.members, statistics, strict=True):
        assert isinstance(critic, BatchNormNetwork)
        x = np.concatenate([states, actions], axis=-1).reshape(12, 5).astype(float)
        np.testing.assert_allclose(running[0][0], 0.5 * x.mean(axis=0), rtol=1e-5, atol=1e-6)
        x = (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-3)
        x = np.maximum(x @ critic.layers[0].weight + critic.layers[0].bias, 0)
        x = (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-3)
        values.append((x @ critic.layers[1].weight + critic.layers[1].bias)[:, 0])
    np.testing.assert_allclose(q, np.array(values)[:, :6], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(returns, reward + discount * np.min(values, axis=0)[6:], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"planner": LambdaReturn()}, "whose rollouts all bootstrap"),
        ({"planner": TwinReleased()}, "whose rollouts all bootstrap"),
        ({"every": 0}, "every"),
    ],
)
def test_other_planners_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadValue, match=message):
        PlannedLengths(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"joint_critics": True}, "Fresh or PlannedLengths"),
        ({"joint_critics": True, "targets": PlannedLengths()}, "n_pairs=1"),
        ({"joint_critics": True, "targets": Fresh(subset=1), "n_pairs": 1}, "subset"),
        ({"joint_critics": True, "targets": Fresh(), "n_pairs": 1, "separate_batches": True}, "separate_batches=False"),
        ({"n_pairs": 3, "planner": Stopping()}, "n_pairs must be 1 or 2"),
        ({"joint_critics": True, "targets": Fresh(), "n_pairs": 1, "bound": SelfImitation()}, "NoBound"),
        ({"targets": PlannedLengths(), "bound": SelfImitation()}, "stores its own returns"),
        ({"targets": PlannedLengths(Twin(5)), "n_pairs": 1}, "n_pairs must be 2"),
    ],
)
def test_fields_that_do_not_fit_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadValue, match=message):
        RECIPES["gem"].but(**fields)


def test_discrete_agents_refuse_it() -> None:
    with pytest.raises(BadValue, match="continuous actions"):
        RECIPES["gem-discrete"].but(targets=PlannedLengths())


@pytest.mark.parametrize("fields", [{"adam_beta1": 0.5}, {"every": 1000}, {"joint_critics": False}])
def test_fields_change_what_is_learned(fields: dict[str, Any]) -> None:
    recipe = small(**LIKE_CROSSQ, targets=PlannedLengths(), body=BatchRenormalized((8,)), gradient_steps=3)

    def trained(recipe: Recipe) -> Learner:
        learner, memory = init_learner(recipe, LAYOUT, 0), Memory.empty(1, 64, LAYOUT, 1, extra_columns(recipe))
        for number in range(2):
            due = number == 0 or recipe.targets.every == 500
            learner, memory, _ = train_round(recipe, learner, memory, random_rows(30, number), jnp.array([30]), due)
        return learner

    ours, changed = (jax.tree.leaves(trained(one).critics) for one in (recipe, recipe.but(**fields)))
    assert any(not np.array_equal(a, b) for a, b in zip(ours, changed, strict=True))
