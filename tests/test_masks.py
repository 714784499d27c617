"""Masks of allowed actions: in acting, in random actions and in the values of next states, compared with loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import gemrl
from gemrl.agents.discrete_learner import init_learner
from gemrl.agents.memory.ring import Memory, RowIndex, Rows
from gemrl.algorithms.planning import Stopping
from gemrl.algorithms.registry import RECIPES, DiscreteRecipe
from gemrl.algorithms.tabular import StepSize
from gemrl.cli.main import main
from gemrl.core.exceptions import EnvironmentFault, UnsupportedSpace
from gemrl.core.layout import Layout
from gemrl.envs.spaces import Spaces
from gemrl.training.models import DQN, GEM, MODELS
from gemrl.training.pytrees import named_arrays, refilled
from tests.compiled import discrete_batch_of, discrete_refresh, discrete_state_values, insert
from tests.conftest import SMALL, SMALL_WORDS

ACTIONS = 4
VECTORS = spaces.Dict({"observation": spaces.Box(-3, 3, (3,)), "action_mask": spaces.MultiBinary(ACTIONS)})
STATES = spaces.Dict({"observation": spaces.Discrete(5, start=2), "action_mask": spaces.Box(0, 1, (ACTIONS,), np.int8)})
LAYOUT = Spaces(VECTORS, spaces.Discrete(ACTIONS)).layout


class Doors(gym.Env):
    """Random observations and masks; an action that the mask forbids fails. Final observations forbid everything."""

    metadata = {"render_modes": []}  # noqa: RUF012, as gymnasium declares it

    def __init__(self, observation: spaces.Dict = VECTORS, action: gym.Space | None = None) -> None:
        self.observation_space, self.action_space = observation, action or spaces.Discrete(ACTIONS)

    def _observe(self) -> dict[str, Any]:
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        self.mask = (self.np_random.random(ACTIONS) < 0.4).astype(np.int8) if self.time < 6 else np.zeros(ACTIONS, np.int8)
        if self.time < 6:
            self.mask[self.np_random.integers(ACTIONS)] = 1
        return self.observation_space.sample() | {"action_mask": self.mask.copy()}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.mask[self._number(action)], "this action is not allowed"
        self.time += 1
        return self._observe(), float(self.time), self.time == 6, False, {}

    def _number(self, action: Any) -> int:
        return int(action[0] * 2 + action[1]) if isinstance(self.action_space, spaces.MultiDiscrete) else int(action)


def doors(**kwargs: Any) -> gym.Env:
    return Doors()


gym.register("Doors-v0", entry_point=doors)


def test_the_mask_follows_the_observation() -> None:
    own = Spaces(VECTORS, spaces.Discrete(ACTIONS))
    assert own.layout == Layout((7,), 1, ACTIONS, masked=True)
    assert own.layout.unmasked == Layout((3,), 1, ACTIONS)
    given = {"action_mask": np.array([0, 1, 0, 1], np.int8), "observation": np.array([1, 2, 3], np.float32)}
    assert own.agent_observation(given).tolist() == [1, 2, 3, 0, 1, 0, 1]
    own = Spaces(STATES, spaces.Discrete(ACTIONS))
    assert own.layout == Layout((5,), 1, ACTIONS, "int32", states=5, masked=True)
    assert own.agent_observation(given | {"observation": 4}).tolist() == [2, 0, 1, 0, 1]
    assert not Spaces(VECTORS, spaces.Box(-1, 1, (4,))).layout.masked


def test_a_mask_that_allows_nothing_allows_everything() -> None:
    state, allowed = LAYOUT.split(np.array([[1, 2, 3, 0, 1, 0, 0], [4, 5, 6, 0, 0, 0, 0]], np.float32))
    assert state.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert allowed is not None
    assert allowed.tolist() == [[False, True, False, False], [True] * 4]


def test_random_actions_are_uniform_over_the_allowed_ones() -> None:
    allowed = np.tile([True, False, True, True], (6000, 1))
    drawn = LAYOUT.random_actions(6000, np.random.default_rng(0), allowed)
    assert drawn.shape == (6000, 1)
    assert drawn.dtype == np.int32
    counts = np.bincount(drawn[:, 0], minlength=4)
    assert counts[1] == 0
    np.testing.assert_allclose(counts[[0, 2, 3]], 2000, atol=150)


@pytest.mark.parametrize(
    ("observation", "action", "message"),
    [
        (
            spaces.Dict({"action_mask": spaces.MultiBinary(3), "x": spaces.Box(0, 1, (2,))}),
            4,
            "of 4, one number for each action, not 3",
        ),
        (spaces.Dict({"action_mask": spaces.Discrete(4), "x": spaces.Box(0, 1, (2,))}), 4, "not a Discrete space"),
        (spaces.Dict({"action_mask": spaces.MultiBinary(4)}), 4, "something besides action_mask"),
    ],
)
def test_unsupported_masks(observation: gym.Space, action: int, message: str) -> None:
    with pytest.raises(UnsupportedSpace, match=message):
        Spaces(observation, spaces.Discrete(action))


@pytest.mark.parametrize("n_envs", [1, 2])
@pytest.mark.parametrize(
    ("algo", "fields"),
    [
        ("gem", {}),
        ("gem-discrete-released", {}),
        ("dqn", {"normalize_observations": True, "normalize_rewards": True}),
        ("dueling-dqn", {}),
        ("clipped-ddqn", {}),
        ("gem", {"planner": Stopping()}),
    ],
)
def test_no_agent_takes_a_forbidden_action(algo: str, fields: dict[str, Any], n_envs: int) -> None:
    """In warm-up, exploration, evaluation with random actions and prediction; the environment would raise."""
    env: Any = Doors() if n_envs == 1 else [Doors() for _ in range(n_envs)]
    model = MODELS[algo](env, seed=0, **SMALL | {"exploration_steps": 100, "evaluation_eps": 0.3} | fields)
    model.learn(260, eval_env=Doors, eval_every=130, eval_episodes=2)
    rows = model.memory.lane(0)
    assert rows["observation"].shape[1:] == (7,)
    assert (np.take_along_axis(rows["observation"][:, 3:], rows["action"], axis=1) == 1).all()
    taken = rows["action"][:, 0]
    assert len(np.unique(taken)) == ACTIONS
    assert np.isfinite(rows["q_next"]).all()
    batch = {"observation": np.zeros((4, 3), np.float32), "action_mask": np.eye(ACTIONS, dtype=np.int8)}
    assert model.predict(batch)[0].tolist() == [0, 1, 2, 3]


def test_combinations_and_states_can_be_masked() -> None:
    model = DQN(Doors(action=spaces.MultiDiscrete([2, 2])), seed=0, **SMALL | {"exploration_steps": 100}).learn(200)
    mask = np.array([0, 0, 1, 0], np.int8)
    assert model.predict({"observation": np.zeros(3, np.float32), "action_mask": mask})[0].tolist() == [1, 0]
    for algo, fields in (("dqn", SMALL), ("gem", {}), ("double-q", {})):
        trained = MODELS[algo](Doors(STATES), seed=0, **fields).learn(200)
        assert trained.algo in ("dqn", "gem-tabular", "double-q")
        assert trained.predict({"observation": 3, "action_mask": mask})[0] == 2
    with pytest.raises(UnsupportedSpace, match="mfec needs discrete actions without a mask"):
        MODELS["mfec"](Doors())


def small(algo: str, **fields: Any) -> DiscreteRecipe:
    recipe = RECIPES[algo]
    assert isinstance(recipe, DiscreteRecipe)
    return recipe.but(**SMALL | fields)


def random_observations(rng: np.random.Generator, count: int) -> np.ndarray:
    """Vectors with masks that allow at least one action [n, 7]."""
    mask = rng.random((count, ACTIONS)) < 0.4
    mask[np.arange(count), rng.integers(ACTIONS, size=count)] = True
    return np.concatenate([rng.normal(size=(count, 3)), mask], axis=1).astype(np.float32)


def random_learner(recipe: DiscreteRecipe) -> Any:
    """A learner whose targets differ from its networks."""
    learner, rng = init_learner(recipe, LAYOUT, 0), np.random.default_rng(1)
    arrays = {name: np.asarray(array) for name, array in named_arrays(learner).items()}
    moved = {name: array + rng.normal(0, 0.5, array.shape) for name, array in arrays.items() if name.startswith("targets")}
    return refilled(learner, arrays | {name: array.astype(np.float32) for name, array in moved.items()})


@pytest.mark.parametrize("algo", ["gem-discrete", "dqn", "ddqn", "clipped-ddqn"])
def test_values_of_states_are_over_allowed_actions(algo: str) -> None:
    recipe, observations = small(algo), random_observations(np.random.default_rng(0), 30)
    learner = random_learner(recipe)
    found = np.asarray(discrete_state_values(recipe, learner, observations))
    shape = recipe.n_pairs, recipe.n_critics, 30, ACTIONS
    online, target = (
        np.asarray(networks(observations[:, :3])).reshape(shape) for networks in (learner.networks, learner.targets)
    )
    differs = 0
    for k in range(recipe.n_pairs):
        for b in range(30):
            allowed = [a for a in range(ACTIONS) if observations[b, 3 + a]]
            worst, online_worst = target[k, :, b].min(axis=0), online[k, :, b].min(axis=0)
            best = {
                "gem-discrete": max(worst[a] for a in allowed),
                "dqn": max(worst[a] for a in allowed),
                "ddqn": worst[max(allowed, key=lambda a: online_worst[a])],
                "clipped-ddqn": worst[max(allowed, key=lambda a: target[k, 0, b, a])],
            }[algo]
            assert found[k, b] == pytest.approx(best, abs=1e-5)
            differs += best != max(worst)
    assert differs > 5, "masks make a difference"


def random_memory(rng: np.random.Generator, recipe: DiscreteRecipe, count: int = 40) -> Memory:
    extra = recipe.planner.extra if recipe.targets.stored else ()
    empty = Memory.empty(1, 64, LAYOUT, recipe.n_pairs, extra)
    observations = random_observations(rng, count + 1)
    action, reward = rng.integers(ACTIONS, size=(count, 1), dtype=np.int32), rng.normal(size=count).astype(np.float32)
    discount, last = np.full(count, 0.99, np.float32), np.zeros(count, bool)
    columns: list[Any] = [observations[:-1], action, reward, discount, last, observations[1:]]
    return insert(empty, Rows(*(column[None] for column in columns)), jnp.full(1, count))


def test_stored_values_are_over_allowed_actions() -> None:
    """And the value of the action that was taken next does not depend on the mask."""
    recipe = small("gem-discrete", planner=Stopping())
    memory = random_memory(np.random.default_rng(3), recipe)
    learner = random_learner(recipe)
    refreshed = discrete_refresh(recipe, learner, memory, memory.size)
    following, action = np.asarray(memory.rows.next_observation[0, :40]), np.asarray(memory.rows.action[0, :40, 0])
    target = np.asarray(learner.targets(following[:, :3])).reshape(2, 2, 40, ACTIONS).min(axis=1)
    best = np.where(following[:, 3:] != 0, target, -1e9).max(axis=-1)
    np.testing.assert_allclose(refreshed.q_next[:, 0, :40], best, atol=1e-5)
    taken = np.take_along_axis(target[:, :-1], action[1:][None, :, None], axis=-1)[..., 0]
    assert refreshed.q_stored is not None
    np.testing.assert_allclose(refreshed.q_stored[:, 0, :39], taken, atol=1e-5)


def test_the_best_other_action_is_an_allowed_one() -> None:
    """As episodic backward update needs it; -inf if the action that was taken is the only one."""
    recipe = small("ebu")
    memory, learner = random_memory(np.random.default_rng(5), recipe), random_learner(recipe)
    refreshed = discrete_refresh(recipe, learner, memory, memory.size)
    following, action = np.asarray(memory.rows.next_observation[0, :39]), np.asarray(memory.rows.action[0, 1:40, 0])
    target = np.asarray(learner.targets(following[:, :3])).min(axis=0)
    assert refreshed.q_other is not None
    for row in range(39):
        others = [target[row, a] for a in range(ACTIONS) if following[row, 3 + a] and a != action[row]]
        assert float(refreshed.q_other[0, 0, row]) == pytest.approx(max(others, default=-np.inf), abs=1e-5)


def test_one_step_targets_beside_students_are_over_allowed_actions() -> None:
    recipe = small("gem-discrete-released")
    memory, learner = random_memory(np.random.default_rng(4), recipe), random_learner(recipe)
    index = RowIndex(jnp.zeros(40, jnp.int32), jnp.arange(40), jnp.arange(40))
    returns = np.asarray(discrete_batch_of(recipe, learner, memory, index).returns)[: -recipe.n_pairs]
    rows = jax.tree.map(lambda column: np.asarray(column[0, :40]), memory.rows)
    values = np.asarray(learner.targets(rows.next_observation[:, :3]))[: -recipe.n_pairs]
    best = np.where(rows.next_observation[:, 3:] != 0, values, -1e9).max(axis=-1)
    np.testing.assert_allclose(returns, rows.reward + rows.discount * best, atol=1e-5)


class Maze(gym.Env):
    """A random deterministic MDP whose states forbid some actions; the info has the mask."""

    observation_space = spaces.Discrete(6)
    action_space = spaces.Discrete(3)
    metadata = {"render_modes": []}  # noqa: RUF012, as gymnasium declares it

    def __init__(self) -> None:
        rng = np.random.default_rng(7)
        self.target, self.reward = rng.integers(6, size=(6, 3)), rng.normal(size=(6, 3)).round(2)
        self.allowed = rng.random((6, 3)) < 0.5
        self.allowed[np.arange(6), rng.integers(3, size=6)] = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.time, self.state = 0, int(self.np_random.integers(6))
        return self.state, {"action_mask": self.allowed[self.state]}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        assert self.allowed[self.state, action], "this action is not allowed"
        reward, self.state, self.time = (
            float(self.reward[self.state, action]),
            int(self.target[self.state, action]),
            self.time + 1,
        )
        return self.state, reward, False, self.time == 10, {"action_mask": self.allowed[self.state]}


@pytest.mark.parametrize("algo", ["q-learning", "double-q", "gem"])
def test_tables_converge_to_the_best_allowed_actions(algo: str) -> None:
    """Forbidden actions keep their initial value of 50, which a maximum over all actions would take for the truth."""
    fields: dict[str, Any] = {"initial_value": 50.0, "exploration_final_eps": 1.0, "gamma": 0.5, "step_size": StepSize(power=0.0)}
    model = MODELS[algo](gemrl.ActionMasks(Maze()), seed=0, **fields).learn(4000)
    maze = Maze()
    q = np.zeros((6, 3))
    for _ in range(100):
        q = maze.reward + 0.5 * np.where(maze.allowed, q, -np.inf).max(axis=1)[maze.target]
    learned = model.agent.learner.q
    assert np.abs(learned - q)[:, maze.allowed].max() < 1e-4
    assert (learned[:, ~maze.allowed] == 50).all()
    greedy = model.predict({"observation": np.arange(6), "action_mask": maze.allowed})[0]
    np.testing.assert_array_equal(greedy, np.where(maze.allowed, q, -np.inf).argmax(axis=1))


def test_masks_in_infos() -> None:
    env = gemrl.ActionMasks(Maze())
    assert env.observation_space == spaces.Dict({"observation": spaces.Discrete(6), "action_mask": spaces.MultiBinary(3)})
    observation, _ = env.reset(seed=0)
    assert env.observation_space.contains(observation)
    assert observation["action_mask"].tolist() == Maze().allowed[observation["observation"]].tolist()
    joined = gemrl.ActionMasks(gemrl.ActionMasks(Maze()))  # a Dict stays one
    assert joined.observation_space == env.observation_space
    with pytest.raises(UnsupportedSpace, match="ActionMasks is for discrete actions"):
        gemrl.ActionMasks(gym.make("Pendulum-v1"))
    with pytest.raises(EnvironmentFault, match="at reset: the info has no 'action_mask', which ActionMasks needs"):
        GEM(gemrl.ActionMasks(gym.make("FrozenLake-v1")), seed=0).learn(1)
    with pytest.raises(EnvironmentFault, match="at reset: 'prob' in the info has 1 numbers, but there are 4 actions"):
        GEM(gemrl.ActionMasks(gym.make("FrozenLake-v1"), key="prob"), seed=0).learn(1)


def test_masks_are_saved_with_the_memory(tmp_path: Path) -> None:
    fields = SMALL | {"exploration_steps": 100}
    whole, first = (GEM(Doors(), seed=0, **fields) for _ in range(2))
    whole.learn(300)
    for _ in first.training(170):
        pass
    first.save(tmp_path / "model", memory=True)
    second = GEM.load(tmp_path / "model", Doors())
    for _ in second.training(300, observation=second.replay()):
        pass
    for name, array in whole.get_parameters().items():
        np.testing.assert_array_equal(second.get_parameters()[name], array)


@pytest.mark.parametrize("name", ["numpy", "onnx", "torch"])
@pytest.mark.parametrize("algo", ["gem", "gem-tabular", "dqn"])
def test_exported_policies_obey_the_mask(algo: str, name: str, tmp_path: Path) -> None:
    from tests.test_export import runner

    observation = VECTORS if algo == "gem" else STATES
    fields: dict[str, Any] = {} if algo == "gem-tabular" else {"net_arch": (16,), "learning_starts": 0}
    model = MODELS[algo](Doors(observation), seed=0, **fields)
    rng = np.random.default_rng(0)
    arrays = {key: array for key, array in model.get_parameters().items() if array.dtype.kind == "f"}
    model.set_parameters({key: array + rng.normal(size=array.shape) for key, array in arrays.items()}, exact_match=False)
    model.export(tmp_path, name)
    masks = random_observations(rng, 200)[:, 3:].astype(np.int8)
    states: Any = rng.normal(size=(200, 3)).astype(np.float32) if algo == "gem" else rng.integers(2, 7, size=200)
    batch = model.spaces.batch({"observation": states, "action_mask": masks})[0]
    expected = model.predict({"observation": states, "action_mask": masks})[0]
    np.testing.assert_array_equal(runner(tmp_path, name)(batch), expected)
    assert (masks[np.arange(200), expected] == 1).all()
    assert len(np.unique(expected)) == ACTIONS


def test_the_command_line_obeys_masks(tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    words = ["--run", run, "--steps", "150", "--eval-every", "150", "--eval-episodes", "1", *SMALL_WORDS]
    assert main(["train", "tests.test_masks:Doors-v0", *words]) == 0
    assert main(["resume", run, "--steps", "220"]) == 0
    assert main(["evaluate", run, "--episodes", "2"]) == 0
