"""Neural episodic control: its dictionaries and its rounds compared with the definition in numpy and PyTorch, and the agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from gemrl import NEC
from gemrl.agents.dictionary import train_round
from gemrl.agents.dictionary_learner import init_learner
from gemrl.agents.dictionary_memory import waiting_rows
from gemrl.agents.making import make_agent
from gemrl.agents.memory.dictionary import Dictionary, Written, kernel_mean
from gemrl.agents.memory.equals import digests
from gemrl.agents.memory.ring import Memory, Rows
from gemrl.algorithms.planning import LambdaReturn, NStep, Single, Stopping, Twin
from gemrl.algorithms.registry import RECIPES, DictionaryRecipe
from gemrl.cli.main import main
from gemrl.cli.memory import load
from gemrl.core.exceptions import BadValue
from gemrl.core.layout import Layout
from tests import probes
from tests.compiled import draw, insert
from tests.test_best_returns import random_rows
from tests.test_masks import Doors
from tests.test_nearest import Signs

GAMMA, DELTA = 0.9, 1e-3


def definition(h: Any, rows: Any, k: int) -> Any:
    """Q(s, a) = sum_i w_i v_i over the k nearest of some rows, keys and values, in PyTorch; 0 without rows."""
    keys, values = rows
    if not len(keys):
        return torch.zeros(())
    distances = torch.stack([((h - key) ** 2).sum() for key in keys])
    near = distances.detach().argsort(stable=True)[:k]
    kernel = 1 / (distances[near] + DELTA)
    return (kernel / kernel.sum() * values[near]).sum()


def filled(rng: np.random.Generator, sizes: list[int], room: int, width: int, k: int) -> Dictionary:
    """Dictionaries with random rows."""
    found = Dictionary.empty(len(sizes), room, width, k, DELTA)
    for action, size in enumerate(sizes):
        found.key[action, :size] = rng.normal(size=(size, width))
        found.value[action, :size] = rng.normal(size=size)
        found.norm[action, :size] = (found.key[action, :size] ** 2).sum(-1)
        found.used[action, :size] = 0
    return jax.tree.map(jnp.array, found)


def test_values_by_definition() -> None:
    """More rows than neighbours, fewer, one and none."""
    rng = np.random.default_rng(0)
    rows, queries = filled(rng, [30, 3, 1, 0], 40, 4, 5), rng.normal(size=(7, 4)).astype(np.float32)
    queries[0] = rows.key[0, 7]
    found, near = jax.jit(Dictionary.values)(rows, queries)
    for query, values in zip(torch.tensor(queries), found, strict=True):
        for action, size in enumerate([30, 3, 1, 0]):
            own = (torch.tensor(np.asarray(column)[action, :size]) for column in (rows.key, rows.value))
            np.testing.assert_allclose(values[action], definition(query, own, 5), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(near.filled.sum(axis=-1), np.tile([5, 3, 1, 0], (7, 1)))
    np.testing.assert_array_equal(rows.sizes, [30, 3, 1, 0])


def test_gradients_by_query_keys_and_values() -> None:
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in ((3,), (6, 3), (6,))]
    whole = np.ones(6, bool)
    found = jax.grad(lambda h, keys, values: kernel_mean(h, keys, values, whole, DELTA), argnums=(0, 1, 2))(
        *map(jnp.array, arrays)
    )
    tensors: list[Any] = [torch.tensor(array, requires_grad=True) for array in arrays]
    definition(tensors[0], tensors[1:], 6).backward()
    for slope, tensor in zip(found, tensors, strict=True):
        np.testing.assert_allclose(slope, tensor.grad, rtol=1e-4, atol=1e-5)


class Slots:
    """A dictionary of one action by its definition: slots in the order of their first use."""

    def __init__(self, room: int) -> None:
        self.room, self.rows = room, list[dict[str, Any]]()

    def write(self, state: tuple[float, ...], key: np.ndarray, value: float, rate: float, now: int) -> None:
        for row in self.rows:
            if row["state"] == state:
                row |= {"key": key, "value": row["value"] + rate * (value - row["value"]), "used": now}
                return
        new = {"state": state, "key": key, "value": value, "used": now}
        if len(self.rows) < self.room:
            self.rows.append(new)
        else:
            oldest = min(range(self.room), key=lambda slot: self.rows[slot]["used"])
            self.rows[oldest] = new

    def nearest(self, h: np.ndarray, k: int) -> list[dict[str, Any]]:
        return sorted(self.rows, key=lambda row: ((row["key"] - h) ** 2).sum())[:k]


def check_rows(rows: Dictionary, slots: list[Slots], rtol: float = 1e-6, atol: float = 1e-6) -> None:
    """The dictionaries have these rows, in these places."""
    for action, own in enumerate(slots):
        count = len(own.rows)
        assert int(rows.sizes[action]) == count
        assert np.isinf(rows.norm[action, count:]).all()
        np.testing.assert_array_equal(rows.used[action, :count], [row["used"] for row in own.rows])
        for name, column in (("key", rows.key), ("value", rows.value)):
            np.testing.assert_allclose(column[action, :count], [row[name] for row in own.rows], rtol=rtol, atol=atol)
        np.testing.assert_allclose(rows.norm[action, :count], (rows.key[action, :count] ** 2).sum(-1), rtol=1e-5)


def test_writing_by_definition() -> None:
    """Known states move, new ones take empty rows, then the least recently used; some places of a batch are empty."""
    rng, rows, slots = np.random.default_rng(2), filled(np.random.default_rng(), [0, 0], 6, 3, 2), [Slots(6), Slots(6)]
    write, read = jax.jit(Dictionary.written), jax.jit(lambda rows, key, now: rows.touched(rows.nearest(key), now))
    for now in range(12):
        states = rng.integers(0, 11, (5, 1)).astype(np.float32)
        action, value, valid = rng.integers(0, 2, 5), rng.normal(size=5).astype(np.float32), rng.random(5) < 0.8
        key = rng.normal(size=(5, 3)).astype(np.float32)
        rows = write(rows, Written(action, key, digests(jnp.array(states)), value, valid), 0.25, jnp.array(now))
        for number in np.flatnonzero(valid):
            slots[action[number]].write(tuple(states[number]), key[number], value[number], 0.25, now)
        rows = read(rows, jnp.array(key[:1]), jnp.array(now))
        for own in slots:
            for row in own.nearest(key[0], 2):
                row["used"] = now
        check_rows(rows, slots)
    assert [len(own.rows) for own in slots] == [6, 6]


LAYOUT = Layout((2,), 1, 3)
SMALL: dict[str, Any] = {
    "gamma": GAMMA,
    "net_arch": (8,),
    "key_size": 4,
    "rows_per_action": 3,
    "k": 2,
    "planner": NStep(3),
    "train_freq": 4,
    "batch_size": 6,
    "gradient_steps": 2,
    "learning_rate": 1e-2,
}
RECIPE = DictionaryRecipe(**SMALL)


class Definition:
    """Algorithm 1 of the paper with the optimizers of gemrl, in PyTorch, row by row."""

    def __init__(self, learner: Any) -> None:
        layers = learner.embedding.network.streams[0].layers
        self.weights = [torch.tensor(np.array(x), requires_grad=True) for layer in layers for x in layer[:2]]
        self.adam = torch.optim.Adam(self.weights, lr=RECIPE.learning_rate, eps=RECIPE.adam_epsilon)
        self.slots, self.lanes = [Slots(3) for _ in range(3)], [list[dict[str, Any]](), list[dict[str, Any]]()]
        self.square, self.clock = 0.0, 0

    def embed(self, state: np.ndarray) -> Any:
        first, bias, second, last = self.weights
        return torch.relu(torch.tensor(state) @ first + bias) @ second + last

    def value(self, state: np.ndarray) -> float:
        """max_a Q(s, a); its neighbours count as used."""
        h, values = self.embed(state).detach(), []
        for own in self.slots:
            near = own.nearest(h.numpy(), RECIPE.k)
            columns = (torch.tensor(np.array([row[name] for row in near])) for name in ("key", "value"))
            values.append(float(definition(h, columns, RECIPE.k)))
            for row in near:
                row["used"] = self.clock
        return max(values)

    def remember(self, new: Rows, count: np.ndarray, room: int) -> None:
        """Values the new rows, then writes those that are followed by three steps or the end of their trajectory."""
        ready = []
        for lane, own in enumerate(self.lanes):
            for t in range(count[lane]):
                row = {name: column[lane, t] for name, column in new.columns().items()}
                own.append(row | {"value": self.value(row["next_observation"]), "return": None})
            final = []
            for t, row in enumerate(own):
                ahead = own[t : t + 3]
                ends = [step for step, other in enumerate(ahead) if other["last"]]
                if row["return"] is None and (ends or len(ahead) == 3):
                    row["return"] = ahead[min([*ends, 2])]["value"]
                    for other in reversed(ahead[: min([*ends, 2]) + 1]):
                        row["return"] = other["reward"] + other["discount"] * row["return"]
                    final.append(row)
            ready += [(number // 2, lane, number, row) for number, row in enumerate(final)]  # two rows of each lane at a time
            self.lanes[lane] = own[-room:]
        for *_, row in sorted(ready, key=lambda item: item[:3]):
            state = tuple(map(float, np.abs(row["observation"])))
            key = self.embed(row["observation"]).detach().numpy()
            self.slots[row["action"][0]].write(state, key, row["return"], RECIPE.write_rate, self.clock)

    def learn(self, lanes: np.ndarray, offsets: np.ndarray) -> float:
        """One minibatch; the gradients by keys and values are those of half the mean squared error."""
        cost: Any = torch.zeros(())
        leaves = []
        for lane, offset in zip(lanes, offsets, strict=True):
            row = self.lanes[lane][offset]
            h = self.embed(row["observation"])
            near = self.slots[row["action"][0]].nearest(h.detach().numpy(), RECIPE.k)
            columns: list[Any] = [
                torch.tensor(np.array([one[name] for one in near]), requires_grad=True) for name in ("key", "value")
            ]
            leaves.append((near, columns))
            cost = cost + (definition(h, columns, RECIPE.k) - float(row["return"])) ** 2 / (2 * len(lanes))
        self.adam.zero_grad()
        cost.backward()
        squares = sum(float((columns[0].grad ** 2).sum()) for _, columns in leaves)
        self.square = 0.99 * self.square + 0.01 * squares / (len(lanes) * RECIPE.k * RECIPE.key_size)
        self.adam.step()
        self.clock += 1
        size = (self.square / (1 - 0.99**self.clock)) ** 0.5 + 1e-8
        for near, (keys, values) in leaves:
            for row, key, value in zip(near, keys.grad.numpy(), values.grad.numpy(), strict=True):
                row["key"] = row["key"] - RECIPE.learning_rate * key / size
                row["value"] = row["value"] - RECIPE.value_rate * value
                row["used"] = self.clock - 1
        return float(cost.detach())


def test_rounds_by_definition() -> None:
    """Two lanes whose rings wrap, full dictionaries, states that repeat, and rows that wait for their return."""
    learner, rng = init_learner(RECIPE, LAYOUT, seed=0), np.random.default_rng(1)
    memory, oracle = Memory.empty(2, 14, LAYOUT, 1), Definition(learner)
    for counts in ([5, 3], [0, 2], [4, 4], [2, 2], [3, 6]):
        new, count = random_rows(rng, 2, 6), np.array(counts)
        before = insert(memory, new, jnp.array(count))
        oracle.remember(new, count, 14)
        _, key = jax.random.split(learner.key)
        learner, memory, losses = train_round(RECIPE, learner, memory, new, jnp.array(count), False)
        waiting = [sum(row["return"] is None for row in own) for own in oracle.lanes]
        np.testing.assert_array_equal(memory.unplanned, waiting)
        for lane, own in enumerate(oracle.lanes):
            final = [row["return"] for row in own if row["return"] is not None]
            np.testing.assert_allclose(memory.planned_returns(lane)[0, : len(final)], final, rtol=1e-4, atol=1e-4)
        drawn = draw(eqx.tree_at(lambda m: m.unplanned, before, jnp.array(waiting)), key, (2, 6), planned=True)
        costs = [oracle.learn(*map(np.array, (drawn.lane[step], drawn.offset[step]))) for step in range(2)]
        np.testing.assert_allclose(losses["loss"], np.mean(costs), rtol=1e-3)
        check_rows(learner.dictionary, oracle.slots, rtol=1e-3, atol=1e-3)
        states = rng.normal(size=(9, 2)).astype(np.float32)
        np.testing.assert_allclose(learner.embedding(jnp.array(states)), oracle.embed(states).detach(), rtol=1e-3, atol=1e-3)
    assert [len(own.rows) for own in oracle.slots] == [3, 3, 3]


@pytest.mark.parametrize("ahead", [1, 3, 20])
def test_rows_wait_until_enough_others_follow_or_their_trajectory_ends(ahead: int) -> None:
    rng, memory = np.random.default_rng(3), Memory.empty(2, 9, LAYOUT, 1)
    for counts in ([2, 0], [4, 1], [3, 5], [5, 5]):
        memory = insert(memory, random_rows(rng, 2, 5), jnp.array(counts))
        for lane, found in enumerate(jax.jit(waiting_rows, static_argnums=1)(memory, ahead)):
            last = memory.lane(lane)["last"]
            waits = [not last[t : t + ahead].any() and len(last) - t < ahead for t in range(len(last))]
            assert int(found) == sum(waits)


PROBE: dict[str, Any] = {
    "gamma": 0.5,
    "net_arch": (16,),
    "key_size": 4,
    "rows_per_action": 200,
    "planner": NStep(5),
    "k": 5,
    "learning_starts": 100,
    "train_freq": 10,
    "gradient_steps": 2,
    "exploration_steps": 300,
    "exploration_final_eps": 0.3,
    "buffer_size": 2000,
}


def trained(env: gym.Env, steps: int, **fields: Any) -> NEC:
    return NEC(env, seed=1, **PROBE | fields).learn(steps)


def q(model: NEC, states: list[float], action: int) -> np.ndarray:
    observations = np.array(states, np.float32)[:, None]
    return model.agent.values(observations, np.full((len(states), 1), action, np.int32))


def test_probes() -> None:
    """The best action and its value; a truncated episode bootstraps and a terminated one does not; values follow the state."""
    model = trained(probes.Choices(probes.ActionDependent()), 400)
    assert model.predict(np.zeros(1), deterministic=True)[0] == 1
    np.testing.assert_allclose([q(model, [0.0], action)[0] for action in range(3)], [-4.0, 0.0, -1.0], atol=1e-3)
    np.testing.assert_allclose(q(trained(probes.Choices(probes.Truncated()), 1200), [0.0], 0), [2.0], atol=0.05)
    endless = trained(probes.Choices(probes.Endless()), 1200)  # rows become final although no episode ends
    np.testing.assert_allclose(q(endless, [0.0], 0), [2.0], atol=0.05)
    terminated = trained(probes.Choices(probes.Terminated()), 600)
    np.testing.assert_allclose(q(terminated, [1.0, 0.0, -1.0], 0), [1.75, 1.5, 1.0], atol=0.05)


@pytest.mark.parametrize("pictures", [True, False])
def test_it_learns_from_pictures_and_from_discrete_states(pictures: bool, tmp_path: Path) -> None:
    env = Signs(pictures)
    model = NEC(env, seed=0, **PROBE | {"gamma": 0.0, "k": 3}).learn(500)
    states = env.pictures if pictures else np.arange(4)
    best = [(state * 3 + 1) % 4 for state in range(4)]
    np.testing.assert_array_equal(model.predict(states, deterministic=True)[0], best)
    assert model.agent.notes["dictionaries"].startswith("4 + 4 + 4 + 4 rows of at most 200 for each action; values from ")
    model.save(tmp_path / "signs")
    np.testing.assert_array_equal(NEC.load(tmp_path / "signs").predict(states, deterministic=True)[0], best)


def test_masks_are_kept_everywhere() -> None:
    """In exploration, evaluation and prediction, where the environment would raise, and in the values of next states."""
    model = NEC(Doors(), seed=0, **PROBE | {"evaluation_eps": 0.3}).learn(260, eval_env=Doors, eval_every=130, eval_episodes=2)
    rows = model.memory.lane(0)
    assert rows["observation"].shape[1:] == (7,)
    assert (np.take_along_axis(rows["observation"][:, 3:], rows["action"], axis=1) == 1).all()
    assert np.isfinite(rows["q_next"]).all()
    learner, key = model.agent.learner, jax.random.key(0)
    states = jax.random.normal(key, (50, 3))
    q = learner.policy.values(states)[0]
    for allowed in (q.argmin(axis=-1), q.argmax(axis=-1)):
        masked = jnp.concatenate([states, jnp.eye(4)[allowed]], axis=-1)
        np.testing.assert_array_equal(model.agent.act(np.asarray(masked))[:, 0], allowed)


def test_recorded_episodes_are_written_before_the_first_step() -> None:
    env = probes.Choices(probes.Terminated())
    observations = np.array([[1], [0], [-1], [-1]], np.float32)
    facts = {"rewards": np.ones(3), "terminated": np.array([False, False, True]), "truncated": np.zeros(3, bool)}
    episode = {"observations": observations, "actions": np.zeros(3, np.int64)} | facts
    model = NEC(env, seed=1, **PROBE | {"learning_starts": 0})
    model.remember([episode, episode], keep=True)
    assert np.asarray(model.agent.learner.dictionary.sizes).tolist() == [0, 0, 0]
    model.learn(10)
    np.testing.assert_allclose(q(model, [1.0, 0.0, -1.0], 0), [1.75, 1.5, 1.0], atol=0.05)


def test_memory_shows_rollouts_and_dictionaries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "CartPole-v1", "--algo", "nec", "--steps", "300", "--eval-every", "300", "--eval-episodes", "1"]
    words += ["--run", str(tmp_path), "--set", *(f"{name}={value}" for name, value in PROBE.items())]
    assert main(words) == 0
    capsys.readouterr()
    assert main(["memory", str(tmp_path)]) == 0
    shown = {line[:21].strip(): line[21:] for line in capsys.readouterr().out.splitlines()}
    assert shown["rows"].startswith("300 in ")
    rows = [int(number) for number in shown["dictionaries"].partition(" rows of at most 200")[0].split(" + ")]
    waiting = int(load(tmp_path).memory.unplanned.sum())
    assert sum(rows) == 300 - waiting
    assert 0 <= waiting < 5


def test_the_size_of_dictionaries_is_estimated() -> None:
    learner, layout = init_learner(RECIPE, LAYOUT, 0), Layout((2,), 1, 3)
    assert sum(leaf.nbytes for leaf in jax.tree.leaves(learner.dictionary)) == 4 * RECIPE.dictionary_size(3)
    with pytest.raises(BadValue, match="set a smaller rows_per_action or key_size"):
        make_agent(RECIPE.but(rows_per_action=10**9), layout, lanes=1, seed=0, device=None)


@pytest.mark.parametrize("planner", [Twin(5), Stopping()])
def test_planners_that_do_not_fit_are_refused(planner: Any) -> None:
    with pytest.raises(BadValue, match=type(planner).__name__):
        RECIPE.but(planner=planner)


@pytest.mark.parametrize("planner", [Single(5), LambdaReturn(0.8, 5)])
def test_other_planners_of_returns(planner: Any) -> None:
    terminated = trained(probes.Choices(probes.Terminated()), 600, planner=planner)
    np.testing.assert_allclose(q(terminated, [1.0, 0.0, -1.0], 0), [1.75, 1.5, 1.0], atol=0.1)


def test_warnings_and_presets() -> None:
    recipe: Any = RECIPES["nec"]
    assert "returns look 100 steps ahead, but there are 40 rows" in recipe.but(buffer_size=80).warnings(10_000, 2)[0]
    small = recipe.for_environment("MinAtar/Breakout-v1", Layout((10, 10, 4), 1, 3, "bool"))
    assert (small.learning_starts, small.exploration_steps, small.rows_per_action) == (5_000, 100_000, 20_000)
    changed = recipe.but(learning_starts=7)
    assert changed.for_environment("MinAtar/Breakout-v1", Layout((10, 10, 4), 1, 3, "bool")).learning_starts == 7
