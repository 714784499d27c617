"""Each part of a training round of GEM and TD3, compared with numpy and PyTorch versions of the same equations."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from gemrl.agents.acting import explore
from gemrl.agents.continuous import (
    FAMILY,
    gradient_step,
    move_targets,
    train_round,
    update_memory,
)
from gemrl.agents.drawing import smoothing_noise
from gemrl.agents.learner import Learner, init_learner
from gemrl.agents.memory.ring import Memory, RowIndex, Rows, empty_rows
from gemrl.agents.networks.actor_critic import Critics
from gemrl.agents.networks.bodies import build
from gemrl.agents.networks.perceptron import MLP, Layer, layer_norm
from gemrl.algorithms.bodies import Perceptron
from gemrl.algorithms.distributions import Gaussian
from gemrl.algorithms.embeddings import StateAction
from gemrl.algorithms.losses import Calibrated, FirstCritic
from gemrl.algorithms.planning import NStep, Planner, Single
from gemrl.algorithms.registry import RECIPES, Recipe
from gemrl.algorithms.schedules import Cosine, Linear
from gemrl.algorithms.targets import Fresh, NoBound, Planned, SelfImitation, Tightening
from gemrl.core.layout import Layout
from gemrl.training.models import MODELS
from tests.compiled import bounds, draw, draw_randomness, fresh_returns, insert, plan, refresh, state_values
from tests.conftest import SMALL
from tests.test_planning import brute

torch = pytest.importorskip("torch")

D, A = 3, 2
LAYOUT = Layout((D,), A)

step_once = jax.jit(gradient_step, static_argnums=0)


def small(name: str = "gem", **fields: Any) -> Recipe:
    recipe = RECIPES[name]
    assert isinstance(recipe, Recipe)
    period = {"target_update_interval": recipe.target_update_interval} if isinstance(recipe.targets, Fresh) else {}
    return recipe.but(**(SMALL | {"net_arch": (16, 16)} | period | fields))


def random_rows(count: int, seed: int = 0, lanes: int = 1) -> Rows:
    rng = np.random.default_rng(seed)
    shapes = empty_rows(lanes, count, LAYOUT)
    rows = Rows(*(rng.normal(size=column.shape).astype(np.float32) for column in shapes.columns().values()))
    last = rng.random((lanes, count)) < 0.1
    terminated = last & (rng.random((lanes, count)) < 0.5)  # the others hit a time limit
    return rows._replace(discount=np.where(terminated, 0.0, 0.99).astype(np.float32), last=last)


def random_memory(count: int = 40, capacity: int = 64, lanes: int = 1, pairs: int = 2) -> Memory:
    memory = Memory.empty(lanes, capacity, LAYOUT, pairs)
    memory = insert(memory, random_rows(count, lanes=lanes), jnp.full(lanes, count))
    values = jax.random.normal(jax.random.key(9), memory.q_next.shape)
    return plan(eqx.tree_at(lambda m: m.q_next, memory, values), Single(3))


def forward(arrays: dict[str, Any], prefix: str, x: Any, again: Any = None, *, norm_first: bool = False) -> Any:
    """The output of a network, computed by PyTorch from its arrays."""

    def get(layer: int, name: str) -> Any:
        return arrays[f"{prefix}.{layer}.{name}"]

    depth = len({key for key in arrays if key.startswith(f"{prefix}.") and key.endswith(".weight")})
    for layer in range(depth):
        x = torch.nn.functional.linear(x, get(layer, "weight").T, get(layer, "bias"))
        if layer == depth - 1:
            return x
        x = x if norm_first else torch.relu(x)
        if layer == 0 and again is not None:
            x = torch.cat([x, again], dim=-1)
        if f"{prefix}.{layer}.scale" in arrays:
            x = torch.nn.functional.layer_norm(x, x.shape[-1:], get(layer, "scale"), get(layer, "shift"))
        x = torch.relu(x) if norm_first else x
    raise AssertionError


def torch_arrays(tree: Any, name: str) -> dict[str, Any]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {
        name + re.sub(r"^\.(body|members)|\.layers", "", f".{key}"): torch.tensor(np.array(leaf), requires_grad=True)
        for key, leaf in ((jax.tree_util.keystr(path, simple=True, separator="."), leaf) for path, leaf in leaves)
    }


def torch_critic_loss(
    recipe: Recipe, q: Any, states: Any, actions: Any, returns: Any, lower: Any, upper: Any, anchor: Any = None
) -> Any:
    """The loss of all critics by its definition, one critic after the other; q(number, state, action) gives their values."""
    loss, alpha = torch.zeros(()), recipe.settable()["alpha"]
    for number in range(recipe.n_pairs * recipe.n_critics):
        pair = number // recipe.n_critics
        group = pair if recipe.separate_batches else 0
        value = q(number, states[group], actions[group])
        for regressed in range(recipe.n_pairs) if recipe.regress_on_both else (pair,):
            delta = value - returns[regressed, group]
            costs = delta.clamp(min=0) ** 2 + alpha * (-delta).clamp(min=0) ** 2
            if anchor is not None:
                known, weight = ~anchor[pair, group].isnan(), recipe.anchor.weight
                pull = (value[known] - anchor[pair, group][known]) ** 2
                costs = torch.cat([costs[~known], (1 - weight) * costs[known] + weight * pull])
            loss = loss + costs.mean()
        if not isinstance(recipe.bound, NoBound):
            low, high = lower[pair, group] - value, value - upper[pair, group]
            loss = loss + recipe.bound.weight * (low.clamp(min=0) ** 2 + high.clamp(min=0) ** 2).mean()
    return loss


@pytest.mark.parametrize(
    "name", ["gem", "gem-paper", "gem-released", "td3", "ddpg", "td3-sil", "redq", "optimality-tightening", "emac"]
)
def test_gradient_steps_equal_pytorch(name: str) -> None:
    """Two updates (the second one updates the policy) match PyTorch's autograd and Adam on the same minibatches.

    With Fresh targets tau is large, so that moving the targets too often, too rarely or too early would be noticed.
    """
    recipe = small(name)
    recipe = recipe.but(tau=0.5) if isinstance(recipe.targets, Fresh) else recipe
    body = recipe.body
    assert isinstance(body, Perceptron)
    twice, norm_first = body.action_twice, body.norm_first
    memory = random_memory(pairs=recipe.n_pairs)
    if recipe.anchor.stored:  # some rows are newer than the last update, so they have no return yet
        memory = insert(memory, random_rows(15, seed=6), jnp.array([15]))
    learner = init_learner(recipe, LAYOUT, seed=3)
    actor, critics = torch_arrays(learner.actor, "actor"), torch_arrays(learner.critics, "critics")
    targets = {key: value.detach().clone() for key, value in critics.items()}
    optimizers = {
        "critics": torch.optim.Adam(critics.values(), lr=recipe.learning_rate),
        "actor": torch.optim.Adam(actor.values(), lr=recipe.learning_rate),
    }

    def q(number: int, state: Any, action: Any) -> Any:
        again = action if twice else None
        return forward(critics, f"critics.{number}", torch.cat([state, action], -1), again, norm_first=norm_first)[:, 0]

    for step in (1, 2):
        randomness = draw_randomness(recipe, memory, jax.random.key(step))
        lane, position, _ = randomness.rows
        drawn = memory.rows.observation[lane, position], memory.rows.action[lane, position]
        returns = (
            memory.planned[:, lane, position] if recipe.targets.stored else fresh_returns(recipe, learner, memory, randomness)
        )
        limits = bounds(recipe, learner, memory, randomness)
        anchors = (memory.planned[:, lane, position],) if recipe.anchor.stored else ()
        states, actions, *targets_of = (torch.tensor(np.array(x)) for x in (*drawn, returns, *limits, *anchors))
        loss = torch_critic_loss(recipe, q, states, actions, *targets_of)
        optimizers["critics"].zero_grad()
        loss.backward()
        optimizers["critics"].step()
        if step % recipe.policy_delay == 0:
            state = states[0]
            action = torch.tanh(forward(actor, "actor", state, norm_first=norm_first))
            climbed = (0,) if recipe.actor_objective == FirstCritic() else range(recipe.n_pairs * recipe.n_critics)
            objective = -torch.stack([q(number, state, action) for number in climbed]).mean()
            optimizers["actor"].zero_grad()
            objective.backward()
            optimizers["actor"].step()
        if isinstance(recipe.targets, Fresh) and step % recipe.target_update_interval == 0:
            for key_, target in targets.items():
                target.mul_(1 - recipe.tau).add_(recipe.tau * critics[key_].detach())
        learner, losses = step_once(recipe, memory, learner, randomness)
        np.testing.assert_allclose(losses[0], loss.detach(), rtol=1e-4)
    np.testing.assert_allclose(losses[1], objective.detach(), rtol=1e-4, atol=1e-5)
    ours = torch_arrays(learner.actor, "actor") | torch_arrays(learner.critics, "critics")
    for array_name, theirs in (actor | critics).items():
        np.testing.assert_allclose(ours[array_name].detach(), theirs.detach(), rtol=1e-3, atol=2e-5, err_msg=array_name)
    for array_name, moved in torch_arrays(learner.target_critics, "critics").items():
        np.testing.assert_allclose(moved.detach(), targets[array_name], rtol=1e-3, atol=1e-5, err_msg=array_name)


def rows_to_the_end(memory: Memory, rows_drawn: RowIndex, index: int, steps: int) -> list[int]:
    """Positions of the rows from a drawn row to the end of its trajectory, at most `steps` of them."""
    position, left = int(rows_drawn.position[index]), int(memory.size[0]) - int(rows_drawn.offset[index])
    rows = []
    for ahead in range(min(steps, left)):
        rows.append((position + ahead) % memory.capacity)
        if memory.rows.last[0, rows[-1]]:
            break
    return rows


def values_of(learner: Learner, recipe: Recipe, states: np.ndarray, actions: np.ndarray | None = None) -> np.ndarray:
    """The smallest target Q-value of each group, computed on the host [K, B]."""
    actor, critics = host(learner.target_actor), host(learner.target_critics)
    q = critics(states, actor(states) if actions is None else actions)
    return q.reshape(recipe.n_pairs, recipe.n_critics, -1).min(axis=1)


@pytest.mark.parametrize("n", [1, 3, 100])
def test_n_step_returns_stop_at_the_end_of_a_trajectory(n: int) -> None:
    """The bootstrapped action of each row gets the noise that was drawn for it."""
    recipe = small("td3", targets=Fresh(n))
    learner, memory = init_learner(recipe, LAYOUT, seed=2), random_memory(pairs=1)
    memory = insert(memory, random_rows(40, seed=6), jnp.array([40]))  # the head is in the middle of the ring
    rows_drawn = draw(memory, jax.random.key(3), (50,), planned=False)
    randomness = draw_randomness(recipe, memory, jax.random.key(0), rows_drawn)
    ours = np.asarray(fresh_returns(recipe, learner, memory, randomness))
    reward, discount, following = (
        np.asarray(column[0]) for column in (memory.rows.reward, memory.rows.discount, memory.rows.next_observation)
    )
    for index in range(50):
        rows = rows_to_the_end(memory, rows_drawn, index, n)
        states = following[rows[-1:]]
        action = np.clip(host(learner.target_actor)(states) + np.asarray(randomness.noise)[index], -1, 1)
        expected = values_of(learner, recipe, states, action)[0, 0]
        for row in reversed(rows):
            expected = reward[row] + discount[row] * expected
        np.testing.assert_allclose(ours[0, index], expected, rtol=1e-4, atol=1e-5)


def test_target_policy_noise_is_normal_and_clipped() -> None:
    recipe = small("td3")
    noise = np.asarray(smoothing_noise(recipe, jax.random.key(0), (200_000,)))
    bound = recipe.target_noise_clip / recipe.target_policy_noise
    inside = scipy.stats.truncnorm(-bound, bound)
    outside = 2 * scipy.stats.norm.sf(bound)
    variance = recipe.target_policy_noise**2 * ((1 - outside) * inside.var() + outside * bound**2)
    assert np.abs(noise).max() == np.float32(recipe.target_noise_clip)
    assert noise.mean() == pytest.approx(0, abs=5 * np.sqrt(variance / 200_000))
    assert noise.var() == pytest.approx(variance, rel=0.02)


def test_redq_takes_the_smaller_of_two_distinct_critics() -> None:
    recipe = small("redq")
    learner = init_learner(recipe, LAYOUT, seed=2)
    states = np.random.default_rng(0).normal(size=(30, D)).astype(np.float32)
    q = np.asarray(learner.target_critics(states, host(learner.target_actor)(states)))
    possible = [np.minimum(q[i], q[j]) for i in range(4) for j in range(i)]  # some are equal
    seen, memory = set(), random_memory(pairs=1)
    for seed in range(60):
        subset = draw_randomness(recipe, memory, jax.random.key(seed)).subset
        values = state_values(recipe, learner, jnp.array(states), jnp.zeros((30, A)), subset)
        matches = tuple(n for n, expected in enumerate(possible) if np.allclose(values[0], expected, rtol=1e-4, atol=1e-6))
        assert matches
        seen.add(matches)
    assert len(seen) == len({expected.tobytes() for expected in possible})
    everything = q.min(axis=0)
    assert any(not np.allclose(expected, everything) for expected in possible)


def test_stored_returns_are_the_lower_bound_of_self_imitation() -> None:
    recipe, memory = small("td3-sil"), random_memory(pairs=1)
    memory = insert(memory, random_rows(5, seed=6), jnp.array([5]))
    rows_drawn = draw(memory, jax.random.key(3), (80,), planned=False)
    lower, upper = bounds(
        recipe, init_learner(recipe, LAYOUT, seed=2), memory, draw_randomness(recipe, memory, jax.random.key(0), rows_drawn)
    )
    new = np.asarray(rows_drawn.offset) >= 40
    assert 0 < new.sum() < 80
    assert (lower[0][new] == -np.inf).all()
    np.testing.assert_array_equal(lower[0][~new], memory.planned[0, 0, rows_drawn.position[~new]])
    assert (upper == np.inf).all()


def test_gamma_zero_gives_no_upper_bound() -> None:
    recipe = small("optimality-tightening", gamma=0.0)
    learner, memory = init_learner(recipe, LAYOUT, seed=2), random_memory(pairs=1)
    _, upper = bounds(recipe, learner, memory, draw_randomness(recipe, memory, jax.random.key(0)))
    assert np.isposinf(upper).all()


def test_lower_and_upper_bounds_of_optimality_tightening() -> None:
    recipe = small("optimality-tightening", target_policy_noise=0.0, gamma=0.9)
    learner, memory = init_learner(recipe, LAYOUT, seed=2), random_memory(pairs=1)
    memory = insert(memory, random_rows(40, seed=6), jnp.array([40]))
    rows_drawn = draw(memory, jax.random.key(3), (60,), planned=False)
    lower, upper = bounds(recipe, learner, memory, draw_randomness(recipe, memory, jax.random.key(0), rows_drawn))
    rows = [np.asarray(column[0]) for column in memory.rows.columns().values()]
    observation, action, reward, discount, last, following = rows
    assert isinstance(recipe.bound, Tightening)
    for index in range(60):
        ahead = rows_to_the_end(memory, rows_drawn, index, recipe.bound.reach)
        candidates = []
        for length in range(1, len(ahead) + 1):
            value = values_of(learner, recipe, following[ahead[length - 1 : length]])[0, 0]
            for row in reversed(ahead[:length]):
                value = reward[row] + discount[row] * value
            candidates.append(value)
        np.testing.assert_allclose(lower[0, index], max(candidates), rtol=1e-4, atol=1e-5)
        tightest, total = np.inf, 0.0
        for k in range(1, recipe.bound.reach + 1):
            before = (int(rows_drawn.position[index]) - k) % memory.capacity
            if int(rows_drawn.offset[index]) < k or last[before]:
                break
            total = reward[before] + 0.9 * total
            value = values_of(learner, recipe, observation[[before]], action[[before]])[0, 0]
            tightest = min(tightest, (value - total) / 0.9**k)
        np.testing.assert_allclose(upper[0, index], tightest, rtol=1e-4, atol=1e-4)


def test_critics_are_initialized_differently() -> None:
    critics = init_learner(small(), LAYOUT, seed=0).critics
    for first in range(4):
        for second in range(first):
            for one, other in zip(*map(jax.tree.leaves, (critics.members[first], critics.members[second])), strict=True):
                assert np.ptp(one) == 0 or np.abs(one - other).mean() > 0.01  # LayerNorm always starts with ones and zeros


def test_targets_start_as_copies_and_move_by_tau() -> None:
    recipe = small(tau=0.6)
    learner = init_learner(recipe, LAYOUT, seed=0)
    assert eqx.tree_equal(learner.critics, learner.target_critics)
    assert eqx.tree_equal(learner.actor, learner.target_actor)
    online = jax.tree.map(lambda x: x + 1, (learner.actor, learner.critics))
    moved = move_targets(recipe, eqx.tree_at(lambda x: (x.actor, x.critics), learner, online))
    before, after = (jax.tree.leaves((x.target_actor, x.target_critics)) for x in (learner, moved))
    for old, new in zip(before, after, strict=True):
        np.testing.assert_allclose(new, old + 0.6, rtol=1e-5, atol=1e-6)


def host(tree: Any) -> Any:
    return jax.tree.map(np.asarray, tree)


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_refresh_changes_only_stale_rows(lanes: int) -> None:
    recipe = small(target_policy_noise=0.0)
    learner, memory = init_learner(recipe, LAYOUT, seed=1), random_memory(60, 64, lanes)
    memory = insert(memory, random_rows(20, seed=5, lanes=lanes), jnp.full(lanes, 20))  # the ring wraps around
    after = refresh(recipe, learner, memory, jnp.full(lanes, 20), jax.random.key(0))
    actor, critics = host(learner.target_actor), host(learner.target_critics)
    for lane in range(lanes):
        states = memory.lane(lane)["next_observation"]
        q = critics(states, actor(states))
        expected = np.stack([np.minimum(q[0], q[1]), np.minimum(q[2], q[3])])
        np.testing.assert_allclose(after.lane(lane)["q_next"][:, -20:], expected[:, -20:], rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(after.lane(lane)["q_next"][:, :-20], memory.lane(lane)["q_next"][:, :-20])


def test_smoothing_noise_is_clipped_and_drawn_per_state_but_shared_by_both_pairs() -> None:
    """The critics return the action itself, so that q_next is the smoothed action."""
    recipe = small(target_policy_noise=0.4, target_noise_clip=0.5, net_arch=(8,), layer_norm=False)
    learner = init_learner(recipe, Layout((1,)), seed=0)
    zero_actor = jax.tree.map(jnp.zeros_like, learner.target_actor)  # pi' = 0
    critic = learner.target_critics.members[0]
    assert isinstance(critic, MLP)
    one, two = critic.layers
    first = Layer(jnp.zeros_like(one.weight).at[1, 0].set(1.0), jnp.zeros_like(one.bias).at[0].set(1.0), None, None)
    second = Layer(jnp.zeros_like(two.weight).at[0, 0].set(1.0), -jnp.ones_like(two.bias), None, None)
    identity = Critics((MLP((first, second)),) * 4)  # relu(action + 1) - 1 = action
    learner = eqx.tree_at(lambda x: (x.target_actor, x.target_critics), learner, (zero_actor, identity))
    memory = insert(Memory.empty(1, 4000, Layout((1,)), 2), empty_rows(1, 4000, Layout((1,))), jnp.array([4000]))
    noise = np.asarray(refresh(recipe, learner, memory, memory.size, jax.random.key(0)).q_next[:, 0])
    np.testing.assert_allclose(noise[0], noise[1], atol=1e-6)
    assert abs(noise[0]).max() <= 0.5 + 1e-6
    assert 0.18 < (abs(noise[0]) > 0.4999).mean() < 0.25  # P(|N(0, 0.4)| > 0.5) = 0.211
    assert len(np.unique(noise[0])) > 3000


@pytest.mark.parametrize("name", ["gem", "gem-paper", "gem-released"])
def test_folded_networks_compute_the_same(name: str) -> None:
    """With random scales and shifts, also if the mean of the activations is much larger than their deviation."""
    recipe = small(name, net_arch=(40, 30))
    learner = init_learner(recipe, LAYOUT, seed=4)
    rng = np.random.default_rng(0)
    for size in (0.1, 3.0):
        networks = (learner.actor, learner.critics)
        actor, critics = jax.tree.map(lambda x, s=size: x + s * rng.normal(size=x.shape).astype(np.float32), networks)
        states, actions = (jnp.array(rng.normal(size=(50, n)).astype(np.float32)) for n in (D, A))
        np.testing.assert_allclose(actor.fast()(states), actor(states), rtol=1e-4, atol=1e-4)
        q = critics(states, actions)
        np.testing.assert_allclose(critics.fast().values(states, actions), q, rtol=1e-4, atol=1e-5 * float(abs(q).max()))


def test_closed_form_gradient_of_layer_norm_equals_the_automatic_one() -> None:
    rng = np.random.default_rng(0)
    x, scale, shift, slope = (jnp.array(rng.normal(size=s).astype(np.float32)) for s in ((7, 5), 5, 5, (7, 5)))
    layer = Layer(x, x, scale, shift)

    def closed_form(x: Any, scale: Any, shift: Any) -> Any:
        return (slope * Layer(layer.weight, layer.bias, scale, shift).norm(x)).sum()

    def automatic(x: Any, scale: Any, shift: Any) -> Any:
        return (slope * layer_norm(x, scale, shift)).sum()

    for one, other in zip(*(jax.grad(f, (0, 1, 2))(x, scale, shift) for f in (closed_form, automatic)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_the_value_of_a_pair_is_its_minimum() -> None:
    learner = init_learner(small(), LAYOUT, seed=4)
    states = np.random.default_rng(0).normal(size=(50, D)).astype(np.float32)
    noise = np.full((50, A), 5.0, np.float32)  # clipped to the corner of the action box
    q = np.asarray(learner.target_critics(jnp.array(states), jnp.ones((50, A))))
    values = state_values(small(), learner, jnp.array(states), jnp.array(noise))
    np.testing.assert_allclose(values, [q[:2].min(axis=0), q[2:].min(axis=0)], rtol=1e-5, atol=1e-6)


def assert_planned_by_definition(memory: Memory, planner: Planner) -> None:
    """Asserts that the stored returns follow from the stored values by the definition of the planner."""
    rows = memory.lane()
    expected, _ = brute(planner, (rows["reward"], rows["discount"], rows["last"], rows["q_next"]))
    np.testing.assert_allclose(rows["planned"], expected, rtol=1e-4, atol=1e-4)


def test_self_imitation_stores_returns_up_to_its_horizon() -> None:
    recipe = small("td3-sil", bound=SelfImitation(horizon=3))
    learner, memory = init_learner(recipe, LAYOUT, seed=1), random_memory(30, 64, pairs=1)
    _, after = jax.jit(update_memory, static_argnums=(0, 3))(recipe, learner, memory, True, jax.random.key(0))
    assert (after.lane()["q_next"] != memory.lane()["q_next"]).all()
    assert_planned_by_definition(after, NStep(3))


def test_exploration_noise_has_its_size_and_actions_stay_in_bounds() -> None:
    recipe = small(exploration_noise=0.2)
    policy = FAMILY.policy_of(init_learner(recipe, LAYOUT, seed=2))
    states = np.random.default_rng(0).normal(size=(20_000, D)).astype(np.float32)
    greedy, explored = policy.actor(states), explore(recipe, policy, states, 0, np.random.default_rng(1))
    inside = np.abs(greedy) < 0.2  # at least four deviations from the bounds
    assert inside.sum() > 1000
    np.testing.assert_allclose((explored - greedy)[inside].std(), 0.2, rtol=0.05)
    noisier = explore(recipe.but(exploration_noise=3.0), policy, states, 0, np.random.default_rng(1))
    assert np.abs(noisier).max() == 1


def test_old_rows_keep_their_values_until_the_targets_move() -> None:
    """If they move rarely; if they move in every round, rows that it does not need keep their values longer (test_reach.py)."""
    recipe = small()
    recipe = recipe.but(target_update_interval=2 * recipe.train_freq)
    learner, memory = init_learner(recipe, LAYOUT, seed=1), random_memory(30, 64)
    targets, values = host(learner.target_critics), memory.lane()["q_next"]
    learner, memory, _ = train_round(recipe, learner, memory, random_rows(10, seed=7), np.array([10]), False)
    assert eqx.tree_equal(targets, host(learner.target_critics))
    np.testing.assert_array_equal(memory.lane()["q_next"][:, :30], values)
    assert (memory.lane()["q_next"][:, 30:] != 0).all()
    assert_planned_by_definition(memory, recipe.planner)
    learner, memory, _ = train_round(recipe, learner, memory, random_rows(10, seed=8), np.array([0]), True)
    assert_planned_by_definition(memory, recipe.planner)
    assert not eqx.tree_equal(targets, host(learner.target_critics))
    assert (memory.lane()["q_next"][:, :30] != values).all()


def test_the_policy_is_the_same_on_numpy_and_jax() -> None:
    for name in ("gem", "gem-paper", "gem-released"):
        learner = init_learner(small(name), LAYOUT, seed=2)
        states = np.random.default_rng(0).normal(size=(7, D)).astype(np.float32)
        on_host = host(learner.actor)(states)
        assert isinstance(on_host, np.ndarray)
        np.testing.assert_allclose(on_host, learner.actor(jnp.array(states)), rtol=1e-4, atol=1e-6)


def test_critics_take_one_shared_minibatch_or_one_each() -> None:
    rng, body = np.random.default_rng(0), Perceptron((8, 8), action_twice=True)
    critics = Critics(tuple(build(body, rng, D + A, 1, again=A) for _ in range(4)))
    rng = np.random.default_rng(0)
    states, actions = rng.normal(size=(4, 5, D)).astype(np.float32), rng.normal(size=(4, 5, A)).astype(np.float32)
    separate = critics(jnp.array(states), jnp.array(actions))
    for number in range(4):
        shared = critics(jnp.array(states[number]), jnp.array(actions[number]))
        np.testing.assert_allclose(separate[number], shared[number], rtol=1e-4, atol=1e-6)


OTHER_VALUES = {
    "gamma": 0.9,
    "buffer_size": 60,
    "learning_starts": 50,
    "batch_size": 8,
    "train_freq": 25,
    "gradient_steps": 3,
    "trajectory_rows": 30,
    "target_update_interval": 100,
    "target_policy_noise": 0.4,
    "target_noise_clip": 0.1,
    "exploration_noise": 0.3,
    "targets": Planned(Single(5)),
    "max_grad_norm": 0.1,
    "adam_beta1": 0.5,
    "learning_rate_schedule": Linear(0.1, 200),
    "exploration_schedule": Cosine(0.5, 200),
}
"""A value other than the default for each of these fields."""
TESTED_ABOVE = {
    "learning_rate",
    "tau",
    "policy_delay",
    "net_arch",
    "layer_norm",
    "norm_first",
    "action_twice",
    "n_pairs",
    "n_critics",
    "loss",
    "bound",
}
TESTED_ABOVE |= {"loss", "bound", "anchor", "regress_on_both", "actor_objective", "separate_batches"}
TESTED_ABOVE |= {"normalize_observations", "normalize_rewards", "embedding", "distribution", "joint_critics", "hindsight"}
TESTED_ABOVE |= {
    "policy_average",
    "trial_every",
    "overlap",
    "random_shift",
    "activation",
    "bfloat16",
    "imitation",
    "state_values",
}
"""Fields that other tests vary and compare with independent implementations, mostly PyTorch's."""


def policy_after(algo: str = "gem", **fields: Any) -> np.ndarray:
    fast = SMALL | {"learning_rate": 3e-3, "gradient_steps": 20, "layer_norm": False, "n_critics": 1}
    model = MODELS[algo]("InvertedPendulum-v5", seed=0, **(fast | fields))
    model.learn(250)
    states = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    return model.agent.act(states)


@pytest.fixture(scope="module")
def default_policy() -> np.ndarray:
    return policy_after()


def test_every_field_is_tested() -> None:
    """With the fields of the network body instead of `body`."""
    fields = {field.name for field in (*dataclasses.fields(Recipe), *dataclasses.fields(Perceptron))}
    assert OTHER_VALUES.keys() | TESTED_ABOVE == fields - {"body"}


@pytest.mark.parametrize(("name", "value"), [*OTHER_VALUES.items(), ("depth", 50)])
def test_every_field_has_an_effect(name: str, value: Any, default_policy: np.ndarray) -> None:
    """An unused field would give the same program and exactly the same policy."""
    assert not np.array_equal(policy_after(**{name: value}), default_policy)


@pytest.mark.parametrize(
    ("part", "change"),
    [
        (SelfImitation(horizon=3, every=50), SelfImitation(horizon=2, every=50)),
        (SelfImitation(horizon=3, every=50), SelfImitation(horizon=3, every=100)),
        (Tightening(reach=1), Tightening(reach=2)),
    ],
)
def test_every_field_of_a_bound_has_an_effect(part: Any, change: Any) -> None:
    before, after = (policy_after("td3", target_update_interval=2, bound=x) for x in (part, change))
    assert not np.array_equal(before, after)


def test_training_changes_every_part_of_the_learner() -> None:
    recipe = small(embedding=StateAction(4), distribution=Gaussian(), loss=Calibrated(), policy_average=10, trial_every=10)
    learner, memory = init_learner(recipe, LAYOUT, seed=1), random_memory()
    before = jax.tree.map(np.array, jax.tree.map(lambda x: x, eqx.tree_at(lambda x: x.key, learner, 0)))
    learner, memory, _ = train_round(recipe, learner, memory, random_rows(10), np.array([0]), True)
    learner, memory, _ = train_round(recipe, learner, memory, random_rows(10), np.array([0]), True)
    for name in (
        field.name
        for field in dataclasses.fields(Learner)
        if field.name not in ("key", "normalizer", "target_normalizer", "reward_scale", "target_reward_scale", "projection")
    ):
        assert not eqx.tree_equal(getattr(before, name), host(getattr(learner, name))), name
