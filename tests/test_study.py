"""`gemrl study`: every run is trained exactly once, whatever is killed, with the same bytes as without interruptions."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gemrl.cli.main import main
from gemrl.core.exceptions import RunFolderError
from gemrl.core.locking import exclusive
from gemrl.experiments.run_folder import describe
from gemrl.experiments.run_logs import read_evaluations
from gemrl.experiments.studies.folder import Keep, planned, write_study
from gemrl.experiments.studies.toml_file import read_study
from tests.torture import COMPARED_FILES

OWN = """
algos = ["gem", "td3"]
envs = ["Pendulum-v1"]
seeds = 1
steps = 1200
eval_every = 500
eval_episodes = 1
settings = ["net_arch=(16,)", "learning_starts=200", "batch_size=16", "buffer_size=1000"]
"""
SUBFOLDERS = ("gem/Pendulum-v1/0", "td3/Pendulum-v1/0")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("study") / "own.toml"
    file.write_text(OWN)
    return file


@pytest.fixture(scope="module")
def uninterrupted(own: Path) -> Path:
    assert main(["study", str(own), "--out", str(own.parent / "uninterrupted"), "--workers", "2"]) == 0
    return own.parent / "uninterrupted"


def copied(folder: Path, to: Path) -> Path:
    shutil.copytree(folder, to)
    return to


def times(out: Path) -> dict[Path, int]:
    """The modification time of every file except study.json."""
    return {
        file.relative_to(out): file.stat().st_mtime_ns for file in out.rglob("*") if file.is_file() and file.name != "study.json"
    }


def test_runs_are_those_of_gemrl_train(uninterrupted: Path, tmp_path: Path) -> None:
    models = {"model.safetensors", "model.json", "best.safetensors", "best.json"}
    names = {"run.json", "evaluations.csv", "progress.csv", "learning_curve.png", *models}
    for subfolder in SUBFOLDERS:
        assert names_in(uninterrupted / subfolder) == names
    assert names_in(uninterrupted) == {"gem", "td3", "study.json"}
    content = json.loads((uninterrupted / "study.json").read_text())
    assert (content["envs"], content["seeds"], content["steps"]) == (["Pendulum-v1"], [0], 1200)
    run = describe(uninterrupted / SUBFOLDERS[1])
    assert content["recipes"]["td3"]["Pendulum-v1"] == run["recipe"]
    assert run["threads"] == 1
    settings = "net_arch=(16,)", "learning_starts=200", "batch_size=16", "buffer_size=1000"
    arguments = ["train", "Pendulum-v1", "--algo", "td3", "--steps", "1200", "--eval-every", "500", "--eval-episodes", "1"]
    arguments += ["--threads", "1", "--run", str(tmp_path / "run"), "--set", *settings]
    subprocess.run([sys.executable, "-m", "gemrl", *arguments], check=True, capture_output=True)
    assert same_runs(uninterrupted / SUBFOLDERS[1], tmp_path / "run")


def names_in(folder: Path) -> set[str]:
    """The files and folders that are not hidden."""
    return {file.name for file in folder.iterdir() if not file.name.startswith(".")}


def same_runs(one: Path, other: Path) -> bool:
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in COMPARED_FILES)


def test_finished_runs_are_not_touched(own: Path, uninterrupted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = times(uninterrupted)
    assert main(["study", str(own), "--out", str(uninterrupted)]) == 0
    shown = capsys.readouterr().out
    assert "2 done, 0 unfinished, 0 not started" in shown
    assert "starting" not in shown
    assert times(uninterrupted) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--steps", "600"], "steps is 1,200 there but 600 here"),
        (["--eval-every", "700"], "eval_every is 500 there but 700 here"),
        (["--set", "tau=0.5"], "tau is 0.6 there but 0.5 here"),
    ],
)
def test_different_run_in_the_folder_is_refused(
    own: Path, uninterrupted: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = times(uninterrupted)
    assert main(["study", str(own), "--out", str(uninterrupted), *options]) == 2
    assert f"{uninterrupted / SUBFOLDERS[0]} contains a different run: {message}" in capsys.readouterr().err
    assert times(uninterrupted) == before


def test_results_without_models_count_as_finished(
    own: Path, uninterrupted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = copied(uninterrupted, tmp_path / "out")
    assert main(["study", str(own), "--out", str(out), "--results-only"]) == 0
    for subfolder in SUBFOLDERS:
        assert names_in(out / subfolder) == {"run.json", "evaluations.csv", "progress.csv", "finished.json"}
    before = times(out)
    for options in ([], ["--results-only"]):
        assert main(["study", str(own), "--out", str(out), *options]) == 0
    assert main(["resume", str(out / SUBFOLDERS[0])]) == 0
    assert "is finished" in capsys.readouterr().out
    assert main(["resume", str(out / SUBFOLDERS[0]), "--steps", "5000"]) == 2
    assert "has no checkpoint" in capsys.readouterr().err
    assert times(out) == before
    with (out / SUBFOLDERS[0] / "evaluations.csv").open("a") as file:
        file.write("9999,1,1,1,1\n")
    assert main(["study", str(own), "--out", str(out)]) == 1
    assert "evaluations.csv is damaged" in capsys.readouterr().err


def test_kept_files_are_remembered(own: Path, tmp_path: Path) -> None:
    """A later start without the option keeps what an earlier one asked for."""
    chosen = read_study(own)
    plans = planned(chosen, tmp_path)
    for requested, kept in (
        (None, Keep.MODELS),
        (Keep.ALL, Keep.ALL),
        (None, Keep.ALL),
        (Keep.RESULTS, Keep.RESULTS),
        (None, Keep.RESULTS),
    ):
        assert write_study(chosen, plans, tmp_path, requested) is kept


def test_folder_in_use_is_refused(own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with exclusive(tmp_path):
        assert main(["study", str(own), "--out", str(tmp_path)]) == 2
    assert "another process is using" in capsys.readouterr().err


def test_note_if_the_code_has_changed(own: Path, uninterrupted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = copied(uninterrupted, tmp_path / "out")
    file = next(out.glob("gem/*/0/run.json"))
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | {"versions": content["versions"] | {"source": "0123456789ab"}}))
    assert main(["study", str(own), "--out", str(out), "--dry-run"]) == 0
    assert "code has changed since 1 of these runs started" in capsys.readouterr().out


def test_adding_seeds_and_recipes(own: Path, uninterrupted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = copied(uninterrupted, tmp_path / "out")
    assert main(["study", str(own), "--out", str(out), "--algo", "gem", "--seeds", "2", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "1 done, 0 unfinished, 1 not started" in shown
    assert "code has changed" not in shown
    assert json.loads((out / "study.json").read_text())["seeds"] == [0]  # a dry run writes nothing
    more = read_study(own).scaled(algos=("gem", "sac"), seeds=2)
    write_study(more, planned(more, out), out)
    content = json.loads((out / "study.json").read_text())
    assert (list(content["algos"]), content["seeds"], list(content["recipes"])) == (
        ["gem", "td3", "sac"],
        [0, 1],
        ["gem", "td3", "sac"],
    )
    other = read_study(own).scaled(envs=("MountainCarContinuous-v0",), steps=99)
    with pytest.raises(RunFolderError, match="contains a different study: steps is 1,200 there but 99 here"):
        write_study(other, planned(other, out), out)
    (out / "study.json").write_text("{")
    assert main(["study", str(own), "--out", str(out)]) == 2
    assert "study.json is damaged" in capsys.readouterr().err


FAULTY = """
import gymnasium
from gymnasium.envs.classic_control import PendulumEnv
class Faulty(PendulumEnv):
    steps = 0
    def step(self, action):
        type(self).steps += 1
        if type(self).steps == 120:
            raise RuntimeError("the motor is hot")
        return super().step(action)
gymnasium.register("Faulty-v0", Faulty, max_episode_steps=100)
"""


def test_failed_run_is_tried_again_and_reported_while_others_continue(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "faulty.py").write_text(FAULTY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    options = ["--env", "faulty:Faulty-v0", "Pendulum-v1", "--algo", "td3", "--steps", "150", "--workers", "1"]
    assert main(["study", str(own), "--out", str(tmp_path / "out"), *options]) == 1
    shown = capsys.readouterr().out
    reason = "the environment raised RuntimeError at .*: the motor is hot"
    assert len(re.findall(rf"Faulty-v0, seed 0: failed and will be tried once more: {reason}", shown)) == 1
    assert len(re.findall(rf"\nfailed: td3 on faulty:Faulty-v0, seed 0: {reason}", shown)) == 1
    assert "1 of 2 runs done, 1 failed" in shown
    assert "the motor is hot" in (tmp_path / "out" / "logs" / "td3-faulty-Faulty-v0-0.txt").read_text()
    assert read_evaluations(tmp_path / "out" / "td3" / "Pendulum-v1" / "0")["step"].tolist() == [150]


class StudyProcess:
    """A study in a separate process, whose output goes to a file."""

    def __init__(self, own: Path, out: Path, log: Path) -> None:
        self.out, self._log = out, log
        code = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        code += "from gemrl.cli.main import main; sys.exit(main(sys.argv[1:]))"
        arguments = ["study", str(own), "--out", str(out), "--workers", "2", "--checkpoint-every", "100", "--keep-checkpoints"]
        with log.open("a") as file:
            self.process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=file, stderr=file, env=os.environ)

    @property
    def output(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    @property
    def workers(self) -> list[int]:
        """The process ids of its runs."""
        try:
            return [int(pid) for pid in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()]
        except OSError:
            return []

    def steps(self) -> int:
        """The sum of the steps of all checkpoints."""
        names = [int(folder.name) for folder in self.out.glob("*/*/*/checkpoints/[0-9]*")]
        return sum(names)

    def wait_for_progress(self) -> None:
        """Waits until a run has a new checkpoint, or the study ends."""
        start, deadline = self.steps(), time.monotonic() + 240
        while self.steps() == start and self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)

    def kill_a_worker(self, rng: random.Random) -> None:
        """Kills workers until the study reports one as killed (not if it was just finishing), or the study ends."""
        before, deadline = self.output.count(KILLED), time.monotonic() + 240
        while self.output.count(KILLED) == before and self.process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(ProcessLookupError, IndexError):
                os.kill(rng.choice(self.workers), signal.SIGKILL)
            noticed = time.monotonic() + 3
            while self.output.count(KILLED) == before and time.monotonic() < noticed:
                time.sleep(0.05)


KILLED = "was killed; it will be resumed from its last checkpoint"


def test_kills_at_random_moments(own: Path, uninterrupted: Path, tmp_path: Path) -> None:
    """The study and its workers are killed. In the end every run exists once and equals an uninterrupted one."""
    rng, log = random.Random(0), tmp_path / "log.txt"
    for ending in ("interrupted", "killed", "finished"):
        study = StudyProcess(own, tmp_path / "out", log)
        for _ in range(2 if ending == "killed" else 1):
            study.wait_for_progress()
            time.sleep(rng.uniform(0, 0.3))
            study.kill_a_worker(rng)
        if ending == "finished":
            break
        study.wait_for_progress()
        workers = study.workers
        study.process.send_signal(signal.SIGINT if ending == "interrupted" else signal.SIGKILL)
        assert study.process.wait(240) == (130 if ending == "interrupted" else -signal.SIGKILL), study.output
        if ending == "interrupted":
            assert "the same command continues" in study.output
            assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
        else:
            deadline = time.monotonic() + 120
            while any(Path(f"/proc/{pid}").exists() for pid in workers):
                assert time.monotonic() < deadline, "a worker outlived its study"
                time.sleep(0.1)
    assert study.process.wait(600) == 0, study.output
    assert study.output.count(KILLED) >= 2
    for subfolder in SUBFOLDERS:
        assert same_runs(uninterrupted / subfolder, tmp_path / "out" / subfolder)
        # No run is done twice. One that ends in the moment in which its study is killed is told by nobody.
        assert study.output.count(f"{subfolder.split('/')[0]} on Pendulum-v1, seed 0: done") <= 1
        steps = [line.split(",")[0] for line in (tmp_path / "out" / subfolder / "progress.csv").read_text().splitlines()[1:]]
        assert len(set(steps)) == len(steps)
    assert {str(file.parent.relative_to(tmp_path / "out")) for file in tmp_path.rglob("run.json")} == set(SUBFOLDERS)
