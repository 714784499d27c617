"""Dict, Tuple, MultiDiscrete and MultiBinary spaces: flattened as gymnasium does, everywhere, in an order that is saved."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces import utils
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array

import gemrl
from gemrl.cli.main import main
from gemrl.core.exceptions import BadValue, DataError, EnvironmentFault, ModelFileError, UnsupportedSpace
from gemrl.core.layout import Layout
from gemrl.envs.space_files import space_from_dict, space_to_dict
from gemrl.envs.spaces import Spaces
from gemrl.training.models import DQN, GEM, MODELS
from tests.conftest import SMALL, SMALL_WORDS
from tests.nested import BUTTONS, ROOM, STICK, Nested

SIZE = 2 + 4 + 3 + 3 + (2 + 4) + (2 + 1)
UNSORTED = spaces.Dict([("z", spaces.Box(-1, 1, (2,))), ("a", spaces.Discrete(3))])
NESTED = {
    "room": ROOM,
    "unsorted": UNSORTED,
    "tuple": spaces.Tuple(
        (spaces.Discrete(3, start=-1), spaces.Dict({"x": spaces.Box(-1, 1, (2,)), "y": spaces.MultiBinary([2, 2])}))
    ),
    "dials": spaces.MultiDiscrete(np.array([[2, 3], [4, 2]])),
    "lamps": spaces.MultiBinary(4),
    "state, continuous actions": spaces.Discrete(5, start=2),
}


def flatten(space: gym.Space, observation: Any) -> np.ndarray:
    """The vector that gymnasium makes of an observation."""
    return np.asarray(utils.flatten(space, observation), np.float32)


def samples(space: gym.Space, count: int) -> list[Any]:
    space.seed(3)
    return [space.sample() for _ in range(count)]


def batched(space: gym.Space, observations: list[Any]) -> Any:
    """A batch as gymnasium's vector environments make it."""
    empty: Any = create_empty_array(space, len(observations))
    return concatenate(space, observations, empty)


@pytest.mark.parametrize("name", NESTED)
def test_observations_are_flattened_as_by_gymnasium(name: str) -> None:
    space = NESTED[name]
    own = Spaces(space, STICK)
    given = samples(space, 20)
    expected = np.stack([flatten(space, one) for one in given])
    assert own.layout == Layout((expected.shape[1],), 2)
    np.testing.assert_array_equal(np.stack([own.agent_observation(one) for one in given]), expected)
    flat, several = own.batch(batched(space, given))
    assert several
    np.testing.assert_array_equal(flat, expected)
    one, several = own.batch(given[7])
    assert not several
    np.testing.assert_array_equal(one, expected[7:8])
    assert one.dtype == np.float32


def test_a_dict_of_one_entry_is_that_entry() -> None:
    pixels = spaces.Box(0, 255, (10, 10, 3), np.uint8)
    for inner in (pixels, spaces.Discrete(4, start=1), spaces.Box(-1, 1, (3,))):
        for outer in (spaces.Dict({"only": inner}), spaces.Tuple((inner,))):
            plain, own = Spaces(inner, spaces.Discrete(2)), Spaces(outer, spaces.Discrete(2))
            assert own.layout == plain.layout
            (observation,) = samples(outer, 1)
            value = observation["only"] if isinstance(observation, dict) else observation[0]
            np.testing.assert_array_equal(own.agent_observation(observation), plain.agent_observation(value))
            batch = [batched(outer, [observation] * 3), batched(inner, [value] * 3)]
            np.testing.assert_array_equal(own.batch(batch[0])[0], plain.batch(batch[1])[0])


@pytest.mark.parametrize(
    "action",
    [
        BUTTONS,
        spaces.MultiBinary(3),
        spaces.MultiBinary([2, 2]),
        spaces.MultiDiscrete(np.array([[2, 3], [1, 2]])),
        spaces.MultiDiscrete([4], dtype=np.int8),
    ],
)
def test_every_combination_of_actions_has_a_number(action: Any) -> None:
    own = Spaces(spaces.Box(-1, 1, (2,)), action)
    numbers = np.arange(own.layout.choices, dtype=np.int32)[:, None]
    found = own.env_action(numbers)
    assert all(action.contains(one) for one in found)
    counts = [2] * np.prod(action.shape) if isinstance(action, spaces.MultiBinary) else action.nvec.ravel()
    start = 0 if isinstance(action, spaces.MultiBinary) else action.start.ravel()
    every = np.array(list(itertools.product(*map(range, counts)))) + start
    np.testing.assert_array_equal(found.reshape(len(numbers), -1), every)
    np.testing.assert_array_equal(own.agent_action(found), numbers)
    assert action.contains(own.env_action(numbers[1]))


@pytest.mark.parametrize(
    "space", [*NESTED.values(), BUTTONS, spaces.MultiBinary([3]), spaces.Dict({"a": spaces.Dict({"b": BUTTONS})})]
)
def test_spaces_are_written_and_read(space: gym.Space) -> None:
    again = space_from_dict(json.loads(json.dumps(space_to_dict(space))))
    assert again == space
    if isinstance(space, spaces.Dict) and isinstance(again, spaces.Dict):
        assert list(again.spaces) == list(space.spaces)


@pytest.mark.parametrize(
    "damaged",
    [
        {"dict": [["a"]]},
        {"dict": [[None, {"n": 2, "start": 0}]]},
        {"dict": 3},
        {"tuple": [{}]},
        {"binary": [-1]},
        {"binary": ["x"]},
        {"counts": [0], "starts": [0], "shape": [1], "dtype": "int64"},
        {"counts": [2], "starts": [0], "shape": [2], "dtype": "int64"},
        {"counts": [2], "starts": [0], "shape": [1], "dtype": "float32"},
    ],
)
def test_damaged_spaces_are_rejected(damaged: dict[str, Any]) -> None:
    with pytest.raises(ModelFileError, match="a space in the model's JSON is damaged"):
        space_from_dict(damaged)


def _without(observation: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in observation.items() if key not in keys}


WRONG: list[tuple[Any, str]] = [
    (lambda room: _without(room, "goal"), "the observation has no entry 'goal'"),
    (lambda room: _without(room, "goal") | {"goals": room["goal"]}, "has no entry 'goal'; did you mean 'goals'?"),
    (lambda room: room | {"arm": {"angle": room["arm"]["angle"]}}, "entry 'arm' of the observation has no entry 'grip'"),
    (lambda room: room | {"arm": 3}, "entry 'arm' of the observation must be a dict, as its space is, not int"),
    (lambda room: room | {"pair": 3}, "entry 'pair' of the observation must be a tuple"),
    (lambda room: room | {"pair": (1,)}, "entry 'pair' of the observation has 1 entries, but entry 1 is needed"),
    (lambda room: room | {"goal": "here"}, "entry 'goal' of the observation holds <U4, not numbers"),
    (lambda room: room | {"goal": [[1], [1, 2]]}, "entry 'goal' of the observation is not an array"),
    (lambda room: room | {"dials": np.array([0, 7])}, "entry 'dials' of the observation is [0, 7], which is not in its space"),
    (lambda room: room | {"dials": np.array([0.5, 1])}, "entry 'dials' of the observation is [0.5, 1.0], which is not in"),
    (lambda room: np.zeros(SIZE), "the observation must be a dict, as its space is, not ndarray"),
]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *WRONG,
        (lambda room: room | {"goal": np.zeros(3)}, "entry 'goal' of the observation must have shape (2,) or (n, 2), not (3,)"),
    ],
)
def test_predict_names_the_wrong_entry(change: Any, message: str) -> None:
    own = Spaces(ROOM, STICK)
    with pytest.raises(BadValue, match=re.escape(message)):
        own.batch(change(samples(ROOM, 1)[0]))


def test_a_batch_is_a_batch_of_every_entry() -> None:
    own = Spaces(ROOM, STICK)
    with pytest.raises(BadValue, match=re.escape("entry 'lamps' of the observation must have shape (4, 3), not (3, 3)")):
        own.batch(batched(ROOM, samples(ROOM, 4)) | {"lamps": np.zeros((3, 3), np.int8)})
    with pytest.raises(BadValue, match="pass the observation only"):
        own.batch((samples(ROOM, 1)[0], {}))
    pair = spaces.Tuple((spaces.Box(-1, 1, (2,)), spaces.Dict({"x": spaces.Discrete(3)})))
    assert Spaces(pair, STICK).batch((np.zeros(2), {"x": 1}))[0].tolist() == [[0, 0, 0, 1, 0]]


class Faulty(Nested):
    """Returns what `change` makes of the second observation."""

    def __init__(self, change: Any) -> None:
        super().__init__(ROOM, STICK)
        self.change = change

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, *rest = super().step(action)
        return self.change(observation), *rest


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *((change, f"invalid observation at step 1: .*{re.escape(message)}") for change, message in WRONG),
        (lambda room: room | {"goal": np.zeros(3)}, r"entry 'goal' of the observation has shape \(3,\), not \(2,\)"),
        (lambda room: room | {"goal": np.array([0, np.nan])}, "NaN or infinity .* at step 1: nan in number 1 of entry 'goal'"),
        (lambda room: room | {"goal": np.array([0, 1e300])}, "1e.300 in number 1 of entry 'goal' of the observation at step 1"),
    ],
)
def test_an_environment_s_wrong_entry_is_named(change: Any, message: str) -> None:
    model = GEM(Faulty(change), seed=0, **SMALL)
    with pytest.raises(EnvironmentFault, match=message):
        model.learn(1)
    assert len(model.memory) == 0


def kinds() -> dict[str, Any]:
    def make() -> Nested:
        return Nested(ROOM, BUTTONS)

    found: dict[str, Any] = {"list": [make(), make()]}
    return found | {mode.value: SyncVectorEnv([make, make], autoreset_mode=mode) for mode in AutoresetMode}


@pytest.mark.parametrize("kind", ["list", *(mode.value for mode in AutoresetMode)])
def test_every_kind_of_vector_environment_is_flattened(kind: str) -> None:
    """Each lane stores the vectors of what its environment returned, and actions that reach it as they were meant."""
    env = kinds()[kind]
    model = DQN(env, seed=0, **SMALL)
    for _ in model.training(40):
        pass
    for lane, single in enumerate(env if isinstance(env, list) else env.envs):
        rows = model.memory.lane(lane)
        stored = {row.tobytes() for row in np.concatenate([rows["observation"], rows["next_observation"]])}
        assert stored <= {flatten(ROOM, one).tobytes() for one in single.seen}
        assert len(stored) > 20
        np.testing.assert_array_equal(model.spaces.env_action(rows["action"]), np.stack(single.taken)[: len(rows["action"])])
        np.testing.assert_array_equal(rows["reward"], np.arange(len(rows["reward"])) % 5 + 1)


def test_a_vec_env_of_stable_baselines3_is_flattened() -> None:
    pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import DummyVecEnv

    flat = spaces.Dict({"b": spaces.Box(-1, 1, (2,)), "a": spaces.Discrete(3)})
    env = DummyVecEnv([lambda: Nested(flat, BUTTONS)] * 2)
    model = DQN("MultiInputPolicy", env, seed=0, **SMALL).learn(40)
    seen = {flatten(flat, one).tobytes() for one in env.envs[1].seen}  # type: ignore[attr-defined]
    rows = model.memory.lane(1)
    assert {row.tobytes() for row in np.concatenate([rows["observation"], rows["next_observation"]])} <= seen
    assert evaluate_policy(model, env, n_eval_episodes=2)[0] == 15
    with pytest.raises(BadValue, match="MultiInputPolicy is for Dict observations"):
        DQN("MultiInputPolicy", "CartPole-v1")


def test_a_model_of_dicts_is_saved_and_loaded(tmp_path: Path) -> None:
    env = Nested(UNSORTED, STICK)
    model = GEM(env, seed=0, **SMALL).learn(220)
    model.save(tmp_path / "model", memory=True)
    again = GEM.load(tmp_path / "model")
    assert isinstance(again.observation_space, spaces.Dict)
    assert list(again.observation_space.spaces) == ["z", "a"]
    given = samples(UNSORTED, 5)
    batch = batched(UNSORTED, given)
    actions, _ = again.predict(batch, deterministic=True)
    np.testing.assert_array_equal(actions, model.predict(batch, deterministic=True)[0])
    shuffled = {"a": given[2]["a"], "z": given[2]["z"], "more": "is ignored"}
    np.testing.assert_allclose(again.predict(shuffled)[0], actions[2], rtol=1e-5)
    GEM.load(tmp_path / "model", Nested(UNSORTED, STICK)).learn(30, reset_num_timesteps=False)
    other = spaces.Dict({"z": UNSORTED["z"], "a": UNSORTED["a"]})
    with pytest.raises(BadValue, match="are in another order than the model's"):
        GEM.load(tmp_path / "model", Nested(other, STICK))
    with pytest.raises(BadValue, match="the environment's observation_space is Dict"):
        GEM.load(tmp_path / "model", Nested(ROOM, STICK))


@pytest.mark.parametrize("algo", ["gem", "dqn", "mfec"])
def test_a_combination_of_actions_is_learned(algo: str) -> None:
    fields = {"learning_starts": 100, "exploration_steps": 500} | (
        SMALL | {"net_arch": (32,), "gradient_steps": 20, "learning_rate": 3e-3} if algo != "mfec" else {}
    )
    model = MODELS[algo]("tests.nested:Match-v0", seed=0, **fields).learn(1500)
    asked: dict[str, Any] = {"first": np.repeat(np.arange(3), 2), "second": np.tile([[0], [1]], (3, 1)).astype(np.int8)}
    expected = np.stack([asked["first"], asked["second"][:, 0]], axis=1)
    np.testing.assert_array_equal(model.predict(asked)[0], expected)


def test_agents_for_continuous_actions_refuse_combinations() -> None:
    with pytest.raises(UnsupportedSpace, match="td3 needs"):
        MODELS["td3"](Nested(ROOM, BUTTONS))


@pytest.mark.parametrize("form", ["dict", "list", "flat", "next"])
def test_recorded_dicts_are_remembered(form: str, tmp_path: Path) -> None:
    model = DQN(Nested(ROOM, BUTTONS), seed=0, **SMALL)
    given, steps = samples(ROOM, 5), 4
    whole = batched(ROOM, given)
    flat = np.stack([flatten(ROOM, one) for one in given])
    episode: dict[str, Any] = {"observations": flat if form == "flat" else whole, "actions": np.stack(samples(BUTTONS, steps))}
    if form == "list":
        episode["observations"] = given
    if form == "next":
        episode |= {"observations": batched(ROOM, given[:-1]), "next_observations": batched(ROOM, given[1:])}
    episode |= {"rewards": np.arange(4.0), "terminated": [False] * 4, "truncated": [False] * 3 + [True]}
    model.remember([episode])
    rows = model.memory.lane(0)
    np.testing.assert_array_equal(rows["observation"], flat[:-1].astype(np.float32))
    np.testing.assert_array_equal(rows["next_observation"], flat[1:].astype(np.float32))
    np.testing.assert_array_equal(model.spaces.env_action(rows["action"]), episode["actions"])


def _entries(prefix: str, observations: Any) -> dict[str, np.ndarray]:
    """The arrays of a batch by names such as observations/goal."""
    if not isinstance(observations, (dict, tuple)):
        return {prefix: observations}
    members = observations.items() if isinstance(observations, dict) else enumerate(observations)
    return {name: array for key, value in members for name, array in _entries(f"{prefix}/{key}", value).items()}


def test_npz_files_of_dicts(tmp_path: Path) -> None:
    model = DQN(Nested(ROOM, BUTTONS), seed=0, **SMALL)
    given = samples(ROOM, 5)
    arrays: dict[str, Any] = _entries("observations", batched(ROOM, given)) | {
        "actions": np.stack(samples(BUTTONS, 4)),
        "rewards": np.zeros(4),
    }
    arrays |= {"terminated": np.zeros(4, bool), "truncated": np.arange(4) == 3}
    np.savez(tmp_path / "demos.npz", **arrays)
    (episode,) = gemrl.read_data(tmp_path / "demos.npz", model)
    np.testing.assert_array_equal(episode.observation, np.stack([flatten(ROOM, one) for one in given]).astype(np.float32))
    del arrays["observations/arm/grip"]
    np.savez(tmp_path / "less.npz", **arrays | {"observations/arm/grib": np.ones(5, int)})
    with pytest.raises(DataError, match=r"less.npz has no array 'observations/arm/grip'; did you mean 'observations/arm/grib'"):
        gemrl.read_data(tmp_path / "less.npz", model)
    np.savez(tmp_path / "wrong.npz", **arrays | {"observations/arm/grip": np.zeros(5, int)})
    with pytest.raises(DataError, match="observations: entry 'arm/grip' of the observation is 0, which is not in its space"):
        gemrl.read_data(tmp_path / "wrong.npz", model)
    np.savez(tmp_path / "action.npz", **arrays | {"observations/arm/grip": np.ones(5, int), "actions": np.full((4, 2), 4)})
    with pytest.raises(DataError, match=r"row 0: actions is \[4 4\], which is not in the environment's action_space"):
        gemrl.read_data(tmp_path / "action.npz", model)


def test_minari_datasets_of_dicts(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    model, given = DQN(Nested(ROOM, BUTTONS), seed=0, **SMALL), samples(ROOM, 5)
    (tmp_path / "data").mkdir()
    with h5py.File(tmp_path / "data" / "main_data.hdf5", "w") as file:
        group = file.create_group("episode_0")
        for name, array in _entries("observations", batched(ROOM, given)).items():
            group[name.replace("/pair/", "/pair/_index_")] = array
        group["actions"], group["rewards"] = np.stack(samples(BUTTONS, 4)), np.zeros(4)
        group["terminations"], group["truncations"] = np.zeros(4, bool), np.arange(4) == 3
    (episode,) = gemrl.read_data(tmp_path, model)
    np.testing.assert_array_equal(episode.observation, np.stack([flatten(ROOM, one) for one in given]).astype(np.float32))
    with h5py.File(tmp_path / "data" / "main_data.hdf5", "a") as file:
        del file["episode_0/actions"]
        file["episode_0/actions/left"] = np.zeros(4)
    with pytest.raises(DataError, match="actions is a group of arrays"):
        gemrl.read_data(tmp_path, model)


@pytest.mark.parametrize("name", ["numpy", "onnx", "torch"])
def test_exported_policies_take_the_vector(name: str, tmp_path: Path) -> None:
    from tests.test_export import runner

    model = DQN(Nested(ROOM, BUTTONS), seed=0, **SMALL)
    rng = np.random.default_rng(0)
    model.set_parameters(
        {
            key: array + rng.normal(0, 0.5, array.shape).astype(array.dtype) if array.dtype.kind == "f" else array
            for key, array in model.get_parameters().items()
        }
    )
    model.export(tmp_path, name)
    given = samples(ROOM, 200)
    flat = np.stack([flatten(ROOM, one) for one in given])
    expected = model.predict(batched(ROOM, given))[0]
    found = runner(tmp_path, name)(flat)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(expected, axis=0)) > 1
    if name == "numpy":
        with np.load(tmp_path / "policy.npz") as file:
            entries = json.loads(str(file["policy.json"]))["observation"]["entries"]
        assert entries == [
            ["arm/angle", 4],
            ["arm/grip", 3],
            ["dials", 6],
            ["goal", 2],
            ["lamps", 3],
            ["pair/0", 2],
            ["pair/1", 1],
        ]


def test_the_command_line_takes_nested_spaces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(tmp_path / "run")
    words = [
        "--run",
        run,
        "--steps",
        "220",
        "--eval-every",
        "110",
        "--eval-episodes",
        "1",
        "--n-envs",
        "2",
        "--checkpoint-every",
        "100",
    ]
    assert main(["train", "tests.nested:Room-v0", *words, *SMALL_WORDS]) == 0
    assert main(["resume", run, "--steps", "260"]) == 0
    assert main(["evaluate", run, "--episodes", "2"]) == 0
    assert "return       15.0" in capsys.readouterr().out
    assert main(["export", run, "--format", "numpy", "--out", str(tmp_path / "policy")]) == 0
    assert (
        main(["train", "tests.nested:Room-v0", "--run", str(tmp_path / "next"), "--steps", "60", "--data", run, *SMALL_WORDS])
        == 0
    )
    action, _ = gemrl.load(run).predict(samples(ROOM, 1)[0])
    assert STICK.contains(action)
