"""Trackers: each service stores metrics offline, and stores each step once even if the run is resumed."""

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

OPTIONS = ["--eval-every", "100", "--eval-episodes", "1", "--set", "net_arch=(8,)", "learning_starts=100", "gradient_steps=2"]
OPTIONS += ["--set", "batch_size=8", "train_freq=50", "target_update_interval=50"]


def train(folder: Path, *options: str) -> int:
    return main(["train", "Pendulum-v1", "--algo", "td3", "--steps", "200", "--run", str(folder), *OPTIONS, *options])


def lines(folder: Path) -> list[dict[str, str]]:
    """The rows of progress.csv without empty cells."""
    with (folder / "progress.csv").open() as file:
        return [{name: value for name, value in row.items() if value} for row in csv.DictReader(file)]


def test_tensorboard_files_contain_the_metrics(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    assert train(tmp_path / "run", "--tensorboard") == 0
    (events,) = (tmp_path / "run" / "tensorboard").iterdir()
    assert all(name.encode() in events.read_bytes() for name in ("rollout/ep_rew_mean", "eval/mean_reward", "train/critic_loss"))


def events_of(file: Path) -> list[Any]:
    """The events of a TensorBoard file. Each is stored as a length, its checksum, the event and its checksum."""
    from tensorboardX.proto.event_pb2 import Event

    data, at, events = file.read_bytes(), 0, []
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        events.append(Event.FromString(data[at + 12 : at + 12 + length]))
        at += 16 + length
    return events


def test_tensorboard_has_every_step_once(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    assert train(tmp_path / "run", "--tensorboard") == 0
    assert main(["resume", str(tmp_path / "run"), "--steps", "300"]) == 0
    files = sorted((tmp_path / "run" / "tensorboard").iterdir(), key=lambda file: file.stat().st_mtime_ns)
    logged = [[(event, value.tag) for event in events_of(file) for value in event.summary.value] for file in files]
    steps = [[event.step for event, tag in one if tag == "eval/mean_reward"] for one in logged]
    assert steps == [[100, 200], [300]]
    assert [event.step for event in events_of(files[1]) if event.HasField("session_log")] == [201]  # discards later steps


@pytest.fixture
def trackio_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("trackio")

    folder = tmp_path / "trackio"
    for module in [module for name, module in sys.modules.items() if name.split(".")[0] == "trackio"]:
        if hasattr(module, "TRACKIO_DIR"):  # read from the environment only when the package is imported
            monkeypatch.setattr(module, "TRACKIO_DIR", folder)
    return folder


def rows_of(folder: Path) -> list[tuple[int, dict[str, Any]]]:
    """The steps and metrics in trackio's database."""
    with sqlite3.connect(folder / "gemrl.db") as database:
        return [(step, json.loads(values)) for step, values in database.execute("select step, metrics from metrics order by id")]


def test_trackio_logs_every_step_once(tmp_path: Path, trackio_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    assert train(run, "--track") == 0
    assert "trackio show --project gemrl" in capsys.readouterr().out
    logged = rows_of(trackio_folder)
    assert [(step, values["time/total_timesteps"]) for step, values in logged] == [(100, 100), (200, 200)]
    for (_, values), line in zip(logged, lines(run), strict=True):
        assert values == {name: float(value) for name, value in line.items()}
    # Steps that were logged after the checkpoint from which a run resumes are not logged again.
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
    """The records of an offline W&B file: protobufs in LevelDB's log format, with a 7-byte header and blocks of 32 KiB."""
    from wandb.proto.wandb_internal_pb2 import Record  # type: ignore[attr-defined]

    data, at, whole = file.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if (left := -at % 32768) and left < 7:
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a complete record, or the last part of one
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
    logged = list(records(file))
    (run_record,) = (record.run for record in logged if record.HasField("run"))
    assert (run_record.project, run_record.run_id) == ("gemrl", describe(run)["track"]["id"])
    rows = [record.history.item for record in logged if record.HasField("history")]
    history = [{item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items} for items in rows]
    assert [values["_step"] for values in history] == [100, 200]
    for values, line in zip(history, lines(run), strict=True):
        assert {name: float(value) for name, value in line.items()} == {name: values[name] for name in line}


def test_errors_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(tmp_path / "a", "--track", "wandbb") == 2
    monkeypatch.setitem(sys.modules, "trackio", None)
    assert train(tmp_path / "b", "--track") == 2
    errors = capsys.readouterr().err.splitlines()
    assert "choose from" in errors[0]
    assert errors[1:] == ["gemrl: trackio is not installed: pip install 'gemrl[trackio]'"]
    assert not list(tmp_path.iterdir())  # no run was started


def test_a_run_survives_its_tracker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    trackio = pytest.importorskip("trackio")

    class Disconnected:
        def log(self, values: Any, step: int) -> None:
            raise ConnectionError("connection lost")

    monkeypatch.setattr(trackio, "init", lambda **_: Disconnected())
    monkeypatch.setattr(trackio, "finish", lambda: None)
    assert train(tmp_path / "run", "--track") == 0
    assert capsys.readouterr().err == "gemrl: trackio failed and is no longer used: connection lost\n"
    assert len(lines(tmp_path / "run")) == 2


def test_a_service_rejects_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    wandb = pytest.importorskip("wandb")

    def refuse(**_: Any) -> None:
        raise wandb.errors.UsageError("No API key configured.\nUse `wandb login`.")

    monkeypatch.setattr(wandb, "init", refuse)
    assert train(tmp_path / "run", "--track", "wandb") == 1
    assert "gemrl: wandb did not accept the run: No API key configured. Use `wandb login`.\n" in capsys.readouterr().err


def test_folders_are_numbered_separately_for_each_name(tmp_path: Path) -> None:
    for name in ("gem_1", "gem_big_7", "gem_x", "gem"):
        (tmp_path / name).mkdir()
    assert numbered(tmp_path, "gem", new=True).name == "gem_2"
    assert numbered(tmp_path, "gem", new=False).name == "gem_1"
    assert numbered(tmp_path, "gem_big", new=True).name == "gem_big_8"
    assert numbered(tmp_path / "none", "gem", new=False).name == "gem_1"
