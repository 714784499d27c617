"""Files from a stranger: reading a folder never writes elsewhere, runs code, hangs or shows a traceback."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector.utils import batch_space

import gemrl
from gemrl.analysis.report.page import page
from gemrl.analysis.results.collection import collect
from gemrl.cli.main import main
from gemrl.core.exceptions import BadValue, GemrlError, ModelFileError, RunFolderError
from gemrl.core.files import write_json, write_sealed
from gemrl.core.links import refuse_links
from gemrl.core.reading import MAX_DEPTH, parse_json, read_limited
from gemrl.core.schema import MAX_STEPS, Items, Maybe, Pair, Real, Record, Text, Whole, problem
from gemrl.core.text import printable
from gemrl.core.threads import LIBRARIES, kept_flags, set_threads
from gemrl.envs.vector import MAX_LANES
from gemrl.experiments import checkpoints
from gemrl.experiments.executors.base import Job
from gemrl.experiments.executors.local import LocalProcess
from gemrl.experiments.run_folder import describe
from gemrl.experiments.run_logs import Recorder, read_evaluations, read_timings
from gemrl.experiments.studies.study import Study
from gemrl.training.models import GEM, MODELS
from tests.folders import write_run
from tests.test_report import data_of

ESCAPE = "\x1b]0;owned\x07"
TABULAR = ["--algo", "gem-tabular", "--eval-every", "100", "--eval-episodes", "1", "--set", "learning_starts=50"]
SHORT = ["--steps", "200", *TABULAR]


def changed(file: Path, **values: Any) -> None:
    """Replaces values in a JSON file."""
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The error that a command printed, which must be one line."""
    error = capsys.readouterr().err
    assert error.startswith("gemrl: ")
    assert error.count("\n") == 1
    return error


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tabular run, which compiles nothing."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert main(["train", "FrozenLake-v1", "--checkpoint-every", "100", "--run", str(folder), *SHORT]) == 0
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of the run, to be altered."""
    import shutil

    return Path(shutil.copytree(trained, tmp_path / "run"))


# 1. Compiler flags


@pytest.mark.parametrize(
    "flag", ["--xla_dump_to=/tmp/x", "--no_such_flag", "xla_backend_optimization_level=0", "--xla_cpu_enable_fast_math=x"]
)
def test_compiler_flags_of_a_file_are_not_obeyed(
    run: Path, flag: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (*LIBRARIES, "XLA_FLAGS"):
        monkeypatch.setenv(name, "")
    changed(run / "run.json", xla_flags=f"--xla_backend_optimization_level=1 {flag}", threads=1)
    set_threads(["resume", str(run)])
    assert os.environ["XLA_FLAGS"] == ""
    assert main(["resume", str(run), "--steps", "300"]) == 2
    assert f"xla_flags in run.json contains {flag.partition('=')[0]!r}" in one_line(capsys)


def test_known_compiler_flags_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the run replace those of the user, whose other flags stay."""
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=mine --xla_backend_optimization_level=2")
    assert kept_flags() == "--xla_backend_optimization_level=2"
    for name in LIBRARIES:
        monkeypatch.setenv(name, "1")
    (tmp_path / "run.json").write_text(json.dumps({"threads": 2, "xla_flags": "--xla_backend_optimization_level=0"}))
    set_threads(["resume", str(tmp_path)])
    assert os.environ["XLA_FLAGS"].split() == ["--xla_backend_optimization_level=0", "--xla_dump_to=mine"]


def test_an_absurd_number_of_threads_is_not_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*LIBRARIES, "XLA_FLAGS"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("NPROC", "2")
    (tmp_path / "run.json").write_text(json.dumps({"threads": 10**6, "xla_flags": ""}))
    set_threads(["resume", str(tmp_path)])
    assert os.environ["NPROC"] == "2"


# 2. Links are not written through


@pytest.mark.parametrize(
    "name", ["evaluations.csv", "progress.csv", "learning_curve.png", ".lock", "tensorboard", "wandb", "x/y"]
)
def test_nothing_is_written_through_a_link(run: Path, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    link = run / name
    link.unlink(missing_ok=True)
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(precious)
    for command in (["resume", str(run), "--steps", "300"], ["train", "FrozenLake-v1", "--run", str(tmp_path / "new"), *SHORT]):
        if command[0] == "train":
            (tmp_path / "new").mkdir()
            link.rename(tmp_path / "new" / link.name)
        assert main(command) == 2
        assert "is a link" in one_line(capsys)
        assert precious.read_text() == "precious"


def test_a_lock_that_is_a_link_to_nothing_creates_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "new")
    assert main(["train", "FrozenLake-v1", "--run", str(tmp_path / "run"), *SHORT]) == 2
    assert ".lock is a link" in one_line(capsys)
    assert not (tmp_path / "new").exists()


def test_checkpoints_that_become_a_link_during_a_run_are_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "run" / "checkpoints").symlink_to(tmp_path / "outside")
    with pytest.raises(RunFolderError, match="checkpoints is a link"):
        checkpoints.write(tmp_path / "run", MODELS["gem-tabular"]("FrozenLake-v1", seed=0), {}, {})
    assert not list((tmp_path / "outside").iterdir())


def test_linked_checkpoints_are_refused_before_anything_is_removed(run: Path, tmp_path: Path) -> None:
    (run / "checkpoints").rename(tmp_path / "elsewhere")
    (run / "checkpoints").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / ".writing-mine").write_text("mine")
    before = sorted(path.name for path in (tmp_path / "elsewhere").iterdir())
    assert main(["resume", str(run), "--steps", "300"]) == 2
    assert sorted(path.name for path in (tmp_path / "elsewhere").iterdir()) == before


def test_the_folder_itself_may_be_a_link_and_so_may_those_of_weights_and_biases(tmp_path: Path) -> None:
    (tmp_path / "run" / "wandb" / "run-1").mkdir(parents=True)
    (tmp_path / "run" / "wandb" / "latest-run").symlink_to("run-1")
    (tmp_path / "link").symlink_to(tmp_path / "run")
    refuse_links(tmp_path / "link")
    (tmp_path / "run" / "wandb" / "debug.log").symlink_to(tmp_path / "precious")
    with pytest.raises(RunFolderError, match=r"debug\.log is a link"):
        refuse_links(tmp_path / "link")


def test_hard_links_keep_their_other_name(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    os.link(tmp_path / "precious", tmp_path / "evaluations.csv")
    recorder = Recorder(tmp_path, GEM("Pendulum-v1").recipe)
    recorder.start()
    recorder.close()
    assert (tmp_path / "precious").read_text() == "precious"


@pytest.mark.parametrize("link", ["logs", "logs/job.txt", "gem-tabular"])
def test_a_study_does_not_write_through_links(link: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, outside = tmp_path / "out", tmp_path / "outside"
    (out / link).parent.mkdir(parents=True, exist_ok=True)
    outside.mkdir()
    (out / link).symlink_to(outside)
    if link.startswith("logs"):
        with pytest.raises(RunFolderError, match="is a link"):
            LocalProcess(Job(tmp_path / "run", (), out / "logs" / "job.txt"))
    else:
        toml = tmp_path / "own.toml"
        toml.write_text('algos = ["gem-tabular"]\nenvs = ["FrozenLake-v1"]\nsteps = 10')
        assert main(["study", str(toml), "--out", str(out)]) == 2
        assert "is a link" in one_line(capsys)
    assert not list(outside.iterdir())


# 3. What gets into a report

MP4 = b"\0\0\0\x18ftypmp42" + bytes(20)


@pytest.mark.parametrize("films", ["films", "shared/films"])
def test_a_report_contains_no_file_from_elsewhere(films: str, tmp_path: Path) -> None:
    """A linked file, a linked folder of videos, and a file that is no video are left out and named."""
    root = tmp_path / "shared"
    folder = write_run(root / "0", "gem", "Hopper-v5", 0, [1, 2])
    (tmp_path / "secret.mp4").write_bytes(MP4)
    (folder / "a.mp4").symlink_to(tmp_path / "secret.mp4")
    (folder / "b.mp4").write_bytes(b"-----BEGIN PRIVATE KEY-----")
    (folder / "c.mp4").write_bytes(MP4)
    os.mkfifo(folder / "d.mp4")
    (tmp_path / films).mkdir()
    (tmp_path / films / "e.mp4").write_bytes(MP4)
    (folder / "videos").symlink_to(tmp_path / films)
    data = data_of(page(collect(root)))
    assert [video["name"] for video in data["runs"][0]["videos"]] == ["c.mp4"]
    notes = "\n".join(data["notes"])
    for name, why in (("a.mp4", "is a link"), ("b.mp4", "not a video/mp4"), ("d.mp4", "not a regular file"), ("e.mp4", "a link")):
        assert any(note.startswith(name) and why in note for note in data["notes"]), (name, notes)


def test_videos_of_a_run_outside_the_folder_are_left_out(tmp_path: Path) -> None:
    """Its numbers are read, since people collect their own runs by links."""
    folder = write_run(tmp_path / "elsewhere" / "0", "gem", "Hopper-v5", 0, [1, 2])
    (folder / "a.mp4").write_bytes(MP4)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "gem").symlink_to(tmp_path / "elsewhere")
    data = data_of(page(collect(tmp_path / "here")))
    assert data["runs"][0]["videos"] == []
    assert data["notes"][0].endswith("is left out: its folder is a link")


@pytest.mark.parametrize("name", ["run.json", "evaluations.csv"])
def test_a_linked_file_of_a_run_is_left_out_of_a_report(name: str, tmp_path: Path) -> None:
    write_run(tmp_path / "good", "gem", "Hopper-v5", 0, [1])
    folder = write_run(tmp_path / "bad", "gem", "Hopper-v5", 1, [1])
    (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    found = collect(tmp_path)
    assert [run.seed for run in found.runs] == [0]
    assert f"{name} is a link" in found.left_out[0]


# 4. FIFOs and devices


def as_fifo(file: Path) -> None:
    os.mkfifo(file)


def as_zeros(file: Path) -> None:
    file.symlink_to("/dev/zero")


def as_folder(file: Path) -> None:
    file.mkdir()


@pytest.mark.usefixtures("no_hang")
@pytest.mark.parametrize("make", [as_fifo, as_zeros, as_folder])
@pytest.mark.parametrize("name", ["run.json", "evaluations.csv", "progress.csv", "model.json", "own.toml", "study.json"])
def test_special_files_are_not_read(
    make: Callable[[Path], None], name: str, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a check each of these would hang, or read until the memory is full."""
    folder = write_run(tmp_path / "run", "gem", "Hopper-v5", 0, [1])
    write_run(tmp_path / "good", "gem", "Hopper-v5", 1, [1])
    file = tmp_path / name if name in ("own.toml", "study.json") else folder / name
    file.unlink(missing_ok=True)
    make(file)
    match name:
        case "model.json":
            with pytest.raises(ModelFileError, match="it is"):
                gemrl.load(folder)
        case "own.toml":
            assert main(["study", str(file), "--dry-run"]) == 2
            assert "cannot read" in one_line(capsys)
        case "progress.csv":
            assert read_timings(folder) == []
        case _:
            assert main(["report", str(tmp_path), "--table"]) == 0
            assert f"{name} is a link" in (out := capsys.readouterr().out) or f"{file}: it is" in out
            if name == "run.json":
                for command in ("resume", "evaluate", "memory"):
                    assert main([command, str(folder)]) == 2
                    assert "cannot read" in one_line(capsys)


def test_size_limits(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 40)  # a terabyte without a block on the disk
    with pytest.raises(ModelFileError, match=r"it has 1,099,511,627,776 bytes, and 100 is the limit"):
        read_limited(tmp_path / "large", 100)
    with pytest.raises(ModelFileError, match="is the limit"):
        read_limited("/proc/cpuinfo", 10)  # a regular file whose size is said to be 0


# 5. Schemas


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ('{"a": ' + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "}", "nested too deeply"),
        ('{"a": 1, "a": 2}', "occurs twice"),
        (r'{"a": "\u0000"}', "NUL"),
        (r'{"a": {"\ud800": 1}}', "half of a character"),
        ('{"a": ' + "9" * 5000 + "}", "digits"),
        ('{"a": [' + "[]," * 1_000_000 + "[]]}", "too many values"),
        ("[]", "not a JSON object"),
        ("{", "not JSON"),
    ],
)
def test_json_with_traps_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ModelFileError, match=reason):
        parse_json(text.encode(), "file")


def test_json_without_traps_is_read() -> None:
    nested = {"a": [[1.5, None, "ä\U0001f600"]], "b": {"c": True}}
    assert parse_json(json.dumps(nested).encode(), "file") == nested
    deepest: Any = {}
    for _ in range(MAX_DEPTH - 1):
        deepest = {"a": deepest}
    assert parse_json(json.dumps(deepest).encode(), "file") == deepest


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (Whole(1, 5), (1, 5), (0, 6, True, 1.0, "1", None, 10**400)),
        (Real(), (0, -1.5, 10**300), (float("nan"), float("inf"), 10**400, "1", True)),
        (Real(finite=False), (float("nan"), 1), ("1", None)),
        (Text(3), ("a", "äöü"), ("", "abcd", 1, "\n", "\x1b", "\x9b", "\0", "\ud800")),
        (Text(9, "[a-z]+", "letters"), ("abc",), ("a1", "abc\n")),
        (Maybe(Whole()), (None, 1), ("", -1)),
        (Items(Whole(), 2), ([], [1, 2]), ([1, 2, 3], [-1], {}, "ab")),
        (Pair(Real(), Whole()), ([1.5, 2],), ([1], [1, 2.5], [1, 2, 3], None)),
        (Record({"a": Whole()}, {"b": Text()}, Whole()), ({"a": 1}, {"a": 1, "b": "x", "c": 2}), ({}, {"a": 1, "c": "x"}, [])),
    ],
)
def test_kinds_of_values(kind: Any, good: tuple[Any, ...], bad: tuple[Any, ...]) -> None:
    for value in good:
        assert kind.wrong(value) == "", value
    for value in bad:
        assert kind.wrong(value), value


def test_a_problem_names_its_field() -> None:
    schema = Record({"a": Record({"b": Items(Whole())})})
    assert problem({"a": {"b": [1, -2]}}, schema).startswith("a.b[1] must be a whole number")
    assert problem({"a": {}}, schema) == "a.b is missing"


RUN_VALUES: list[dict[str, Any]] = [
    {"steps": -1},
    {"steps": MAX_STEPS + 1},
    {"steps": True},
    {"n_envs": 10**7},
    {"seed": 2**40},
    {"track": "../x"},
    {"track": {"to": "wandb", "id": "../x"}},
    {"env_args": {"render_mode": "human"}},
    {"env": ESCAPE},
    {"recipe": []},
    {"versions": {"jax": 1}},
    {"device": "tpu"},
    {"threads": 0},
    {"env_timeout": 0},
]


@pytest.mark.parametrize("values", RUN_VALUES, ids=str)
def test_a_run_with_wrong_values_is_refused_and_left_out(
    values: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In reading, by every command, and before writing."""
    write_run(tmp_path / "good", "gem", "Hopper-v5", 0, [1])
    bad = write_run(tmp_path / "bad", "gem", "Hopper-v5", 1, [1])
    changed(bad / "run.json", **values)
    (name,) = values
    for command in ("resume", "evaluate", "memory"):
        assert main([command, str(bad)]) == 2
        assert f"run.json is damaged: {name}" in one_line(capsys)
    assert main(["export", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    assert f"left out: {bad}/run.json is damaged: {name}" in capsys.readouterr().out
    from gemrl.experiments.schemas import RUN_FILE

    with pytest.raises(BadValue, match=rf"cannot write run\.json: {name}"):
        write_json(tmp_path / "new.json", describe(tmp_path / "good") | values, RUN_FILE)
    assert not (tmp_path / "new.json").exists()


@pytest.mark.parametrize("values", [{"envs": [[1]]}, {"algos": {"gem": 1}}, {"title": ESCAPE}, {"seeds": ["x"]}, {"steps": 1e3}])
def test_a_damaged_study_is_named_and_the_report_made_without_it(
    values: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "gem", "gem", "Hopper-v5", 0, [1])
    study = {"name": "own", "title": "Own", "algos": {"gem": {}}, "envs": ["Hopper-v5"]}
    (tmp_path / "study.json").write_text(json.dumps(study | values))
    assert main(["report", str(tmp_path), "--table"]) == 0
    assert f"left out: {tmp_path}/study.json is damaged: {next(iter(values))}" in capsys.readouterr().out


@pytest.mark.parametrize("step", ["9" * 400, "1e400", "nan", "-1", "x", "a" * 200_000])
def test_progress_with_an_absurd_step(step: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_run(tmp_path, "gem", "Hopper-v5", 0, [1])
    (folder / "progress.csv").write_text(f"time/total_timesteps,time/time_elapsed\n1000,2.0\n{step},4.0\n")
    assert all(0 <= timing.steps <= MAX_STEPS or timing.steps == -1 for timing in read_timings(folder))
    assert main(["report", str(tmp_path)]) == 0


@pytest.mark.parametrize(
    "line", ["1e400,1,1,1,1", "1,1e200,1,1,1", "1.5,1,1,1,1", "-1,1,1,1,1", "1,1", "1,x,1,1,1", "1," + "9" * 400 + ",1,1,1"]
)
def test_evaluations_out_of_range(line: str, tmp_path: Path) -> None:
    header = "step,return_mean,return_std,length_mean,estimation_error"
    (tmp_path / "evaluations.csv").write_text(f"{header}\n{line}\n")
    with pytest.raises(RunFolderError, match="is damaged"):
        read_evaluations(tmp_path)
    (tmp_path / "evaluations.csv").write_text(f"{header}\n0,1,nan,1,nan\n")
    assert np.isnan(read_evaluations(tmp_path)["estimation_error"][0])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("num_timesteps",), -1),
        (("num_timesteps",), 10**18),
        (("frames",), "x"),
        (("n_envs",), MAX_LANES + 1),
        (("seed",), -1),
        (("state", "task", "episodes"), -1),
        (("state", "task", "steps"), 1.5),
        (("state", "learning", "memory", "filled"), -1),
        (("sha256", "learner"), "x"),
    ],
)
def test_a_model_with_wrong_values_is_refused(run: Path, path: tuple[str, ...], value: Any) -> None:
    """With a correct seal, as an attacker would make it."""
    folder = max((run / "checkpoints").iterdir())
    content = json.loads((folder / "model.json").read_text())
    content.pop("seal")
    owner = content
    for name in path[:-1]:
        owner = owner[name]
    owner[path[-1]] = value
    write_sealed(folder / "model.json", content)
    with pytest.raises(ModelFileError, match=rf"model\.json is damaged: {'.'.join(path)}"):
        gemrl.load(folder / "model")


@pytest.mark.parametrize("name", ["a" * 300, "a\0b", "/", "x/" * 3000])
def test_paths_that_cannot_exist(name: str) -> None:
    with pytest.raises(GemrlError):
        gemrl.load(name)
    with pytest.raises(GemrlError):
        GEM.load(name)


def test_names_cannot_lead_out_of_an_export(tmp_path: Path) -> None:
    for algo, env in (("..", "../x"), ("a/../../b", "."), ("x" * 190, "y" * 900)):
        write_run(folder := tmp_path / "runs" / str(len(env)), "gem", "Hopper-v5", 0, [1])
        changed(folder / "run.json", algo=algo, env=env)
    assert main(["export", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "out"}
    assert len(list((tmp_path / "out").glob("*/*/evaluations.npz"))) == 3


def test_escape_sequences_do_not_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither from names in files nor from names of folders."""
    write_run(tmp_path / "good", "gem", "Hopper-v5", 0, [1], steps=5000)
    bad = write_run(tmp_path / f"bad{ESCAPE}", "gem", "Hopper-v5", 1, [1])
    changed(bad / "run.json", env=ESCAPE)
    write_run(tmp_path / f"gem={ESCAPE}" / "0", "gem", "Hopper-v5", 2, [1], steps=5000)
    for command in (
        ["report", str(tmp_path)],
        ["report", str(tmp_path), "--table"],
        ["resume", str(bad)],
        ["evaluate", str(bad)],
    ):
        main(command)
        shown = "".join(capsys.readouterr())
        assert "\x1b" not in shown
        assert "\x07" not in shown
        assert "\\x1b" in shown


def test_printable() -> None:
    assert printable("plain ä ± 日本") == "plain ä ± 日本"
    assert printable("a\x1b[31m\x9b\u202e\ud800\r\tb\nc") == "a\\x1b[31m\\x9b\\u202e\\ud800\\r\\tb\nc"


# 6. What can be saved can be loaded


class Many(gym.vector.VectorEnv):
    """5,000 environments with four states, which are made in no time."""

    num_envs = 5000
    single_observation_space, single_action_space = gym.spaces.Discrete(4), gym.spaces.Discrete(2)
    observation_space, action_space = (batch_space(gym.spaces.Discrete(n), 5000) for n in (4, 2))
    metadata = {"autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP}  # noqa: RUF012, as gymnasium declares it


def test_a_model_with_many_lanes_can_be_loaded(tmp_path: Path) -> None:
    model = MODELS["gem-tabular"](Many(), seed=0, buffer_size=20_000)
    model.save(tmp_path / "model", memory=True)
    assert gemrl.load(tmp_path / "model").n_envs == Many.num_envs


# 9. Names of studies and empty paths


@pytest.mark.parametrize("name", ["", " ", ".", "..", "a/b", "a\\b", "a\0b", "a\nb", "\x1b", "x" * 201])
def test_names_of_studies(name: str) -> None:
    with pytest.raises(BadValue, match="a study's name is also its folder's name"):
        Study(name, "title", ("gem",), ("Pendulum-v1",))


@pytest.mark.parametrize(
    "words",
    [
        ["train", "FrozenLake-v1", "--run", "", *SHORT],
        ["report", ""],
        ["resume", " "],
        ["study", "quick", "--dry-run", "--out", ""],
        ["evaluate", "a\0b"],
    ],
)
def test_empty_paths(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert "is not a path" in one_line(capsys)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "line",
    [
        "steps = 0x" + "f" * 5000,
        "a." * 30_000 + "a = 1",
        "x = " + "[" * 5000,
        f"seeds = {[*range(20_000)]}",
        'title = "\\u001b[31m"',
    ],
)
def test_toml_with_traps(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "own.toml"
    file.write_text(f'algos = ["gem"]\nenvs = ["Pendulum-v1"]\n{line}\n')
    assert main(["study", str(file), "--dry-run"]) == 2
    assert len(one_line(capsys)) < 1000
