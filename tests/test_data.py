"""Recorded trajectories: what enters a memory is what was recorded, and what is wrong is named before anything happens."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import gemrl
from gemrl.analysis.results.collection import collect
from gemrl.cli.main import main
from gemrl.core.exceptions import BadValue, DataError, GemrlError
from gemrl.envs.spaces import Spaces
from gemrl.experiments.data.sources import read_source
from gemrl.experiments.run_folder import describe
from gemrl.training.model import Model
from gemrl.training.models import model_class
from tests.conftest import SMALL, SMALL_WORDS
from tests.data_fuzz import damage_often
from tests.recordings import Episode, Walk, in_d4rl, joined, record, save, stacked
from tests.torture import differences

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:minari")

minari = pytest.importorskip("minari")
h5py = pytest.importorskip("h5py")

GAMMA = 0.99


def small(algo: str, env: Any, **fields: Any) -> Model:
    """A small model of any algorithm with a memory ring."""
    chosen = SMALL | fields
    if algo not in ("gem", "dqn"):
        chosen.pop("target_update_interval")
    return model_class(algo)(env, seed=0, **chosen)


def expected(episodes: list[Episode], env: gym.Env) -> Episode:
    """The rows of a memory by their definition, one step after the other."""
    rows: dict[str, list[Any]] = {
        name: [] for name in ("observation", "next_observation", "action", "reward", "discount", "last")
    }
    space = env.action_space
    for episode in episodes:
        for t in range(len(episode["rewards"])):
            action = episode["actions"][t]
            if isinstance(space, gym.spaces.Box):
                scaled = [2 * (a - low) / (high - low) - 1 for a, low, high in zip(action, space.low, space.high, strict=True)]
            else:
                scaled = [action - space.start]  # type: ignore[attr-defined]
            rows["observation"].append(episode["observations"][t])
            rows["next_observation"].append(episode["observations"][t + 1])
            rows["action"].append(scaled)
            rows["reward"].append(episode["rewards"][t])
            rows["discount"].append(0.0 if episode["terminated"][t] else GAMMA)
            rows["last"].append(episode["terminated"][t] or episode["truncated"][t])
    return {name: np.array(column) for name, column in rows.items()}


def check_rows(found: dict[str, np.ndarray], wanted: Episode) -> None:
    for name, column in wanted.items():
        assert found[name].shape == column.shape, name
        np.testing.assert_allclose(found[name], column.astype(found[name].dtype), rtol=1e-6, atol=1e-7, err_msg=name)


def in_minari(folder: Path, env: gym.Env, episodes: int, **options: Any) -> list[Episode]:
    """Records a dataset with Minari's own collector; its episodes as Minari reads them."""
    os.environ["MINARI_DATASETS_PATH"] = str(folder)
    try:
        collector = minari.DataCollector(env, data_format="hdf5", **options)
        record(collector, episodes, limit=7)
        dataset = collector.create_dataset("walk/random-v0")
        names = {"terminated": "terminations", "truncated": "truncations"}
        kinds = ("observations", "actions", "rewards", "terminated", "truncated")
        return [{kind: np.array(getattr(one, names.get(kind, kind))) for kind in kinds} for one in dataset]
    finally:
        del os.environ["MINARI_DATASETS_PATH"]


def as_list(episodes: list[Episode], model: Model, folder: Path) -> Any:
    return episodes


def as_npz(episodes: list[Episode], model: Model, folder: Path) -> Any:
    save(folder / "data.npz", joined(episodes))
    return gemrl.read_data(folder / "data.npz", model)


def as_d4rl(episodes: list[Episode], model: Model, folder: Path) -> Any:
    save(folder / "data.npz", in_d4rl(episodes) | {"infos": np.zeros(3)}, compressed=True)
    return gemrl.read_data(str(folder / "data.npz"), model)


@pytest.mark.parametrize("source", [as_list, as_npz, as_d4rl])
@pytest.mark.parametrize(("env", "algo"), [(Walk, "td3"), (Walk, "sac"), (lambda: gym.make("CartPole-v1"), "dqn")])
def test_rows_are_what_was_recorded(
    tmp_path: Path, env: Callable[[], gym.Env], algo: str, source: Callable[[list[Episode], Model, Path], Any]
) -> None:
    episodes = record(env(), 5, limit=7)
    assert {(bool(e["terminated"][-1]), bool(e["truncated"][-1])) for e in episodes} >= {(False, True)}
    model = small(algo, env(), gamma=GAMMA)
    model.remember(source(episodes, model, tmp_path))
    check_rows(model.memory.lane(0), expected(episodes, env()))
    assert model.num_timesteps == 0


def test_rows_of_a_minari_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those that Minari reads; a dataset has a path and an id."""
    episodes = in_minari(tmp_path, Walk(), 5)
    model = small("td3", Walk(), gamma=GAMMA)
    model.remember(gemrl.read_data(tmp_path / "walk" / "random-v0", model))
    wanted = expected(episodes, Walk())
    assert wanted["last"].sum() == 5
    assert 0 < (wanted["discount"] == 0).sum() < 5, "some terminated, some cut off"
    check_rows(model.memory.lane(0), wanted)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    assert len(gemrl.read_data("walk/random-v0", model)) == 5


def test_stacks_of_images(tmp_path: Path) -> None:
    """Each image is stored once, and the memory returns the stacks that were recorded; actions begin at 5."""
    episodes = record(stacked(), 6)
    model = small("dqn", stacked(), gamma=GAMMA)
    model.remember(as_npz(episodes, model, tmp_path))
    memory = model.memory
    assert memory.frames is not None
    rows = memory.lane(0)
    for name in ("observation", "next_observation"):
        rows[name] = np.asarray(memory.observations(np.zeros(len(rows["reward"]), int), rows[name]))
    check_rows(rows, expected(episodes, stacked()))
    assert int(memory.frames.written[0]) == 6 * 5
    model.learn(200)


def test_the_memory_of_an_older_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same numbers, bit for bit, in whole trajectories; the running one is cut off where the checkpoint was written."""
    run = tmp_path / "older"
    options = ["--algo", "dqn", "--n-envs", "2", "--steps", "300", "--eval-every", "300", "--eval-episodes", "1"]
    assert main(["train", "CartPole-v1", "--run", str(run), *options, *SMALL_WORDS]) == 0
    newest = max((run / "checkpoints").iterdir())
    older, model = gemrl.load(newest / "model"), small("gem", gym.make("CartPole-v1"), gamma=GAMMA)
    model.remember(gemrl.read_data(run, model))
    lanes = [older.memory.lane(lane) for lane in range(2)]
    found = model.memory.lane(0)
    for name in ("observation", "action", "reward", "next_observation", "discount"):
        assert np.array_equal(found[name], np.concatenate([lane[name] for lane in lanes])), name
    ends = [np.append(lane["last"][:-1], True) for lane in lanes]
    assert np.array_equal(found["last"], np.concatenate(ends))
    with pytest.raises(DataError, match="is a run on another environment"):
        gemrl.read_data(run, small("gem", Walk()))
    shutil.rmtree(run / "checkpoints")
    assert main(["train", "CartPole-v1", "--data", str(run), "--run", str(tmp_path / "new")]) == 2
    assert "has no checkpoint, and only checkpoints contain the memory: gemrl train keeps" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def plain_twin(rows: dict[str, np.ndarray], depth: int) -> np.ndarray:
    """Equations 7 and 8 of the paper, rollout by rollout."""
    count = len(rows["reward"])
    planned = np.zeros((2, count))
    for t in range(count):
        values, total, factor = [], 0.0, 1.0
        for i in range(t, min(t + depth, count)):
            total, factor = total + factor * float(rows["reward"][i]), factor * float(rows["discount"][i])
            values.append(total + factor * rows["q_next"][:, i].astype(float))
            if rows["last"][i]:
                break
        for own in range(2):
            best = int(np.argmax([value[own] for value in values]))
            planned[own, t] = values[best][1 - own]
    return planned


@pytest.mark.parametrize("keep", [False, True])
def test_planned_returns_of_recorded_trajectories(keep: bool) -> None:
    episodes = record(Walk(), 6)
    model = small("gem", Walk(), gamma=GAMMA, depth=4)
    model.remember(episodes, keep=keep)
    assert np.isnan(model.memory.planned_returns()).all()
    model.learn(150)
    rows = model.memory.lane(1 if keep else 0)
    count = sum(len(episode["rewards"]) for episode in episodes)
    check_rows(
        {name: column[:count] for name, column in rows.items() if column.ndim < 2 or len(column) > 2}, expected(episodes, Walk())
    )
    np.testing.assert_allclose(rows["planned"], plain_twin(rows, 4), rtol=1e-4, atol=1e-5)


def test_training_draws_recorded_rows() -> None:
    """With rewards that only the data has, the critics learn values that the environment could not teach."""
    values = []
    for given in (0.0, 50.0):
        episodes = [episode | {"rewards": 0 * episode["rewards"] + given} for episode in record(Walk(), 20)]
        model = small("td3", Walk(), learning_rate=3e-3, gradient_steps=100)
        model.remember(episodes)
        model.learn(200)
        states = np.zeros((8, 3), np.float32)
        values.append(model.agent.values(states, model.agent.act(states)).mean())
    assert values[1] > values[0] + 5


def test_statistics_see_recorded_rows() -> None:
    """Normalizers have the mean and variance of recorded observations before the first step."""
    episodes = record(Walk(), 30)
    model = small("td3", Walk(), normalize_observations=True, normalize_rewards=True, gamma=GAMMA)
    model.remember(episodes, keep=True)
    rows = expected(episodes, Walk())
    normalizer, scale = model.agent.learner.normalizer, model.agent.learner.reward_scale
    np.testing.assert_allclose(normalizer.mean, rows["observation"].mean(0), atol=1e-5)
    np.testing.assert_allclose(normalizer.variance, rows["observation"].var(0), rtol=1e-4)
    returns, total = [], 0.0
    for reward, last in zip(rows["reward"], rows["last"], strict=True):
        total = reward + GAMMA * total
        returns.append(total)
        total = 0.0 if last else total
    np.testing.assert_allclose(scale.returns.variance[0], np.var(returns), rtol=1e-3)


@pytest.mark.parametrize("n_envs", [1, 3])
def test_kept_rows_survive(n_envs: int) -> None:
    """New rows overwrite data unless it is kept; the environments share the rest of the memory."""
    episodes = record(gym.make("Pendulum-v1"), 4, limit=12)
    for keep in (False, True):
        model = model_class("td3")(
            "Pendulum-v1", seed=0, n_envs=n_envs, **{name: SMALL[name] for name in ("net_arch", "batch_size")}, buffer_size=240
        )
        model.remember(episodes, keep=keep)
        assert len(model.memory) == 48
        model.learn(900)
        if not keep:
            assert not any(np.isin(episodes[0]["rewards"].astype(np.float32), model.memory.lane(0)["reward"]))
            continue
        assert model.memory.size.tolist() == [*[240 // (n_envs + 1)] * n_envs, 48]
        check_rows(model.memory.lane(n_envs), expected(episodes, gym.make("Pendulum-v1")))
        assert model.n_envs == n_envs


def test_more_data_later(tmp_path: Path) -> None:
    """Data that is added after training does not join the episode that was running; kept data can be added to kept data."""
    episodes = record(gym.make("Pendulum-v1"), 2, limit=12)
    model = small("td3", "Pendulum-v1")
    model.learn(30)
    with pytest.raises(BadValue, match="call remember before learn"):
        model.remember(episodes, keep=True)
    assert len(model.memory) == 30
    model.remember(episodes)
    assert np.flatnonzero(model.memory.lane(0)["last"]).tolist() == [29, 41, 53]
    kept = small("td3", "Pendulum-v1")
    kept.remember(episodes[:1], keep=True)
    kept.learn(30)
    kept.remember(episodes[1:], keep=True)
    assert kept.memory.size.tolist() == [30, 24]
    kept.save(tmp_path / "model", memory=True)
    again = gemrl.load(tmp_path / "model", "Pendulum-v1")
    assert again.memory.size.tolist() == [30, 24]
    assert np.array_equal(again.memory.lane(1)["reward"], kept.memory.lane(1)["reward"])


def test_lanes_get_whole_trajectories() -> None:
    model = model_class("td3")("Pendulum-v1", n_envs=3, seed=0, net_arch=(16,), buffer_size=600)
    pendulum = record(gym.make("Pendulum-v1"), 7, limit=5)
    model.remember(pendulum)
    assert model.memory.size.tolist() == [15, 10, 10]
    assert [model.memory.lane(lane)["last"].sum() for lane in range(3)] == [3, 2, 2]


def test_tables_and_nearest_neighbours() -> None:
    """They learn recorded episodes in their first round, and cannot keep them apart."""
    lake = gym.make("FrozenLake-v1", is_slippery=False)
    path = [2, 2, 1, 1, 1, 2]
    states = [0, 1, 2, 6, 10, 14, 15]
    episode = {"observations": np.array(states), "actions": np.array(path), "rewards": np.eye(6)[5]}
    episode |= {"terminated": np.arange(6) == 5, "truncated": np.zeros(6, bool)}
    model = model_class("gem-tabular")(lake, seed=0, learning_starts=0)
    model.remember([episode])
    check_rows(
        model.memory.lane(0),
        {"observation": np.array(states[:-1])[:, None], "action": np.array(path)[:, None], "last": np.arange(6) == 5},
    )
    model.learn(20)
    assert model.agent.learner.q[:, states[:-1], path].max(axis=0).min() > 0, "the whole path was learned"
    nearest = gemrl.MFEC(lake, seed=0, learning_starts=0)
    nearest.remember([episode])
    assert len(nearest.memory) == 6  # finished episodes are written before it is read
    values = nearest.agent.values(np.array(states[:-1], np.int32)[:, None], np.array(path)[:, None])
    np.testing.assert_allclose(values, nearest.gamma ** np.arange(5, -1, -1.0), rtol=1e-6)
    for one in (model, nearest):
        with pytest.raises(DataError, match="cannot keep data apart"):
            one.remember([episode], keep=True)
    with pytest.raises(DataError, match="set rows_per_action to 3 or more"):
        gemrl.MFEC(lake, seed=0, rows_per_action=2).remember([episode])


RUN = ["--steps", "300", "--eval-every", "60", "--eval-episodes", "1", "--checkpoint-every", "60"]


@pytest.mark.parametrize(("algo", "options"), [("gem", ["--keep-data"]), ("td3", []), ("gem", ["--keep-data", "--n-envs", "2"])])
def test_a_resumed_run_with_data(tmp_path: Path, algo: str, options: list[str]) -> None:
    """It has the bytes of an uninterrupted one, and does not read the data again."""
    data = tmp_path / "data.npz"
    save(data, joined(record(gym.make("Pendulum-v1"), 3, limit=40)))
    few = {"buffer_size=2000": "buffer_size=400"}  # the rows of the environment wrap
    words = [few.get(word, word) for word in SMALL_WORDS if algo == "gem" or not word.startswith(("target_update", "train_freq"))]
    arguments = ["train", "Pendulum-v1", "--algo", algo, *RUN, "--data", str(data), *options, *words]
    assert main([*arguments, "--run", str(tmp_path / "one")]) == 0
    assert main([*arguments, "--steps", "180", "--run", str(tmp_path / "two")]) == 0
    data.unlink()
    assert main(["resume", str(tmp_path / "two"), "--steps", "300"]) == 0
    assert differences(tmp_path / "one", tmp_path / "two") == []


def test_a_run_without_a_checkpoint_reads_its_data_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And compares it with the digest in run.json."""
    data, run = tmp_path / "data.npz", tmp_path / "run"
    recording = joined(record(gym.make("Pendulum-v1"), 3, limit=40))
    save(data, recording)
    arguments = ["train", "Pendulum-v1", *RUN, "--data", str(data), "--keep-data", *SMALL_WORDS]
    assert main([*arguments, "--run", str(run)]) == 0
    assert "the memory starts with 120 rows of 3 trajectories from" in capsys.readouterr().out
    description = describe(run)
    (entry,) = description["data"]
    assert (entry["path"], entry["trajectories"], entry["rows"], description["keep_data"]) == (str(data), 3, 120, True)
    shutil.copytree(run, tmp_path / "first")
    for leftover in (run / "checkpoints", *run.glob("model.*")):
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
    shutil.copytree(run, tmp_path / "third")
    save(data, recording, compressed=True)  # other bytes, the same trajectories
    assert main(["resume", str(run)]) == 0
    assert differences(run, tmp_path / "first") == []
    recording["rewards"][3] += 1
    save(data, recording)
    capsys.readouterr()
    assert main(["resume", str(tmp_path / "third")]) == 2
    assert "has changed since this run was started" in capsys.readouterr().err


def test_run_json_with_data_is_checked(tmp_path: Path) -> None:
    entry = {"path": "x.npz", "sha256": "0" * 64, "trajectories": 1, "rows": 5}
    good = {"algo": "gem", "env": "Pendulum-v1", "seed": 0, "data": [entry], "keep_data": False}
    (tmp_path / "run.json").write_text(json.dumps(good))
    assert describe(tmp_path)["data"] == [entry]
    for name, value in (("sha256", "no"), ("rows", 0), ("path", "")):
        (tmp_path / "run.json").write_text(json.dumps(good | {"data": [entry | {name: value}]}))
        with pytest.raises(GemrlError, match=rf"data\[0\]\.{name}"):
            describe(tmp_path)


def test_reports_tell_runs_with_data_apart(tmp_path: Path) -> None:
    entry = {"path": "/some/where/demos.npz", "sha256": "12345678" * 8, "trajectories": 1, "rows": 5}
    for number, data in enumerate(([], [entry])):
        folder = tmp_path / "gem" / "Pendulum-v1" / str(number)
        folder.mkdir(parents=True)
        run = {"algo": "gem", "env": "Pendulum-v1", "seed": number, "steps": 10, "recipe": gemrl.RECIPES["gem"].as_dict()}
        (folder / "run.json").write_text(json.dumps(run | ({"data": data, "keep_data": True} if data else {})))
        (folder / "evaluations.csv").write_text("step,return_mean,return_std,length_mean,estimation_error\n10,1,0,5,0\n")
    methods = [run.method for run in collect(tmp_path).runs]
    assert methods == ["gem data=None keep_data=None", "gem data=demos.npz:12345678 keep_data=True"]


def changed(name: str, change: Callable[[np.ndarray], Any]) -> Callable[[Episode], None]:
    def apply(recording: Episode) -> None:
        recording[name] = change(recording[name].copy())

    return apply


def put(name: str, row: Any, value: Any) -> Callable[[Episode], None]:
    def apply(recording: Episode) -> None:
        recording[name] = recording[name].copy()
        recording[name][row] = value

    return apply


def without(name: str) -> Callable[[Episode], None]:
    def apply(recording: Episode) -> None:
        del recording[name]

    return apply


def renamed(old: str, new: str) -> Callable[[Episode], None]:
    def apply(recording: Episode) -> None:
        recording[new] = recording.pop(old)

    return apply


WRONG: list[tuple[Callable[[Episode], None], str]] = [
    (without("truncated"), r"has no array 'truncated': add one that is true where an episode was cut off"),
    (without("terminated"), r"has no array 'terminated': add one"),
    (without("observations"), r"has no array 'observations'"),
    (renamed("truncated", "truncateds"), r"has no array 'truncated': .*; is 'truncateds' meant\?"),
    (lambda x: x.update(timeouts=x["truncated"]), r"has both 'truncated' and 'timeouts'"),
    (put("observations", (9, 1), np.nan), r"episode 1, row 2: observations is .*nan.*, which is not finite"),
    (put("observations", (9, 1), 1e300), r"episode 1, row 2: observations is .*, which is too large for 32-bit floats"),
    (put("rewards", 7, np.inf), r"episode 1, row 1: rewards is inf, which is not finite"),
    (put("actions", (6, 0), np.nan), r"episode 1, row 0: actions is .*nan.*, which is not finite"),
    (put("actions", (6, 0), 1.5), r"episode 1, row 0: actions is .*1\.5.*, which is outside the bounds"),
    (changed("actions", lambda x: x[:, :1]), r"actions have shape \(1,\), but the environment's have \(2,\)"),
    (changed("actions", lambda x: x[:-1]), r"actions has \d+ rows, terminated \d+: each has one row per step"),
    (changed("actions", lambda x: x.astype(str)), r"actions must hold numbers, not <U"),
    (changed("actions", lambda x: x + 0j), r"actions must hold numbers, not complex"),
    (changed("rewards", lambda x: x[:, None]), r"rewards must have one axis"),
    (changed("rewards", lambda x: x[0]), r"rewards has no rows"),
    (changed("observations", lambda x: x[:, :2]), r"observations have shape \(2,\), but the environment's have \(3,\)"),
    (changed("observations", lambda x: x[:-1]), r"observations has \d+ rows, but \d+ steps in 3 episodes have \d+"),
    (changed("terminated", lambda x: x[:, None]), r"terminated must have one axis"),
    (changed("terminated", lambda x: x + 1), r"terminated must be true or false for each step"),
    (changed("truncated", lambda x: x * 0.5), r"truncated must be true or false for each step"),
    (
        lambda x: x.update(terminated=0 * x["terminated"], truncated=0 * x["truncated"]),
        r"episode 0, row \d+: the data stops here",
    ),
    (lambda x: x.update({n: x[n][:0] for n in ("terminated", "truncated", "actions", "rewards")}), r"there are no steps"),
]


def three() -> Episode:
    """A recording of three episodes, the first of six steps."""
    episodes = [episode for episode in record(Walk(), 12) if len(episode["rewards"]) == 6][:3]
    return joined(episodes)


@pytest.mark.parametrize(("damage", "message"), WRONG, ids=[message[:40] for _, message in WRONG])
def test_wrong_recordings_are_named(tmp_path: Path, damage: Callable[[Episode], None], message: str) -> None:
    recording = three()
    damage(recording)
    save(tmp_path / "bad.npz", recording)
    spaces = Spaces.of(Walk())
    with pytest.raises(DataError, match=r"bad\.npz.*" + message) as error:
        read_source(tmp_path / "bad.npz", spaces, print)
    assert "\n" not in str(error.value)


def test_an_ending_that_is_not_marked() -> None:
    """The last row of the data has neither flag, or an episode's own arrays end in the middle."""
    model = small("td3", Walk())
    one, two = record(Walk(), 2)
    stops = one | {"truncated": 0 * one["truncated"], "terminated": 0 * one["terminated"]}
    last = len(one["rewards"]) - 1
    with pytest.raises(DataError, match=f"episodes, episode 1, row {last}: the data stops here, but neither"):
        model.remember([two, stops])
    with pytest.raises(DataError, match=f"episode 0, row {last}: the episode ends here, but rows follow"):
        model.remember([joined([one, two])])
    recording = in_d4rl([one, two])
    recording["next_observations"][1] += 1
    with pytest.raises(DataError, match="row 1: next_observations differs from the observations of the next row"):
        model.remember([{name: column[: last + 1] for name, column in recording.items()}])
    assert len(model.memory) == 0, "nothing was loaded"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("demos.npz", r"not a path: model.remember\(gemrl.read_data\('demos.npz', model\)\)"),
        ({"observations": 1}, r"takes a list of episodes"),
        ([3], r"episode 0 must be a dict of arrays, not int"),
        ([], r"there are no episodes"),
        ([{"observations": [[1], [1, 2]], "actions": 0, "rewards": 0, "terminated": 0, "truncated": 0}], r"is not an array"),
    ],
)
def test_what_remember_does_not_take(given: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        small("td3", Walk()).remember(given)


def test_discrete_spaces_and_stacks_are_checked() -> None:
    (episode,) = record(stacked(), 1)
    model = small("dqn", stacked())
    jump = episode["observations"].copy()
    jump[3] = 255 - jump[3]
    for name, value, message in (
        ("actions", episode["actions"] + 2, r"row 0: actions is \d+, but the environment has 5 to 6"),
        ("actions", episode["actions"].astype(float), r"actions must hold whole numbers, not float64"),
        ("observations", episode["observations"].astype(int) + 300, r"row 0: observations is .*, which does not fit uint8"),
        ("observations", episode["observations"] / 255, r"observations must hold whole numbers"),
        ("observations", jump, r"row 2: the images are not a stack of the last 3"),
        ("observations", episode["observations"][:, [0, 2, 1]][[2, 3, 4, 3, 4]], r"the images are not a stack"),
    ):
        with pytest.raises(DataError, match=message):
            model.remember([episode | {name: value}])
    lake = model_class("gem-tabular")("FrozenLake-v1", seed=0)
    flags = {"terminated": np.array([True]), "truncated": np.array([False])}
    with pytest.raises(DataError, match="row 1: observations is 16, which is not one of the environment's 16 states"):
        lake.remember([{"observations": np.array([0, 16]), "actions": np.array([1]), "rewards": np.zeros(1), **flags}])


@pytest.mark.parametrize(("keep", "n_envs", "least"), [(False, 1, 101), (True, 1, 202), (False, 2, 202), (True, 2, 303)])
def test_more_rows_than_the_memory_holds(keep: bool, n_envs: int, least: int) -> None:
    (episode,) = record(gym.make("Pendulum-v1"), 1, limit=101)

    def model(size: int) -> Model:
        return model_class("td3")("Pendulum-v1", seed=0, n_envs=n_envs, net_arch=(16,), buffer_size=size)

    refused = model(least - 1)
    with pytest.raises(DataError, match=f"rows of data, but there are 101: set buffer_size to {least} or more"):
        refused.remember([episode], keep=keep)
    assert len(refused.memory) == 0
    assert len(refused.memory.size) == n_envs
    enough = model(least)
    enough.remember([episode], keep=keep)
    assert len(enough.memory) == 101


class _Trap:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path("trap"),))


def archives(folder: Path) -> dict[str, bytes]:
    """Files that are not valid archives of arrays, by what is wrong with them."""
    buffer = io.BytesIO()
    save(buffer, three())
    good = buffer.getvalue()
    found = {"empty": b"", "text": b"observations", "cut": good[: len(good) // 2], "cut early": good[:50]}
    found |= {"pickle": pickle.dumps(_Trap()), "no arrays": b"PK\x05\x06" + bytes(18)}
    flipped = bytearray(good)
    flipped[len(good) // 3] ^= 0x10
    found["flipped"] = bytes(flipped)
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(5))
    found["one array"] = buffer.getvalue()
    buffer = io.BytesIO()
    save(buffer, three() | {"rewards": np.array([_Trap()] * 18, object)})
    found["objects"] = buffer.getvalue()
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }"
    huge = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("rewards.npy", huge)
        archive.writestr("observations.npy", b"none")
    found["huge header"] = buffer.getvalue()
    return found


@pytest.mark.parametrize("kind", archives(Path()))
def test_damaged_archives(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One line that names the file, exit code 2, no run, and no code from the file is run."""
    monkeypatch.chdir(tmp_path)
    Path("bad.npz").write_bytes(archives(tmp_path)[kind])
    assert main(["train", "Pendulum-v1", "--data", "bad.npz"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("gemrl: bad.npz")
    assert error.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.npz"]


def test_other_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What is not data: folders, other files, missing ones, FIFOs, wrong environments."""
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("data.csv").write_text("a,b")
    os.mkfifo("pipe.npz")
    save("walk.npz", three())
    Path("minari", "data").mkdir(parents=True)
    Path("minari", "data", "main_data.hdf5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    for path, message in (
        ("folder", "folder contains no data: give a .npz file, the folder of a Minari dataset, or a run folder"),
        ("nowhere.npz", "nowhere.npz does not exist"),
        ("data.csv", "data.csv is not data that can be read"),
        ("pipe.npz", "cannot read pipe.npz: it is not a regular file"),
        ("walk.npz", "walk.npz: actions have shape (2,), but the environment's have (1,)"),
        ("minari", "main_data.hdf5 is not a Minari dataset that can be read"),
    ):
        assert main(["train", "Pendulum-v1", "--data", path]) in (1, 2)
        assert message in capsys.readouterr().err
    save("long.npz", joined(record(gym.make("Pendulum-v1"), 2, limit=60)))
    assert main(["train", "Pendulum-v1", "--data", "long.npz", "--keep-data", "--set", "buffer_size=239"]) == 2
    assert "has room for 119 rows of data, but there are 120: set buffer_size to 240 or more" in capsys.readouterr().err
    assert main(["train", "Pendulum-v1", "--keep-data"]) == 2
    assert "there is no --data" in capsys.readouterr().err
    assert not Path("runs").exists()


def test_minari_files_that_point_elsewhere(tmp_path: Path) -> None:
    """Links to other files, groups of arrays, text and missing arrays are named; nothing outside the file is read."""
    in_minari(tmp_path, Walk(), 2)
    folder, spaces = tmp_path / "walk" / "random-v0", Spaces.of(Walk())
    main_file = folder / "data" / "main_data.hdf5"
    good = main_file.read_bytes()
    with h5py.File(tmp_path / "other.hdf5", "w") as other:
        other["rewards"] = np.zeros(6)

    def link(file: Any) -> None:
        del file["episode_1/rewards"]
        file["episode_1/rewards"] = h5py.ExternalLink(str(tmp_path / "other.hdf5"), "rewards")

    def outside(file: Any) -> None:
        count = len(file["episode_1/rewards"])
        del file["episode_1/rewards"]
        file.create_dataset("episode_1/rewards", (count,), "f8", external=[(str(tmp_path / "other.hdf5"), 0, 8 * count)])

    def group(file: Any) -> None:
        del file["episode_0/observations"]
        file["episode_0/observations/position"] = np.zeros(6)

    def text(file: Any) -> None:
        del file["episode_0/actions"]
        file["episode_0/actions"] = ["a", "b"]

    def empty(file: Any) -> None:
        for name in list(file):
            del file[name]

    def missing(file: Any) -> None:
        del file["episode_1/truncations"]

    for damage, message in (
        (link, "rewards is a link, which is not followed"),
        (outside, "rewards is stored in another file"),
        (group, r"main_data.hdf5, episode 0: observations is a group of arrays"),
        (text, r"main_data.hdf5, episode 0: actions must hold numbers"),
        (empty, "has no episodes"),
        (missing, r"main_data.hdf5, episode 1 has no array 'truncated'"),
    ):
        main_file.write_bytes(good)
        with h5py.File(main_file, "a") as file:
            damage(file)
        with pytest.raises(DataError, match=message):
            read_source(folder, spaces, print)


def test_a_step_back_in_units() -> None:
    """Actions of a policy, in the environment's units, are the policy's own again."""
    spaces = Spaces.of(Walk())
    own = np.random.default_rng(0).uniform(-1, 1, (50, 2)).astype(np.float32)
    np.testing.assert_allclose(spaces.agent_action(spaces.env_action(own)), own, atol=1e-6)
    assert spaces.agent_action(np.array([[-3.00001, 2.50001]])).tolist() == [[-1, 1]]


def test_damaged_recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few of the damages of `make torture`."""
    monkeypatch.chdir(tmp_path)
    row, failures = damage_often(tmp_path / "recordings", 40)
    assert failures == []
    assert "| 40 |" in row
