"""Numbers that leave a run: each service keeps them offline, and keeps them once, though the run is resumed."""

from __future__ import annotations

import csv
import json
import sqlite3
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gemrl.cli.main import main
from gemrl.experiments.run_folder import describe
from gemrl.training.trackers.tensorboard import numbered

WORDS = ["--eval-every", "100", "--eval-episodes", "1", "--set", "net_arch=(8,)", "learning_starts=100", "gradient_steps=2"]
WORDS += ["--set", "batch_size=8", "train_freq=50", "target_update_interval=50"]


def train(folder: Path, *words: str) -> int:
    return main(["train", "Pendulum-v1", "--algo", "td3", "--steps", "200", "--run", str(folder), *WORDS, *words])


def lines(folder: Path) -> list[dict[str, str]]:
    """progress.csv, without what is empty."""
    with (folder / "progress.csv").open() as file:
        return [{name: value for name, value in row.items() if value} for row in csv.DictReader(file)]


def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    assert train(tmp_path / "run", "--tensorboard") == 0
    (events,) = (tmp_path / "run" / "tensorboard").iterdir()
    assert all(name.encode() in events.read_bytes() for name in ("rollout/ep_rew_mean", "eval/mean_reward", "train/critic_loss"))


def events_of(file: Path) -> list[Any]:
    """The records of a TensorBoard file: a length, its checksum, the record, its checksum."""
    from tensorboardX.proto.event_pb2 import Event

    data, at, found = file.read_bytes(), 0, []
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        found.append(Event.FromString(data[at + 12 : at + 12 + length]))
        at += 16 + length
    return found


def test_tensorboard_has_every_step_once(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    assert train(tmp_path / "run", "--tensorboard") == 0
    assert main(["resume", str(tmp_path / "run"), "--steps", "300"]) == 0
    files = sorted((tmp_path / "run" / "tensorboard").iterdir(), key=lambda file: file.stat().st_mtime_ns)
    told = [[(event, value.tag) for event in events_of(file) for value in event.summary.value] for file in files]
    steps = [[event.step for event, tag in one if tag == "eval/mean_reward"] for one in told]
    assert steps == [[100, 200], [300]]
    assert [event.step for event in events_of(files[1]) if event.HasField("session_log")] == [201]  # beyond a kill


@pytest.fixture
def trackio_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("trackio")

    folder = tmp_path / "trackio"
    for module in [module for name, module in sys.modules.items() if name.split(".")[0] == "trackio"]:
        if hasattr(module, "TRACKIO_DIR"):  # read from the environment once, when the package was imported
            monkeypatch.setattr(module, "TRACKIO_DIR", folder)
    return folder


def rows_of(folder: Path) -> list[tuple[int, dict[str, Any]]]:
    """The steps and values in trackio's database."""
    with sqlite3.connect(folder / "gemrl.db") as database:
        return [(step, json.loads(values)) for step, values in database.execute("select step, metrics from metrics order by id")]


def test_trackio_keeps_every_line_once(tmp_path: Path, trackio_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    assert train(run, "--track") == 0
    assert "trackio show --project gemrl" in capsys.readouterr().out
    told = rows_of(trackio_folder)
    assert [(step, values["time/total_timesteps"]) for step, values in told] == [(100, 100), (200, 200)]
    for (_, values), line in zip(told, lines(run), strict=True):
        assert values == {name: float(value) for name, value in line.items()}
    # What was told beyond the checkpoint that a run goes on from is not told again.
    assert main(["resume", str(run), "--steps", "300"]) == 0
    later = (run / "progress.csv").read_text()
    (run / "progress.csv").write_text(later.replace("\n300,", "\n400,"))
    assert main(["resume", str(run), "--steps", "500"]) == 0
    assert [step for step, _ in rows_of(trackio_folder)] == [100, 200, 300, 500]
    with sqlite3.connect(trackio_folder / "gemrl.db") as database:
        ((name, config),) = database.execute("select run_name, config from configs")
    assert name == f"td3 on Pendulum-v1, seed 0, {describe(run)['track']['id']}"
    assert json.loads(config)["recipe"] == describe(run)["recipe"]


def records(file: Path) -> Iterator[Any]:
    """What W&B keeps offline: protobufs in the log format of LevelDB, in blocks of 32 KiB behind a header of 7 bytes."""
    from wandb.proto.wandb_internal_pb2 import Record  # type: ignore[attr-defined]

    data, at, whole = file.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if (left := -at % 32768) and left < 7:
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            record = Record()
            record.ParseFromString(whole)
            whole = b""
            yield record


def test_weights_and_biases_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = tmp_path / "run"
    assert train(run, "--track", "wandb") == 0
    assert "wandb sync" in capsys.readouterr().out
    (file,) = run.glob("wandb/offline-run-*/run-*.wandb")
    said = list(records(file))
    (begun,) = (record.run for record in said if record.HasField("run"))
    assert (begun.project, begun.run_id) == ("gemrl", describe(run)["track"]["id"])
    told = [record.history.item for record in said if record.HasField("history")]
    history = [{item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items} for items in told]
    assert [values["_step"] for values in history] == [100, 200]
    for values, line in zip(history, lines(run), strict=True):
        assert {name: float(value) for name, value in line.items()} == {name: values[name] for name in line}


def test_errors_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(tmp_path / "a", "--track", "wandbb") == 2
    monkeypatch.setitem(sys.modules, "trackio", None)
    assert train(tmp_path / "b", "--track") == 2
    words = capsys.readouterr().err.splitlines()
    assert "choose from" in words[0]
    assert words[1:] == ["gemrl: trackio is not installed: pip install 'gemrl[trackio]'"]
    assert not list(tmp_path.iterdir())  # nothing was begun


def test_a_run_outlives_its_tracker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    trackio = pytest.importorskip("trackio")

    class Cut:
        def log(self, values: Any, step: int) -> None:
            raise ConnectionError("the line is cut")

    monkeypatch.setattr(trackio, "init", lambda **_: Cut())
    monkeypatch.setattr(trackio, "finish", lambda: None)
    assert train(tmp_path / "run", "--track") == 0
    assert capsys.readouterr().err == "gemrl: trackio failed, and is told no more: the line is cut\n"
    assert len(lines(tmp_path / "run")) == 2


def test_a_service_that_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    wandb = pytest.importorskip("wandb")

    def refuse(**_: Any) -> None:
        raise wandb.errors.UsageError("No API key configured.\nUse `wandb login`.")

    monkeypatch.setattr(wandb, "init", refuse)
    assert train(tmp_path / "run", "--track", "wandb") == 1
    assert "gemrl: wandb does not take the run: No API key configured. Use `wandb login`.\n" in capsys.readouterr().err


def test_a_folder_s_number_is_that_of_its_own_name(tmp_path: Path) -> None:
    for name in ("gem_1", "gem_big_7", "gem_x", "gem"):
        (tmp_path / name).mkdir()
    assert numbered(tmp_path, "gem", new=True).name == "gem_2"
    assert numbered(tmp_path, "gem", new=False).name == "gem_1"
    assert numbered(tmp_path, "gem_big", new=True).name == "gem_big_8"
    assert numbered(tmp_path / "none", "gem", new=False).name == "gem_1"
