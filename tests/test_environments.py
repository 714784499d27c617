"""Environments and spaces: conversions, and one-line errors that say where an environment failed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation, TransformReward

from gemrl.agents.making import make_agent
from gemrl.algorithms.registry import RECIPES
from gemrl.core.exceptions import BadValue, EnvironmentFault, MissingExtra, ModelFileError, UnknownName, UnsupportedSpace
from gemrl.core.layout import Layout
from gemrl.envs.arguments import with_sticky
from gemrl.envs.atari import atari_state
from gemrl.envs.making import make
from gemrl.envs.single import Task
from gemrl.envs.space_files import space_from_dict, space_to_dict
from gemrl.envs.spaces import Spaces
from gemrl.experiments.description import default_evaluations
from gemrl.training.models import GEM
from tests import probes
from tests.conftest import SMALL

BOX = spaces.Box(-1, 1, (2,))


def test_actions_are_scaled_to_any_finite_box() -> None:
    low, high = np.array([[-3.0, 0.0], [1.0, -1.0]]), np.array([[5.0, 1.0], [2.0, 1.0]])
    own = Spaces(spaces.Box(-np.inf, np.inf, (4, 3)), spaces.Box(low, high, dtype=np.float64))
    assert own.layout == Layout((12,), 4)
    np.testing.assert_allclose(own.env_action(-np.ones(4)), low)
    np.testing.assert_allclose(own.env_action(np.ones(4)), high)
    np.testing.assert_allclose(own.env_action(np.zeros((5, 4)))[3], (low + high) / 2)
    assert own.action_space.contains(own.env_action(np.full(4, 1.5)))
    uneven = Spaces(BOX, spaces.Box(-2.6, 2.3, (1,), np.float64))  # rounding must not exceed the bounds
    for unit in (-1.0, 1.0):
        assert uneven.action_space.contains(uneven.env_action(np.array([unit])))


def test_observations_of_any_shape_are_flattened() -> None:
    own = Spaces(spaces.Box(0, 255, (2, 3), np.uint8), BOX)
    flat = own.agent_observation(np.arange(6, dtype=np.uint8).reshape(2, 3))
    assert flat.dtype == np.float32
    np.testing.assert_array_equal(flat, np.arange(6))


def test_discrete_spaces_become_indices_from_zero() -> None:
    own = Spaces(spaces.Discrete(4, start=3), spaces.Discrete(2, start=-1))
    assert own.layout == Layout((1,), 1, choices=2, dtype="int32", states=4)
    np.testing.assert_array_equal(own.agent_observation(5), [2])
    np.testing.assert_array_equal(own.env_action(np.array([[0], [1]], np.int32)), [-1, 0])


def test_images_keep_their_shape_and_stacks_are_recognised() -> None:
    pixels = spaces.Box(0, 255, (10, 10, 3), np.uint8)
    assert Spaces(pixels, spaces.Discrete(4)).layout == Layout((10, 10, 3), 1, 4, "uint8")
    assert Spaces(pixels, BOX).layout == Layout((10, 10, 3), 2, dtype="uint8")
    screen, board = (spaces.Box(0, 255, (side, side), np.uint8) for side in (84, 4))
    assert Spaces(screen, spaces.Discrete(4)).layout == Layout((84, 84, 1), 1, 4, "uint8")
    assert Spaces(screen, spaces.Discrete(4)).agent_observation(screen.sample()).shape == (84, 84, 1)
    assert Spaces(board, spaces.Discrete(4)).layout == Layout((16,), 1, 4)
    env = gym.wrappers.FrameStackObservation(_Screen(), 4)
    assert Spaces.of(env).layout == Layout((4, 6, 5), 1, 3, "uint8", frames=4)
    assert Spaces.of(gym.wrappers.FrameStackObservation(_Screen(), 4, padding_type="zero")).layout.frames == 1


class _Screen(gym.Env):
    """Observations are greyscale images."""

    observation_space = spaces.Box(0, 255, (6, 5), np.uint8)
    action_space = spaces.Discrete(3)


PIXELS = spaces.Box(0, 255, (10, 10, 3), np.uint8)
EVERY_INTEGER = spaces.Box(-np.inf, np.inf, (2,), np.int64)
BITS = spaces.Box(0, 1, (2,), np.bool_)  # type: ignore[arg-type]
SPACES = [spaces.Discrete(4, start=3), BOX, spaces.Box(0, 1, (2, 2), np.uint8), EVERY_INTEGER, BITS]


@pytest.mark.parametrize("space", [*SPACES, spaces.Box(0, 2**64 - 1, (1,), np.uint64), spaces.Box(-np.inf, np.inf, ())])
def test_spaces_are_written_and_read(space: spaces.Box | spaces.Discrete) -> None:
    assert space_from_dict(json.loads(json.dumps(space_to_dict(space)))) == space


def test_bounds_outside_the_dtype_are_rejected() -> None:
    with pytest.raises(ModelFileError, match="a space in the model's JSON is damaged"):
        space_from_dict({"shape": [1], "dtype": "int32", "low": ["0"], "high": ["inf"]})


@pytest.mark.parametrize(
    ("observation", "action", "message"),
    [
        (spaces.Text(4), BOX, "observations must be a Box, Discrete, .* not Text$"),
        (
            spaces.Dict({"a": BOX, "b": spaces.Tuple((spaces.Text(4),))}),
            BOX,
            r"not Text \(entry 'b/0'\): leave it out with .*Filter",
        ),
        (spaces.Dict({}), BOX, "observations must contain at least one number, but this Dict is empty"),
        (spaces.Dict({"a": spaces.Box(-1, 1, (2, 0)), "b": BOX}), BOX, r"this Box has shape \(2, 0\) in 'a'"),
        (spaces.Dict({"a": BOX, "eye": PIXELS, "ear": PIXELS}), BOX, r"the images 'ear' and 'eye', .*FilterObservation"),
        (BOX, spaces.MultiDiscrete([10, 10, 10, 10]), "has 10,000 combinations of actions, but at most 4,096 are supported"),
        (BOX, spaces.MultiBinary(13), "has 8,192 combinations"),
        (BOX, spaces.MultiBinary(10**9), "has more than a trillion combinations"),
        (spaces.Box(-1, 1, (0,)), BOX, "observations must contain at least one number"),
        (BOX, spaces.Box(-1, 1, (2, 0)), "actions must contain at least one number"),
        (BOX, spaces.Tuple((BOX,)), "actions must be a Box, .* not Tuple"),
        (BOX, spaces.Box(-np.inf, 1, (1,)), "action bounds must be finite"),
    ],
)
def test_unsupported_spaces(observation: gym.Space, action: gym.Space, message: str) -> None:
    with pytest.raises(UnsupportedSpace, match=message):
        Spaces(observation, action)


def test_environments_by_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownName, match="did you mean 'HalfCheetah-v5'"):
        make("HalfCheeta-v5")
    with pytest.raises(EnvironmentFault, match="No module named 'no_such_module'"):
        make("no_such_module:Env-v0")
    with pytest.raises(UnknownName, match="unknown environment"):
        make("gymnasium:zzzzzzz-v0")
    (tmp_path / "broken_module.py").write_text("1 / 0\n")
    (tmp_path / "my_envs.py").write_text(
        "import gymnasium\nfrom tests.probes import Constant\ngymnasium.register('Mine-v0', entry_point=Constant)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(EnvironmentFault, match="division by zero"):
        make("broken_module:Env-v0")
    assert isinstance(make("my_envs:Mine-v0").unwrapped, probes.Constant)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "mujoco" or name.startswith("gymnasium.envs.mujoco")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(MissingExtra, match=r"pip install 'gemrl\[mujoco\]'"):
        make("InvertedPendulum-v5")
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(MissingExtra, match=r"pip install 'gemrl\[atari\]'"):
        make("ALE/Pong-v5")


class OldStep(probes.Constant):
    """Returns four values at step 150, as the old gym API did."""

    steps = 0

    def answer(self, action: float) -> Any:
        self.steps += 1
        return super().answer(action)[: 4 if self.steps == 150 else 5]


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (probes.Poisoned(observation=np.array([np.nan])), "NaN or infinity in its observation at step 150"),
        (probes.Poisoned(observation=np.array([np.inf])), "NaN or infinity in its observation at step 150: inf in entry 0 of 1"),
        (
            probes.Poisoned(observation=np.array([-1e39])),
            r"returned -1e\+39 in entry 0 of 1 of its observation at step 150, which is too large for 32-bit .*: scale or",
        ),
        (probes.Poisoned(reward=1e39), r"the reward 1e\+39 at step 150, which is too large for 32-bit floats .*: scale or clip"),
        (probes.Poisoned(observation=np.zeros(3)), r"observation of shape \(3,\), not \(1,\), at step 150"),
        (probes.Poisoned(observation="a word"), "not an array at step 150"),
        (probes.Poisoned(reward=float("nan")), "the reward nan at step 150"),
        (probes.Poisoned(reward="much"), "the reward 'much', which is not a number, at step 150"),
        (probes.Raising(), r"raised ZeroDivisionError at step 150: the motor is off \(.*probes.py, line \d+\)"),
        (OldStep(), "raised ValueError at step 150: .*; in gymnasium, step returns observation, reward, terminated, truncated"),
    ],
)
def test_an_error_names_the_step_and_nothing_invalid_is_stored(env: gym.Env, message: str) -> None:
    model = GEM(env, seed=0, **SMALL)
    with pytest.raises(EnvironmentFault, match=message):
        model.learn(1000)
    assert model.num_timesteps == 149
    rows = model.memory.lane()
    assert len(rows["reward"]) == 149
    assert all(np.isfinite(rows[name]).all() for name in ("observation", "next_observation", "action", "reward"))


def test_every_episode_has_its_own_seed() -> None:
    def starts(seed: int) -> list[Any]:
        task = Task(gym.make("Pendulum-v1"), seed)
        return [task.reset().tolist() for _ in range(3)]

    assert starts(0) == starts(0)
    assert len({str(start) for start in starts(0) + starts(1)}) == 6


def test_a_step_reports_how_the_episode_ended() -> None:
    task = Task(probes.Truncated(), 0)
    observation = task.reset()
    for step in range(1, 7):
        transition, observation, ended, _ = task.step(observation, np.zeros((1, 1), np.float32))
        assert (transition.terminated[0], transition.truncated[0]) == (False, step % 3 == 0)
        assert ended == ([(3.0, 3)] if step % 3 == 0 else [])


class InPlace(gym.Env):
    """Counts to three and returns the same array as every observation."""

    observation_space = spaces.Box(0, 9, (1,))
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.buffer = np.zeros(1, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        self.buffer[:] = 0
        return self.buffer, {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.buffer += 1
        return self.buffer, 1.0, bool(self.buffer[0] == 3), False, {}


def test_an_environment_may_reuse_its_observation_array() -> None:
    task = Task(InPlace(), 0)
    observation, seen = task.reset(), []
    for _ in range(4):
        taken = task.step(observation, np.zeros((1, 1), np.int32))
        seen.append((taken.transition.observation.item(), taken.transition.next_observation.item()))
        observation = taken.observation
    assert seen == [(0, 1), (1, 2), (2, 3), (0, 1)]


def test_every_form_of_an_atari_id_is_recognised() -> None:
    pytest.importorskip("ale_py")
    for name in ("ALE/Pong-v5", "ale_py:ALE/Pong-v5", "PongNoFrameskip-v4"):
        assert make(name).observation_space.shape == (4, 84, 84)
        assert with_sticky(name, None, {}) == {"repeat_action_probability": 0.0}
        assert default_evaluations(name) == (50_000, 5)
    assert default_evaluations("MinAtar/Breakout-v1") == (10_000, 10)
    with pytest.raises(BadValue, match=r"--sticky 0.25 and --env-args repeat_action_probability=0.5 contradict"):
        with_sticky("ALE/Pong-v5", 0.25, {"repeat_action_probability": 0.5})


@pytest.mark.parametrize(("shape", "expected"), [((84, 84, 3), (84, 84, 3)), ((84, 84), (84, 84, 1)), ((7, 7, 3), (147,))])
def test_large_boxes_of_floats_are_images(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    space = spaces.Box(0.0, 1.0, shape, np.float64)
    assert Spaces(space, spaces.Discrete(4)).layout == Layout(expected, 1, 4, "float32")
    assert Spaces(space, spaces.Box(-1.0, 1.0, (2,))).layout == Layout(expected, 2)


@pytest.mark.parametrize(("shape", "image"), [((5, 2, 3), False), ((10, 1, 3), False), ((3, 3, 2), True)])
def test_images_too_small_for_a_convolution_are_vectors(shape: tuple[int, ...], image: bool) -> None:
    layout = Spaces(spaces.Box(0, 255, shape, np.uint8), spaces.Discrete(2)).layout
    assert layout.is_image == image
    values = make_agent(RECIPES["dqn"], layout, lanes=1, seed=0, device=None).values
    assert values(np.zeros((1, *layout.observation), layout.dtype), np.zeros((1, 1), np.int32)).shape == (1,)


@pytest.fixture(scope="module")
def sticky_game() -> Task:
    """Pong with sticky actions, after a reset."""
    pytest.importorskip("ale_py")
    task = Task(make("ALE/Pong-v5", repeat_action_probability=0.5), 3)
    task.reset()
    return task


def test_a_sticky_game_is_restored_exactly(sticky_game: Task) -> None:
    """The action that may be repeated is part of the state: without it, some of these steps would differ."""
    rng, other = np.random.default_rng(0), Task(make("ALE/Pong-v5", repeat_action_probability=0.5), 3)

    def some_steps(task: Task, actions: np.ndarray) -> list[bytes]:
        return [task.step(np.zeros((1, 1)), action.reshape(1, 1)).observation.tobytes() for action in actions]

    for _ in range(30):
        some_steps(sticky_game, rng.integers(2, 4, 3))
        saved = sticky_game.snapshot()
        assert other.replay(saved) is not None
        actions = rng.integers(2, 4, 3)
        assert some_steps(other, actions) == some_steps(sticky_game, actions)


def test_a_game_with_a_time_limit_is_restored_exactly() -> None:
    pytest.importorskip("ale_py")
    task, other = (Task(make("ALE/Pong-v5", max_episode_steps=200), 3) for _ in range(2))

    def steps_to_end(one: Task) -> int:
        return next(k for k in range(1, 60) if one.step(np.zeros((1, 1)), np.ones((1, 1), np.int32)).ended)

    task.reset()
    for _ in range(20):
        task.step(np.zeros((1, 1)), np.ones((1, 1), np.int32))
    assert other.replay(task.snapshot()) is not None
    assert steps_to_end(other) == steps_to_end(task) < 50 - 20 + 1


def test_a_game_in_unknown_wrappers_is_replayed() -> None:
    """A wrapper may have a state that is not saved, so there is no AtariState and the episode is replayed."""
    ale_py = pytest.importorskip("ale_py")
    gym.register_envs(ale_py)
    game = TransformReward(gym.make("ALE/Pong-v5", frameskip=1), lambda reward: reward)
    assert atari_state(FrameStackObservation(AtariPreprocessing(game), 4)) is None
    assert atari_state(make("ALE/Pong-v5", repeat_action_probability=0.5)) is not None


def test_a_game_with_custom_preprocessing_is_restored_exactly() -> None:
    ale_py = pytest.importorskip("ale_py")
    gym.register_envs(ale_py)

    def make_task() -> Task:
        game = gym.make("ALE/Breakout-v5", frameskip=1, repeat_action_probability=0.0)
        return Task(FrameStackObservation(AtariPreprocessing(game, terminal_on_life_loss=True), 3), 0)

    task, other = make_task(), make_task()
    task.reset()
    for _ in range(5):
        task.step(np.zeros((1, 1)), np.ones((1, 1), np.int32))
    other.reset()
    assert other.replay(task.snapshot()) is not None
    for _ in range(150):  # past the loss of a life
        ours, theirs = (one.step(np.zeros((1, 1)), np.ones((1, 1), np.int32)) for one in (task, other))
        np.testing.assert_array_equal(ours.observation, theirs.observation)
        assert ours.ended == theirs.ended
    assert task.episodes > 1


def test_without_replay_the_next_episodes_are_still_the_same(sticky_game: Task) -> None:
    saved, screens = sticky_game.snapshot(), []
    for _ in range(2):
        task = Task(make("ALE/Pong-v5", repeat_action_probability=0.5), 3)
        task.restore(saved)
        task.reset()
        screens.append([task.step(np.zeros((1, 1)), np.full((1, 1), k % 6)).observation.tobytes() for k in range(20)])
        assert task.episodes == saved.facts["episodes"] + 1
    assert screens[0] == screens[1]


class Moving(gym.Env):
    """Never ends, and records the actions it gets."""

    observation_space = gym.spaces.Box(-1, 1, (2,))

    def __init__(self, action_space: gym.Space) -> None:
        self.action_space, self.actions = action_space, [0][:0]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        self.actions.append(np.asarray(action).item())
        return np.zeros(2, np.float32), 0.0, False, False, {}


def test_an_action_may_be_a_scalar() -> None:
    env = Moving(gym.spaces.Box(-2, 2, (), np.float32))
    model = GEM(env, seed=0, **SMALL).learn(20)
    assert max(env.actions) - min(env.actions) > 1
    assert env.action_space.contains(model.predict(np.zeros(2))[0])


def test_every_integer_action_is_reachable() -> None:
    """Actions are rounded to the nearest integer, so the bounds occur too."""
    env = Moving(gym.spaces.Box(-1, 2, (1,), np.int64))
    GEM(env, seed=0, **SMALL | {"learning_starts": 1000}).learn(200)
    assert set(env.actions) == {-1, 0, 1, 2}


@pytest.mark.parametrize("game", ["Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders"])
def test_minatar_passes_gymnasium_s_check(game: str) -> None:
    """MinAtar alone does not: its reset does not seed np_random."""
    pytest.importorskip("minatar")
    env = make(f"MinAtar/{game}-v1")
    with pytest.raises(AssertionError, match="random number generator"):
        check_env(gym.make(f"MinAtar/{game}-v1").unwrapped, skip_render_check=True)
    check_env(env, skip_render_check=True)
    assert gym.make(env.spec).spec == env.spec  # type: ignore[arg-type]
