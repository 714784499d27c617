"""The agent for discrete actions: its updates compared with PyTorch, its values with their definitions."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemrl.agents.discrete import Policy, act, acting_values, explore, gradient_step, train_round
from gemrl.agents.discrete_learner import init_learner, state_values
from gemrl.agents.memory.refreshing import plan_newest
from gemrl.agents.memory.ring import Memory, RowIndex, Rows, empty_rows
from gemrl.algorithms.bootstraps import FirstChoice, FirstNetwork, Greatest, MeanOfMinima, OnlineChoice
from gemrl.algorithms.losses import Huber
from gemrl.algorithms.planning import LambdaReturn, NStep, Planner, Single, Twin, TwinReleased
from gemrl.algorithms.registry import RECIPES, DiscreteRecipe
from gemrl.algorithms.schedules import Linear
from gemrl.algorithms.targets import Fresh
from gemrl.core.exceptions import BadValue, UnsupportedSpace
from gemrl.core.layout import Layout
from gemrl.training.models import GEM, MODELS
from tests.compiled import discrete_batch_of, discrete_update, draw, insert, plan
from tests.conftest import SMALL
from tests.test_continuous import assert_planned_by_definition, rows_to_the_end

torch = pytest.importorskip("torch")

LAYOUT = Layout((3,), 1, 4)


def small(name: str, **fields: Any) -> DiscreteRecipe:
    recipe = RECIPES[name]
    assert isinstance(recipe, DiscreteRecipe)
    return recipe.but(**(SMALL | {"net_arch": (16, 16), "exploration_steps": 100} | fields))


def random_rows(count: int, seed: int = 0, lanes: int = 1) -> Rows:
    rng = np.random.default_rng(seed)
    columns = empty_rows(lanes, count, LAYOUT).columns()
    real = {name: rng.normal(size=column.shape).astype(np.float32) for name, column in columns.items()}
    choices = rng.integers(LAYOUT.choices, size=(lanes, count, 1), dtype=np.int32)
    last = rng.random((lanes, count)) < 0.1
    discount = np.where(last & (rng.random((lanes, count)) < 0.5), 0, 0.99).astype(np.float32)
    return Rows(real["observation"], choices, real["reward"], discount, last, real["next_observation"])


def random_memory(count: int = 40, capacity: int = 64, lanes: int = 1, pairs: int = 2) -> Memory:
    memory = insert(Memory.empty(lanes, capacity, LAYOUT, pairs), random_rows(count, lanes=lanes), jnp.full(lanes, count))
    values = jax.random.normal(jax.random.key(9), memory.q_next.shape)
    return plan(eqx.tree_at(lambda m: m.q_next, memory, values), Single(3))


def torch_network(member: Any, dueling: bool) -> tuple[Any, list[Any]]:
    """The same network in PyTorch, and its parameters in the order of ours."""

    def layer(arrays: Any) -> tuple[Any, Any]:
        return tuple(torch.tensor(np.array(x), requires_grad=True) for x in (arrays.weight, arrays.bias))

    trunk = [layer(one) for one in member.trunk]
    streams = [[layer(one) for one in stream.layers] for stream in member.streams]

    def call(x: Any) -> Any:
        for weight, bias in trunk:
            x = torch.relu(x @ weight + bias)
        outputs = []
        for stream in streams:
            h = x
            for weight, bias in stream[:-1]:
                h = torch.relu(h @ weight + bias)
            outputs.append(h @ stream[-1][0] + stream[-1][1])
        return outputs[0] + outputs[1] - outputs[1].mean(dim=1, keepdim=True) if dueling else outputs[0]

    return call, [x for pair in [*trunk, *(one for stream in streams for one in stream)] for x in pair]


@pytest.mark.parametrize(
    "name", ["dqn", "ddqn", "dueling-dqn", "clipped-ddqn", "gem-discrete", "gem-discrete-released", "ebu", "emdqn"]
)
def test_gradient_steps_equal_pytorch(name: str) -> None:
    """Two updates match PyTorch's autograd and Adam on the same minibatches; targets differ from the online networks."""
    recipe = small(name, adam_epsilon=1e-5)
    memory, learner = random_memory(pairs=recipe.n_pairs), init_learner(recipe, LAYOUT, seed=3)
    if name == "emdqn":  # rows since the last copy of the targets have no return yet
        memory = eqx.tree_at(lambda m: m.planned, memory, memory.planned.at[..., ::3].set(jnp.nan))
    learner = eqx.tree_at(lambda x: x.targets, learner, init_learner(recipe, LAYOUT, seed=4).networks)
    online = [torch_network(member, recipe.dueling) for member in learner.networks.members]
    target = [torch_network(member, recipe.dueling)[0] for member in learner.targets.members]
    parameters = [x for _, own in online for x in own]
    optimizer = torch.optim.Adam(parameters, lr=recipe.learning_rate, eps=recipe.adam_epsilon)
    for step in (1, 2):
        index = draw(memory, jax.random.key(step), (recipe.batch_size,), planned=True)
        at = np.array(index.lane), np.array(index.position)
        rows = {key: torch.tensor(np.array(column)[at]) for key, column in memory.rows.columns().items()}
        planned = torch.tensor(np.array(memory.planned)[:, at[0], at[1]])
        with torch.no_grad():
            after = [call(rows["next_observation"]) for call in target]
            chooser = [call(rows["next_observation"]) for call, _ in online]
        loss = torch.zeros(())
        for number, (call, _) in enumerate(online):
            value = call(rows["observation"]).gather(1, rows["action"].long())[:, 0]
            if name in ("dqn", "gem-discrete-released", "emdqn"):
                following = after[number].max(dim=1).values
            elif name in ("ddqn", "dueling-dqn"):
                following = after[0].gather(1, chooser[0].argmax(dim=1)[:, None])[:, 0]
            elif name == "clipped-ddqn":
                best = after[0].argmax(dim=1)[:, None]
                following = torch.minimum(after[0].gather(1, best), after[1].gather(1, best))[:, 0]
            if name in ("gem-discrete", "ebu"):
                regressed = planned[number // recipe.n_critics]
            elif name == "gem-discrete-released" and number >= 4:
                regressed = planned[number - 4]
            else:
                regressed = rows["reward"] + rows["discount"] * following
            error = torch.nn.functional.huber_loss(value, regressed, reduction="none")
            alpha = recipe.settable()["alpha"]
            loss = loss + torch.where(value >= regressed, error, alpha * error).mean()
            if name == "emdqn":
                known = ~torch.isnan(planned[0])
                pull = torch.nn.functional.huber_loss(value[known], planned[0][known], reduction="sum")
                loss = loss + 0.1 * pull / recipe.batch_size
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        learner, error = jax.jit(gradient_step, static_argnums=0)(recipe, memory, learner, index)
        np.testing.assert_allclose(error, loss.detach(), rtol=1e-4)
    ours = jax.tree.leaves(learner.networks)
    for mine, theirs in zip(ours, parameters, strict=True):
        np.testing.assert_allclose(mine, theirs.detach(), rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize("n", [1, 3, 100])
def test_n_step_returns_stop_at_the_end_of_a_trajectory(n: int) -> None:
    recipe = small("ddqn", targets=Fresh(n))
    memory = insert(random_memory(pairs=1), random_rows(40, seed=6), jnp.array([40]))  # the head is in the middle of the ring
    learner = init_learner(recipe, LAYOUT, seed=3)
    learner = eqx.tree_at(lambda x: x.targets, learner, init_learner(recipe, LAYOUT, seed=4).networks)
    drawn = draw(memory, jax.random.key(3), (50,), planned=False)
    ours = discrete_batch_of(recipe, learner, memory, drawn).returns
    online, target = (np.asarray(q(memory.rows.next_observation[0])[0]) for q in (learner.networks, learner.targets))
    reward, discount = (np.asarray(column[0]) for column in (memory.rows.reward, memory.rows.discount))
    for index in range(50):
        rows = rows_to_the_end(memory, drawn, index, n)
        expected = target[rows[-1], online[rows[-1]].argmax()]
        for row in reversed(rows):
            expected = reward[row] + discount[row] * expected
        np.testing.assert_allclose(ours[0, index], expected, rtol=1e-4, atol=1e-5)


def test_values_of_next_states_follow_their_definitions() -> None:
    rng = np.random.default_rng(0)
    online, target = rng.normal(size=(2, 2, 2, 5, 3))
    for k in range(2):
        for b in range(5):
            worst = [min(target[k, c, b, a] for c in range(2)) for a in range(3)]
            chosen = max(range(3), key=lambda a: min(online[k, c, b, a] for c in range(2)))
            first = max(range(3), key=lambda a: target[k, 0, b, a])
            assert Greatest()(online, target)[k, b] == max(worst)
            assert OnlineChoice()(online, target)[k, b] == worst[chosen]
            assert FirstChoice()(online, target)[k, b] == worst[first]


def test_asymmetric_huber_loss() -> None:
    delta = np.array([-3.0, -0.5, 0.0, 0.5, 3.0])
    np.testing.assert_allclose(Huber(1.0)(delta), [2.5, 0.125, 0, 0.125, 2.5])
    np.testing.assert_allclose(Huber(0.25)(delta), [2.5 / 4, 0.125 / 4, 0, 0.125, 2.5])


@pytest.mark.parametrize("planner", [Twin(5), Single(3), NStep(4), LambdaReturn(0.7, 6), TwinReleased(5)])
def test_planning_new_rows_gives_the_same_as_planning_all(planner: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gemrl.agents.memory.refreshing.NEWEST", 7)
    memory, rng = Memory.empty(2, 40, LAYOUT, 2), np.random.default_rng(3)
    newest = jax.jit(plan_newest, static_argnums=1)
    for block in range(25):  # enough to wrap the ring twice
        count = rng.integers(0, 9, 2)  # sometimes more than NEWEST
        memory = insert(memory, random_rows(8, seed=block, lanes=2), jnp.array(count))
        age = np.arange(1, 41)[None] <= np.array(memory.unplanned)[:, None]
        fresh = rng.normal(size=memory.q_next.shape).astype(np.float32)
        position = (np.array(memory.head)[:, None] - np.arange(1, 41)) % 40
        q_next = np.array(memory.q_next)
        for lane in range(2):
            new = position[lane][age[lane]]
            q_next[:, lane, new] = fresh[:, lane, new]
        memory = eqx.tree_at(lambda m: m.q_next, memory, jnp.array(q_next))
        expected, memory = plan(memory, planner), newest(memory, planner)
        np.testing.assert_allclose(memory.planned, expected.planned, rtol=1e-5, atol=1e-6)
        assert not np.array(memory.unplanned).any()


def test_only_new_rows_are_refreshed_until_the_targets_are_copied() -> None:
    recipe = small("gem-discrete", depth=5)
    learner, memory = init_learner(recipe, LAYOUT, seed=0), random_memory()
    memory = insert(memory, random_rows(5, seed=8), jnp.array([5]))
    before = np.array(memory.q_next)
    _, memory = discrete_update(recipe, learner, memory, False)
    assert_planned_by_definition(memory, recipe.planner)
    changed = (np.array(memory.q_next) != before).any(axis=(0, 1))
    np.testing.assert_array_equal(np.flatnonzero(changed), np.arange(40, 45))
    expected = state_values(recipe, learner, memory.rows.next_observation[0, 40:45])
    np.testing.assert_allclose(memory.q_next[:, 0, 40:45], expected, rtol=1e-5)
    moved = eqx.tree_at(lambda x: x.networks, learner, init_learner(recipe, LAYOUT, seed=5).networks)
    moved, memory = discrete_update(recipe, moved, memory, True)
    assert_planned_by_definition(memory, recipe.planner)
    for ours, theirs in zip(jax.tree.leaves(moved.targets), jax.tree.leaves(moved.networks), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    expected = state_values(recipe, moved, memory.rows.next_observation[0, :45])
    np.testing.assert_allclose(memory.q_next[:, 0, :45], expected, rtol=1e-4, atol=1e-5)


def test_targets_move_by_tau() -> None:
    """theta' <- 0.6 theta + 0.4 theta', and the values of all rows are those of the moved networks."""
    recipe = small("gem-discrete-paper", depth=5)
    learner, memory = init_learner(recipe, LAYOUT, seed=0), random_memory()
    learner = eqx.tree_at(lambda x: x.targets, learner, init_learner(recipe, LAYOUT, seed=5).networks)
    moved, memory = discrete_update(recipe, learner, memory, True)
    leaves = (jax.tree.leaves(networks) for networks in (learner.networks, learner.targets, moved.targets))
    for online, before, after in zip(*leaves, strict=True):
        np.testing.assert_allclose(after, 0.6 * np.asarray(online) + 0.4 * np.asarray(before), rtol=1e-5, atol=1e-7)
    expected = state_values(recipe, moved, memory.rows.next_observation[0, :40])
    np.testing.assert_allclose(memory.q_next[:, 0, :40], expected, rtol=1e-4, atol=1e-5)


def test_the_networks_that_act() -> None:
    """The mean over groups of the smallest value, the first network, or the students, which come last."""
    q = np.arange(2 * 2 * 1 * 3, dtype=np.float32).reshape(2, 2, 1, 3) * [[[[1, -1, 1]]]]
    np.testing.assert_array_equal(MeanOfMinima()(q), [[(0 + 6) / 2, (-4 - 10) / 2, (2 + 8) / 2]])
    np.testing.assert_array_equal(FirstNetwork()(q), [[0, -1, 2]])
    recipe = small("gem-discrete-released")
    networks, states = init_learner(recipe, LAYOUT, seed=0).networks, np.random.default_rng(0).normal(size=(5, 3))
    assert recipe.students
    values = np.asarray(networks(states.astype(np.float32)))
    assert len(values) == recipe.n_pairs * recipe.n_critics + recipe.n_pairs
    acting = acting_values(recipe, networks, states.astype(np.float32))
    np.testing.assert_allclose(acting, values[-recipe.n_pairs :].mean(axis=0), rtol=1e-5, atol=1e-6)


def test_actions_for_images_do_not_depend_on_the_batch() -> None:
    """Padding a batch to its compiled size must not change actions; and bytes are divided by 255."""
    layout = Layout((7, 7, 2), 1, 4, "uint8")
    recipe = small("dqn")
    networks = init_learner(recipe, layout, seed=0).networks
    images = np.random.default_rng(0).integers(0, 256, (3, 7, 7, 2), dtype=np.uint8)
    chosen = act(recipe, Policy(jax.tree.map(np.array, networks), None), images)
    q = np.stack([np.asarray(networks(image[None]))[0, 0] for image in images])
    np.testing.assert_array_equal(chosen[:, 0], q.argmax(axis=-1))
    floats = init_learner(recipe, layout._replace(dtype="float32"), seed=0).networks
    np.testing.assert_allclose(np.asarray(floats(images.astype(np.float32) / 255))[0], q, rtol=1e-4, atol=1e-5)


def test_epsilon_falls_from_one_to_its_final_value() -> None:
    recipe = small("dqn", learning_starts=100, exploration_steps=200, exploration_final_eps=0.1)
    networks = init_learner(recipe, LAYOUT, seed=0).networks
    networks = jax.tree.map(np.array, networks)
    rng, states = np.random.default_rng(0), np.zeros((20_000, 3), np.float32)
    best = networks(states[:1])[0, 0].argmax()
    for step, epsilon in ((100, 1.0), (200, 0.55), (300, 0.1), (10_000, 0.1)):
        fraction = (explore(recipe, Policy(networks, None), states, step, rng)[:, 0] != best).mean()
        assert abs(fraction - epsilon * 3 / 4) < 0.012  # three standard deviations


OTHER_VALUES: dict[str, Any] = {"batch_size": 8, "gradient_steps": 3, "learning_rate": 3e-3, "max_grad_norm": 0.1}
OTHER_VALUES |= {"learning_rate_schedule": Linear(0.1, 200)}
TESTED_ABOVE = {
    "adam_epsilon",
    "net_arch",
    "dueling",
    "n_pairs",
    "n_critics",
    "bootstrap",
    "targets",
    "loss",
    "students",
    "acting",
    "anchor",
}
TESTED_ABOVE |= {"normalize_observations", "normalize_rewards", "tau"}
"""Fields that other tests vary and compare with independent implementations, mostly PyTorch's."""
OUTSIDE_OF_ROUNDS = {
    "exploration_final_eps",
    "exploration_steps",
    "evaluation_eps",
    "reward_bound",
    "train_freq",
    "buffer_size",
}
OUTSIDE_OF_ROUNDS |= {"learning_starts", "target_update_interval", "gamma", "overlap"}


def test_every_field_of_a_round_has_an_effect() -> None:
    """Fields that are used outside of rounds have other tests."""
    base = small("dqn")

    def trained(recipe: DiscreteRecipe) -> list[np.ndarray]:
        learner, memory = init_learner(recipe, LAYOUT, seed=0), random_memory(pairs=recipe.n_pairs)
        learner, _, _ = train_round(recipe, learner, memory, random_rows(4, seed=1), np.array([4], np.int32), False)
        return [np.array(x) for x in jax.tree.leaves(learner.networks)]

    before = trained(base)
    assert {field.name for field in dataclasses.fields(base)} == OUTSIDE_OF_ROUNDS | TESTED_ABOVE | OTHER_VALUES.keys()
    for field, value in OTHER_VALUES.items():
        after = trained(base.but(**{field: value}))
        assert not all(np.array_equal(a, b) for a, b in zip(before, after, strict=True)), field


def test_gem_is_gem_discrete_for_discrete_actions() -> None:
    model = GEM("CartPole-v1", seed=0, **SMALL)
    assert (model.algo, type(model.recipe)) == ("gem-discrete", DiscreteRecipe)
    action, _ = model.predict(np.zeros(4), deterministic=True)
    assert model.action_space.contains(action)
    batch, _ = model.predict(np.zeros((5, 4)))
    assert batch.shape == (5,)
    for wrong in ("td3", "sac", "redq"):
        with pytest.raises(
            UnsupportedSpace, match=f"{wrong} needs a Box of observations and continuous actions.*these fit: .*dqn"
        ):
            MODELS[wrong]("CartPole-v1")
    with pytest.raises(UnsupportedSpace, match="dqn needs discrete actions"):
        MODELS["dqn"]("Pendulum-v1")


def test_contradictory_fields_are_refused() -> None:
    with pytest.raises(BadValue, match="n_pairs must be 2"):
        small("gem-discrete", n_pairs=1)
    with pytest.raises(BadValue, match="students learn planned returns"):
        small("dqn", students=True)
    with pytest.raises(BadValue, match="subset is for continuous actions"):
        small("dqn", subset=2)
    with pytest.raises(BadValue, match="OnlineChoice needs Fresh targets"):
        small("gem-discrete", bootstrap=OnlineChoice())
    for env in ("FrozenLake-v1", "MinAtar/Breakout-v1"):
        with pytest.raises(BadValue, match="normalize_observations is for vectors"):
            MODELS["dqn"](env, normalize_observations=True)


class Bandit(gym.Env):
    """One step with reward 5 or -5: clipped for learning, unclipped in evaluations."""

    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return np.zeros(1, np.float32), 5.0 if action else -5.0, True, False, {}


def test_rewards_are_clipped_for_learning_only() -> None:
    from gemrl.training.evaluation import Evaluator

    fields = SMALL | {"reward_bound": 1.0, "learning_rate": 1e-2, "gradient_steps": 50, "exploration_steps": 200}
    model = MODELS["dqn"](Bandit(), seed=0, **fields).learn(1000)
    values = model.agent.values(np.zeros((2, 1), np.float32), np.array([[0], [1]], np.int32))
    np.testing.assert_allclose(values, [-1, 1], atol=0.1)
    result = Evaluator(Bandit, episodes=3)(model.agent)
    assert result.returns == (5.0, 5.0, 5.0)
    assert abs(result.estimation_error) < 0.1
    random = MODELS["dqn"](Bandit(), seed=0, **fields | {"evaluation_eps": 1.0})
    returns = Evaluator(Bandit, episodes=400)(random.agent).returns
    assert 130 < sum(one > 0 for one in returns) < 270


def test_only_planned_rows_are_drawn() -> None:
    recipe = small("gem-discrete")
    memory = insert(random_memory(), random_rows(4, seed=2), jnp.array([4]))
    index: RowIndex = draw(memory, jax.random.key(0), (recipe.batch_size, 50), planned=True)
    assert int(index.position.max()) < 40
