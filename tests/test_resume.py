"""A run that is killed, interrupted or damaged resumes and ends with the same bytes as an uninterrupted one."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import NormalizeObservation, NormalizeReward, TimeLimit

from gemrl.algorithms.registry import RECIPES
from gemrl.cli.main import main
from gemrl.core.files import write_sealed
from gemrl.core.locking import LOCK, exclusive, is_free
from gemrl.core.processes import Interrupts
from gemrl.core.threads import LIBRARIES, set_threads
from gemrl.envs.single import Task
from gemrl.experiments import checkpoints
from gemrl.experiments.loading import load
from gemrl.experiments.run_logs import Recorder, read_evaluations
from gemrl.training.loop import Event
from gemrl.training.models import MODELS
from tests.torture import differences, run_killed, run_uninterrupted

SETTINGS = ["net_arch=(16,)", "learning_starts=100", "buffer_size=300"]
ROUNDS = ["gradient_steps=6", "batch_size=16", "train_freq=50", "target_update_interval=50"]
EVALUATIONS = ["--eval-every", "100", "--eval-episodes", "2"]


def train(
    folder: Path, steps: int, *options: str, env: str = "Pendulum-v1", algo: str = "gem", fields: list[str] = ROUNDS
) -> int:
    settings = ["--set", *SETTINGS, *fields]
    return main(["train", env, "--algo", algo, "--steps", str(steps), "--run", str(folder), *EVALUATIONS, *options, *settings])


def test_three_kills_at_random_moments(tmp_path: Path) -> None:
    """One of them during a write. Parameters, memory and evaluations have the same bytes."""
    arguments = ["Pendulum-v1", "--steps", "1500", "--checkpoint-every", "25", "--eval-every", "500", "--eval-episodes", "1"]
    arguments += ["--set", *SETTINGS, *ROUNDS]
    run_uninterrupted(tmp_path / "uninterrupted", *arguments)
    assert run_killed(tmp_path / "killed", 3, 300, random.Random(0), *arguments) == (3, 1)
    assert differences(tmp_path / "uninterrupted", tmp_path / "killed") == []


FEW = ["gradient_steps=1", "batch_size=4", "train_freq=50", "target_update_interval=150"]
FEWEST = [*FEW, "learning_starts=50", "buffer_size=150"]
KEYS = ["rows_per_action=60", "k=5", "key_size=4", "batch_size=4"]
GAME = ["--sticky", "0.25", "--eval-every", "250", "--eval-episodes", "1", "--env-args", "max_num_frames_per_episode=500"]


@pytest.mark.parametrize(
    ("env", "algo", "options", "fields"),
    [
        ("Pendulum-v1", "gem", [], ROUNDS),
        ("Pendulum-v1", "gem", ["--n-envs", "3"], [*ROUNDS, "normalize_observations=True", "normalize_rewards=True"]),
        (
            "Pendulum-v1",
            "gem2",
            ["--n-envs", "2"],
            [*ROUNDS, "every=60", "features=64", "net_arch=(64,64)", "bfloat16=True", "trial_every=150"],
        ),
        ("Pendulum-v1", "td3-sil", [], ["batch_size=16", "overlap=True"]),
        ("Pendulum-v1", "emac", ["--n-envs", "2"], ["batch_size=16", "every=60", "k=3"]),
        ("Pendulum-v1", "sac", [], ["batch_size=16", "normalize_observations=True", "normalize_rewards=True"]),
        (
            "CartPole-v1",
            "gem",
            [],
            [
                "batch_size=16",
                "train_freq=10",
                "target_update_interval=150",
                "normalize_observations=True",
                "normalize_rewards=True",
            ],
        ),
        ("tests.dots:Dots-v0", "gem", ["--n-envs", "2"], [*ROUNDS, "net_arch=(8,)"]),
        ("tests.dots:Dots-v0", "sac", [], ["batch_size=4", "net_arch=(8,)"]),
        ("CartPole-v1", "ebu", [], [*ROUNDS, "depth=20"]),
        ("FrozenLake-v1", "emdqn", ["--n-envs", "2"], [*ROUNDS, "normalize_rewards=True"]),
        ("CartPole-v1", "nec", ["--n-envs", "2"], [*KEYS, "normalize_observations=True", "depth=20"]),
        ("FrozenLake-v1", "nec", [], [*KEYS, "overlap=True"]),
        ("MinAtar/Breakout-v1", "clipped-ddqn", ["--n-envs", "2"], [*FEW, "overlap=True"]),
        ("ALE/MsPacman-v5", "gem", GAME, FEWEST),
    ],
)
def test_extended_run_equals_one_long_run(tmp_path: Path, env: str, algo: str, options: list[str], fields: list[str]) -> None:
    """When the first part ends, the ring has wrapped, an episode is running and rows are staged on the host."""
    part, steps = (220, 300) if env.startswith("ALE/") else (370, 500)
    assert train(tmp_path / "one", steps, *options, env=env, algo=algo, fields=fields) == 0
    assert train(tmp_path / "two", part, *options, env=env, algo=algo, fields=fields) == 0
    assert main(["resume", str(tmp_path / "two"), "--steps", str(steps)]) == 0
    lines = (tmp_path / "two" / "evaluations.csv").read_text().splitlines()
    assert [line for line in lines if not line.startswith((str(part), "372"))] == (
        (tmp_path / "one" / "evaluations.csv").read_text().splitlines()
    )
    assert set(differences(tmp_path / "one", tmp_path / "two")) == {"evaluations.csv", "checkpoint evaluations.csv"}


@pytest.mark.parametrize(
    ("algo", "options", "fields"),
    [
        ("gem", [], ["replays=2", "learning_starts=50"]),
        ("gem-tabular", ["--n-envs", "3"], ["depth=20"]),
        ("nstep-q", [], ["exploration_steps=200"]),
    ],
)
def test_extended_tabular_run_equals_one_long_run(tmp_path: Path, algo: str, options: list[str], fields: list[str]) -> None:
    """The same for tables. Environment arguments are stored, and a checkpoint with other arguments is refused."""
    common = ["train", "FrozenLake-v1", "--algo", algo, *options, *EVALUATIONS, "--env-args", "is_slippery=False"]
    common += ["--set", "buffer_size=150", *fields]
    assert main([*common, "--steps", "500", "--run", str(tmp_path / "one")]) == 0
    assert main([*common, "--steps", "370", "--run", str(tmp_path / "two")]) == 0
    assert main(["resume", str(tmp_path / "two"), "--steps", "500"]) == 0
    assert set(differences(tmp_path / "one", tmp_path / "two")) == {"evaluations.csv", "checkpoint evaluations.csv"}
    description = json.loads((tmp_path / "two" / "run.json").read_text())
    assert description["env_args"] == {"is_slippery": False}
    (tmp_path / "two" / "run.json").write_text(json.dumps(description | {"env_args": {}}))
    assert main(["resume", str(tmp_path / "two"), "--steps", "600"]) == 2


def test_older_run_keeps_its_columns(tmp_path: Path) -> None:
    """Newer versions may log more metrics, but lines must match the header of the file."""
    recorder = Recorder(tmp_path, RECIPES["dqn"])
    recorder.start()
    facts = recorder.facts()
    recorder.close()
    recorder.resume(facts, {"evaluations.csv": "step\n", "progress.csv": "time/total_timesteps,train/n_updates,old\n"})
    recorder(Event(1000))
    recorder.close()
    assert (tmp_path / "progress.csv").read_text() == "time/total_timesteps,train/n_updates,old\n1000,0,\n"


def progress_steps(folder: Path) -> list[int]:
    lines = (folder / "progress.csv").read_text().splitlines()[1:]
    return [int(line.split(",")[0]) for line in lines]


FAULTY_ENV = """
import gymnasium, os, signal
from gymnasium.envs.classic_control import PendulumEnv
class Interrupted(PendulumEnv):
    steps = 0
    def step(self, action):
        type(self).steps += 1
        if type(self).steps in {at!r} and not os.path.exists({mark!r}):
            open({mark!r}, "w").close()
            {code}
        return super().step(action)
gymnasium.register("Interrupted-v0", Interrupted, max_episode_steps=200)
"""


def write_env(folder: Path, code: str, at: tuple[int, ...] = (330,)) -> dict[str, str]:
    """Writes an environment that runs some code once, at a step of the process; returns variables for its import."""
    folder.mkdir(exist_ok=True)
    text = FAULTY_ENV.format(at=at, mark=str(folder / "mark"), code=code)
    (folder / "interrupted_env.py").write_text(text)
    return {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{Path(__file__).parents[1]}"}


def import_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the environment of a folder importable, even if another test has imported a module with the same name."""
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "interrupted_env", raising=False)


# In tests that a shell started in the background, child processes ignore SIGINT, so the default is restored.
START = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from gemrl.__main__ import script; script()"


def command(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", START, *arguments], capture_output=True, text=True, check=False, env=env)


WORDS = ["interrupted_env:Interrupted-v0", "--steps", "500", *EVALUATIONS, "--set", *SETTINGS, *ROUNDS]
FINAL_ONLY = ["--checkpoint-every", "100", "--eval-every", "1000"]
"""Only the final evaluation, so that every step before it is a training step."""


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A function that trains the run of WORDS and more options without any fault."""

    @cache
    def made(*options: str) -> Path:
        folder = tmp_path_factory.mktemp("uninterrupted")
        assert command("train", *WORDS, *options, "--run", str(folder / "run"), env=write_env(folder, "pass")).returncode == 0
        return folder / "run"

    return made


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_interrupt_writes_a_checkpoint_of_that_step(
    tmp_path: Path,
    uninterrupted: Callable[..., Path],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    env = write_env(
        tmp_path, f"signal.signal(signal.SIGINT, signal.getsignal(signal.SIGINT)); os.kill(os.getpid(), signal.{name})"
    )
    shown = command("train", *WORDS, "--run", str(tmp_path / "run"), env=env)
    assert shown.returncode == 130, shown.stderr
    assert f"continue with: gemrl resume {tmp_path / 'run'}" in shown.stdout
    (folder,) = (tmp_path / "run" / "checkpoints").iterdir()
    assert shown.stdout.count("interrupted at step") == 1
    assert f"interrupted at step {int(folder.name)};" in shown.stdout
    assert load(tmp_path / "run").num_timesteps == int(folder.name)
    import_again(tmp_path, monkeypatch)
    assert main(["train", *WORDS, "--run", str(tmp_path / "run")]) == 2
    assert "contains a run that is not finished; continue it with: gemrl resume" in capsys.readouterr().err
    assert main(["resume", str(tmp_path / "run")]) == 0
    assert differences(tmp_path / "run", uninterrupted()) == []
    assert progress_steps(tmp_path / "run") == progress_steps(uninterrupted()) == [100, 200, 300, 400, 500]


def test_second_interrupt_stops_immediately(
    tmp_path: Path, uninterrupted: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "[os.kill(os.getpid(), signal.SIGINT) for _ in range(2)]; import time; time.sleep(60)"
    env = write_env(tmp_path, code, at=(331,))
    shown = command("train", *WORDS, *FINAL_ONLY, "--run", str(tmp_path / "run"), env=env)
    assert shown.returncode == 130
    assert "stopped immediately" in shown.stderr
    assert {folder.name for folder in (tmp_path / "run" / "checkpoints").iterdir()} == {"000000200", "000000300"}
    import_again(tmp_path, monkeypatch)
    assert main(["resume", str(tmp_path / "run")]) == 0
    assert differences(tmp_path / "run", uninterrupted(*FINAL_ONLY)) == []


BUSY = """
import hashlib, os, sys
from functools import partial
from gemrl.core.processes import Interrupts, end_now
with Interrupts(partial(end_now, "stopped immediately", 130), ends=True):
    if os.fork() == 0:  # like an environment's process: Ctrl-C reaches it too, but counts once
        os.kill(os.getpid(), signal.SIGINT)
        os._exit(0)
    os.wait()
    os.write(2, b"nothing to answer yet\\n")
    print("busy", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 60_000_000)  # compiled code: Python handles no signal until it returns
    print("done", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupts_are_answered_while_compiled_code_runs(number: signal.Signals) -> None:
    code = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n{BUSY}"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stderr
            assert process.stdout.readline() == "busy\n"
            assert process.stderr.readline() == "nothing to answer yet\n"
            process.send_signal(number)
            assert process.stderr.readline() == "gemrl: stopping after this round; again to stop now\n"
            assert process.poll() is None
            process.send_signal(number)
            assert process.stderr.read() == "\ngemrl: stopped immediately\n"
            assert (process.wait(), process.stdout.read()) == (130, "")
        finally:
            process.kill()  # if an assertion failed, it would be waited for


@pytest.mark.usefixtures("no_hang")
def test_interrupts_say_how_long_a_step_may_take(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """The longest of the last steps, without compilation, minus the time that has passed."""
    now = [0.0]
    monkeypatch.setattr("gemrl.core.processes.monotonic", lambda: now[0])
    previous = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with Interrupts(lambda: None) as interrupts:
            for seconds, typical in ((1.0, True), (90.0, False), (20.0, True), (2.0, True)):
                now[0] += seconds
                interrupts.finished_step(typical=typical)
            now[0] += 4.5
            os.kill(os.getpid(), signal.SIGTERM)
            while not (line := capfd.readouterr().err):
                time.sleep(0.01)
        assert interrupts.asked
    finally:
        signal.signal(signal.SIGTERM, previous)
    assert line == "gemrl: stopping after this round, about 16 s; again to stop now\n"


class InterruptedLake(gym.Wrapper[Any, Any, Any, Any]):
    """Interrupts the process in every step."""

    def step(self, action: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return self.env.step(action)


def test_steps_and_stored_rows_agree_just_before_a_round() -> None:
    """Q-learning has a round in every step; the first one is announced by an event of its own."""
    model = MODELS["q-learning"]("FrozenLake-v1", seed=0)
    for event in model.training(4):
        assert event.step == model.num_timesteps == len(model.memory)
    interrupted = MODELS["q-learning"](InterruptedLake(gym.make("FrozenLake-v1")), seed=0)
    with pytest.raises(KeyboardInterrupt):
        interrupted.learn(4)
    assert interrupted.num_timesteps == len(interrupted.memory) == interrupted.agent.learner.updates.sum() == 1


def test_environment_that_hangs_ends_the_process(
    tmp_path: Path, uninterrupted: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    env = write_env(tmp_path, "import time; time.sleep(600)", at=(331,))
    shown = command("train", *WORDS, *FINAL_ONLY, "--env-timeout", "5", "--run", str(tmp_path / "run"), env=env)
    assert shown.returncode == 1
    (line,) = shown.stderr.strip().splitlines()
    assert "the environment did not respond within 5 s at step 331" in line
    import_again(tmp_path, monkeypatch)
    assert main(["resume", str(tmp_path / "run")]) == 0
    assert differences(tmp_path / "run", uninterrupted(*FINAL_ONLY)) == []


@pytest.mark.parametrize(("ending", "step"), [("removed", 330), ("replaced", 330), ("replaced", 1)])
def test_removed_run_folder_is_reported_and_not_made_again(
    tmp_path: Path, ending: str, step: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the next checkpoint, or where the run fails. In its place may be the folder of another run, which is left alone."""
    run, other = tmp_path / "run", tmp_path / "other"
    other.mkdir()
    before = dict.fromkeys(("run.json", LOCK, "evaluations.csv", "progress.csv"), "of another run")
    for name, text in before.items():
        (other / name).write_text(text)
    fault = "; raise OSError" if step == 1 else ""
    replace = f"; os.rename({str(other)!r}, {str(run)!r})" if ending == "replaced" else ""
    write_env(tmp_path, f"import shutil; shutil.rmtree({str(run)!r}){replace}{fault}", at=(step,))
    import_again(tmp_path, monkeypatch)
    assert main(["train", *WORDS, *FINAL_ONLY, "--run", str(run)]) == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert f"{run} was removed, moved or replaced during the run, which stops at step {400 if step > 1 else 0}" in line
    assert "kept" not in line
    left = {file.name: file.read_text() for file in run.iterdir()} if run.exists() else None
    assert left == (None if ending == "removed" else before)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise OSError('the cable is loose')", "the environment raised OSError at step 331: the cable is loose"),
        ("return 'nothing', 0.0, False, False, {}", "the environment returned an observation that is not an array at step 331"),
        ("return self._get_obs(), None, False, False, {}", "the environment returned the reward None, which is not a number"),
    ],
)
def test_run_resumes_after_a_fault_of_the_environment(
    tmp_path: Path,
    uninterrupted: Callable[..., Path],
    code: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_env(tmp_path, code, at=(331,))
    import_again(tmp_path, monkeypatch)
    assert main(["train", *WORDS, *FINAL_ONLY, "--run", str(tmp_path / "run")]) == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert message in line
    assert main(["resume", str(tmp_path / "run")]) == 0
    assert differences(tmp_path / "run", uninterrupted(*FINAL_ONLY)) == []


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 400 steps, with checkpoints at 300 and 400, which tests extend to 500."""
    folder = tmp_path_factory.mktemp("half") / "run"
    assert train(folder, 400, "--checkpoint-every", "300") == 0
    return folder


@pytest.fixture(scope="module")
def whole(half: Path) -> Path:
    """The same run, extended to 500 steps."""
    folder = half.with_name("whole")
    shutil.copytree(half, folder)
    assert main(["resume", str(folder), "--steps", "500"]) == 0
    return folder


def test_resume_of_a_finished_run(half: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resume", str(half)]) == 0
    assert "is finished: 400 steps" in capsys.readouterr().out
    assert main(["resume", str(half), "--steps", "300"]) == 2
    assert "already has 400 steps; --steps must not be smaller" in capsys.readouterr().err


def test_run_without_a_checkpoint_starts_again(half: Path, tmp_path: Path) -> None:
    shutil.copytree(half, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    (tmp_path / "run" / "model.json").unlink()
    (tmp_path / "run" / "evaluations.csv").write_text("half a li")
    assert main(["resume", str(tmp_path / "run")]) == 0
    assert differences(half, tmp_path / "run") == []


@pytest.mark.parametrize("name", ["state.json", "model.json", "model.safetensors", "model.memory.safetensors", "evaluations.csv"])
@pytest.mark.parametrize("how", ["truncated", "altered", "removed"])
def test_damaged_checkpoint_is_reported_and_the_previous_one_used(
    half: Path, whole: Path, tmp_path: Path, name: str, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(half, tmp_path / "run")
    file = tmp_path / "run" / "checkpoints" / "000000400" / name
    data = file.read_bytes()
    middle = len(data) // 2
    match how:
        case "truncated":
            file.write_bytes(data[:middle])
        case "altered":
            file.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
        case "removed":
            file.unlink()
    assert main(["resume", str(tmp_path / "run"), "--steps", "500"]) == 0
    shown = capsys.readouterr().out
    assert f"checkpoints/000000400/{name}" in shown
    assert "trying the previous checkpoint" in shown
    assert "resumed at step 300" in shown
    kept = sorted(folder.name for folder in (tmp_path / "run" / "checkpoints").iterdir())
    assert kept == ["000000300", "000000500", "damaged-000000400"]  # two complete ones
    assert differences(whole, tmp_path / "run") == []


def test_damaged_log_is_restored_from_the_checkpoint(half: Path, whole: Path, tmp_path: Path) -> None:
    shutil.copytree(half, tmp_path / "run")
    for name in ("progress.csv", "evaluations.csv"):
        (tmp_path / "run" / name).write_bytes(b"\xff\x00\n\xfe\n")
    assert main(["resume", str(tmp_path / "run"), "--steps", "500"]) == 0
    assert differences(whole, tmp_path / "run") == []


def test_all_checkpoints_damaged(half: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(half, tmp_path / "run")
    for folder in (tmp_path / "run" / "checkpoints").iterdir():
        (folder / "state.json").write_text("{}")
    assert main(["resume", str(tmp_path / "run"), "--steps", "500"]) == 1
    assert "no checkpoint of" in capsys.readouterr().err
    assert main(["resume", str(tmp_path / "run")]) == 0
    assert "is finished: 400 steps" in capsys.readouterr().out


def test_finished_run_without_checkpoints_is_not_restarted(
    half: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(half, tmp_path / "run")
    for folder in (tmp_path / "run" / "checkpoints").iterdir():
        folder.rename(folder.with_name(f"damaged-{folder.name}"))
    assert main(["resume", str(tmp_path / "run"), "--steps", "500"]) == 2
    assert "has no checkpoint" in capsys.readouterr().err
    for name in ("evaluations.csv", "run.json", "model.json", "model.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (half / name).read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, "a checkpoint of another run"),
        ({"env": "MountainCarContinuous-v0"}, "observation_space"),
        ({"algo": "td3"}, "unknown field 'alpha'|another run"),
        ({"versions": {"jax": "0.1"}}, "was started with .*jax 0.1 .*--other-versions"),
        ({"steps": "many"}, "run.json is damaged: steps must be a whole number"),
        ({"recipe": {"gamma": "__import__('os').abort()"}}, "not a Python literal"),
    ],
)
def test_checkpoint_of_another_run_is_refused(
    half: Path, tmp_path: Path, change: dict[str, Any], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(half, tmp_path / "run")
    description = json.loads((half / "run.json").read_text()) | {"steps": 500} | change
    (tmp_path / "run" / "run.json").write_text(json.dumps(description))
    assert main(["resume", str(tmp_path / "run")]) == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert re.search(message, shown), shown


def test_newer_file_format_is_refused(half: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(half, tmp_path / "run")
    for folder in (tmp_path / "run" / "checkpoints").iterdir():
        write_sealed(folder / "state.json", {"format": 99, "sha256": {}, "facts": {}})
    assert main(["resume", str(tmp_path / "run"), "--steps", "500"]) == 1
    assert "has format 99; this version of gemrl reads format 1" in capsys.readouterr().out


def test_one_process_per_run_folder(half: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with exclusive(half):
        assert main(["resume", str(half), "--steps", "500"]) == 2
    assert f"another process is using {half}" in capsys.readouterr().err


def test_temporary_files_of_a_killed_process_are_removed(half: Path, tmp_path: Path) -> None:
    shutil.copytree(half, tmp_path / "run")
    (tmp_path / "run" / "checkpoints" / ".writing-abc").mkdir()
    (tmp_path / "run" / "checkpoints" / ".writing-abc" / "model.json").write_text("")
    (tmp_path / "run" / ".writing-model.json-xyz").write_text("")
    assert main(["resume", str(tmp_path / "run"), "--steps", "420"]) == 0
    assert not list((tmp_path / "run").rglob(".writing-*"))


def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The third checkpoint does not fit: one line and exit code 1. The run resumes from the second one to the same bytes."""
    import errno

    real, calls = os.fsync, [0]

    def full(handle: int) -> None:
        calls[0] += 1
        if calls[0] > 20:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert train(tmp_path / "run", 400, "--checkpoint-every", "50") == 1
    shown = capsys.readouterr().err
    assert shown == f"gemrl: cannot write to {tmp_path / 'run'}: No space left on device; its last checkpoint is kept\n"
    assert not list((tmp_path / "run").rglob(".writing-*"))
    assert main(["resume", str(tmp_path / "run")]) == 0
    assert train(tmp_path / "uninterrupted", 400, "--checkpoint-every", "50") == 0
    assert differences(tmp_path / "run", tmp_path / "uninterrupted") == []


def test_run_with_a_checkpoint_can_be_resumed_after_an_early_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_env(tmp_path, "raise OSError('the cable is loose')", at=(2,))
    import_again(tmp_path, monkeypatch)
    arguments = [*WORDS, *FINAL_ONLY, "--steps", "20", "--checkpoint-every", "1"]
    assert main(["train", *arguments, "--run", str(tmp_path / "run")]) == 1
    assert [folder.name for folder in (tmp_path / "run" / "checkpoints").iterdir()] == ["000000001"]
    assert main(["resume", str(tmp_path / "run")]) == 0
    assert read_evaluations(tmp_path / "run")["step"].tolist() == [20]


class Counted(gym.Env):
    """Counts the open instances."""

    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Box(-1, 1, (1,))
    open: ClassVar[int] = 0

    def __init__(self, fails_at: int = 10**9) -> None:
        type(self).open += 1
        self.steps, self.fails_at, self.closed = 0, fails_at, False

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        return np.zeros(1, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        if self.steps == self.fails_at:
            raise OSError("the cable is loose")
        return np.zeros(1, np.float32), 0.0, False, False, {}

    def close(self) -> None:
        type(self).open -= not self.closed
        self.closed = True


@pytest.mark.parametrize(("options", "code"), [([], 0), (["--n-envs", "2"], 0), (["--env-args", "fails_at=30"], 1)])
def test_every_environment_is_closed(tmp_path: Path, options: list[str], code: int) -> None:
    gym.register("Counted-v0", "tests.test_resume:Counted", max_episode_steps=20)
    assert train(tmp_path / "run", 60, *options, env="Counted-v0") == code
    assert Counted.open == 0
    if code == 0:
        assert main(["evaluate", str(tmp_path / "run"), "--episodes", "2"]) == 0
        assert Counted.open == 0


HELD_BY_A_CHILD = """
import os, sys, time
from pathlib import Path
from gemrl.core.locking import exclusive
reading, writing = os.pipe()
with exclusive(Path(sys.argv[1])):
    if os.fork() == 0:
        os.write(writing, b"done")
        time.sleep(10)
        os._exit(0)
    os.read(reading, 4)
    os._exit(0)
"""


def test_child_process_does_not_keep_the_lock(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", HELD_BY_A_CHILD, str(tmp_path)], check=True)
    assert is_free(tmp_path)


def limited(code: str, seconds: float) -> subprocess.Popen[bytes]:
    """A process that runs some code as a call of an environment, with a time limit."""
    text = "import os, sys, time\nfrom gemrl.core.processes import env_call, limit_env_calls\n"
    text += f"limit_env_calls({seconds})\nwith env_call('step 1'):\n    print('started', flush=True)\n    {code}\n"
    process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    return process


def test_suspended_process_does_not_time_out() -> None:
    process = limited("time.sleep(2.5)", 3.0)
    process.send_signal(signal.SIGSTOP)
    time.sleep(4)
    process.send_signal(signal.SIGCONT)
    assert process.wait(60) == 0


def test_timeout_ends_the_process_with_closed_stderr() -> None:
    process = limited("time.sleep(60)", 1.0)
    assert process.stderr
    process.stderr.close()
    assert process.wait(30) == 1


class Unseeded(gym.Env):
    """An environment that ignores its seed."""

    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Box(-1, 1, (1,))
    rng = np.random.default_rng(0)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        return self.rng.uniform(-1, 1, 1).astype(np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return self.rng.uniform(-1, 1, 1).astype(np.float32), 0.0, False, False, {}


def test_environment_that_is_not_reproducible(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gym.register("Unseeded-v0", "tests.test_resume:Unseeded", max_episode_steps=70)
    assert train(tmp_path / "run", 240, env="Unseeded-v0") == 0
    assert main(["resume", str(tmp_path / "run"), "--steps", "300"]) == 0
    assert capsys.readouterr().out.count("did not reproduce its episode") == 1
    newest = max((tmp_path / "run" / "checkpoints").iterdir())
    last = np.flatnonzero(load(newest / "model").memory.lane()["last"])
    assert last.tolist() == [69, 139, 209, 239]  # the abandoned episode ends at 239; the new one starts at 240
    assert read_evaluations(tmp_path / "run")["step"].tolist() == [100, 200, 240, 300]


TASKS = ("HalfCheetah-v5", "Ant-v5", "Swimmer-v5", "Humanoid-v5", "Walker2d-v5", "Hopper-v5", "Pendulum-v1")

REPLAY = """
import sys
from pathlib import Path
from gemrl.envs.making import make
from gemrl.envs.single import Task
from tests.test_resume import TASKS, next_steps, read_task
for name in TASKS:
    task = Task(make(name), 3)
    observation = task.replay(read_task(Path(sys.argv[1]) / name))
    assert observation is not None, name
    print(next_steps(task, observation))
"""


def read_task(path: Path) -> Any:
    from gemrl.core.files import digest_of, read_arrays, read_json
    from gemrl.core.snapshot import Snapshot

    file = path.with_suffix(".safetensors")
    return Snapshot(read_json(path.with_suffix(".json")), read_arrays(file, digest_of(file)))


def next_steps(task: Task, observation: np.ndarray) -> str:
    """Rewards and observations of the next 30 steps, as hexadecimal text."""
    rng, seen = np.random.default_rng(1), []
    for _ in range(30):
        step = task.step(observation, rng.uniform(-1, 1, (1, task.spaces.layout.action)).astype(np.float32))
        observation = step.observation
        seen.append((step.transition.reward.tobytes().hex(), observation.tobytes().hex()))
    return repr(seen)


def test_episodes_are_replayed_in_a_new_process(tmp_path: Path) -> None:
    """All six MuJoCo tasks of the paper continue from the middle of an episode with the same bits."""
    from gemrl.core.files import replacing, write_arrays, write_json
    from gemrl.envs.making import make

    expected = []
    for name in TASKS:
        task, rng = Task(make(name), 3), np.random.default_rng(0)
        observation = task.reset()
        for _ in range(150):
            observation = task.step(
                observation, rng.uniform(-1, 1, (1, task.spaces.layout.action)).astype(np.float32)
            ).observation
        saved = task.snapshot()
        write_json(tmp_path / f"{name}.json", saved.facts)
        with replacing(tmp_path / f"{name}.safetensors") as (file,):
            write_arrays(file, saved.arrays)
        expected.append(next_steps(task, observation))
    shown = subprocess.run([sys.executable, "-c", REPLAY, str(tmp_path)], capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines() == expected


def test_state_of_wrappers_is_restored() -> None:
    def made() -> Task:
        return Task(NormalizeReward(NormalizeObservation(TimeLimit(gym.make("Pendulum-v1").unwrapped, 20))), 0)

    task, rng = made(), np.random.default_rng(0)
    observation = task.reset()
    for _ in range(50):
        observation = task.step(observation, rng.uniform(-1, 1, (1, 1)).astype(np.float32)).observation
    saved, other = task.snapshot(), made()
    again = other.replay(saved)
    assert again is not None
    np.testing.assert_array_equal(again, observation)
    assert next_steps(other, again) == next_steps(task, observation)
    saved, third = task.snapshot(), made()
    third.restore(saved)  # the state is kept when a new episode starts
    np.testing.assert_array_equal(third.reset(), task.reset())
    counts = [each.env.get_wrapper_attr("obs_rms").count for each in (third, task)]
    assert counts[0] == counts[1] > 50


def test_checkpoints_take_a_small_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """About one per minute, and fewer if writing is slow, so that it never takes 5% of the time."""
    now = [0.0]
    monkeypatch.setattr(checkpoints, "monotonic", lambda: now[0])

    def simulated(cost: float) -> tuple[int, float]:
        now[0], spent, written = 0.0, 0.0, 0
        clock = checkpoints.Clock(None, 0)
        for step in range(1, 36_001):
            now[0] += 0.1
            if clock.due(step):
                start = now[0]
                clock.measure(lambda: now.__setitem__(0, now[0] + cost), step)
                spent, written = spent + now[0] - start, written + 1
        return written, spent / now[0]

    assert simulated(0.01)[0] in (59, 60)
    for cost in (0.5, 10.0, 60.0):
        assert simulated(cost)[1] < 0.05


def test_resumed_run_keeps_threads_and_compiler_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both affect rounding."""
    (tmp_path / "run.json").write_text(json.dumps({"threads": 3, "xla_flags": "--xla_backend_optimization_level=0"}))
    for name in (*LIBRARIES, "XLA_FLAGS"):
        monkeypatch.setenv(name, "1")
    set_threads(["resume", str(tmp_path), "--steps", "10"])
    assert [os.environ[name] for name in (*LIBRARIES, "XLA_FLAGS")] == ["3", "3", "3", "--xla_backend_optimization_level=0 1"]
    set_threads(["train", "Pendulum-v1", "--threads", "2"])
    assert [os.environ[name] for name in LIBRARIES] == ["2", "2", "2"]
    set_threads(["train", "Pendulum-v1", "--threads", "1000000"])  # refused later; numpy could not even start with so many
    set_threads(["train", "Pendulum-v1", "--threads", "9" * 5000])
    set_threads([])  # `gemrl` alone
    assert [os.environ[name] for name in LIBRARIES] == ["2", "2", "2"]


def test_option_other_versions(half: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(half, tmp_path / "run")
    description = json.loads((half / "run.json").read_text()) | {
        "steps": 420,
        "versions": {"jax": "0.1", "source": "0123456789ab"},
    }
    (tmp_path / "run" / "run.json").write_text(json.dumps(description))
    assert main(["resume", str(tmp_path / "run")]) == 2
    assert "code has changed" not in capsys.readouterr().out
    assert main(["resume", str(tmp_path / "run"), "--other-versions"]) == 0
    assert "code has changed since this run was started (source 0123456789ab)" in capsys.readouterr().out
    assert read_evaluations(tmp_path / "run")["step"][-1] == 420


def test_env_timeout_is_stored(half: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []
    monkeypatch.setattr("gemrl.experiments.run.limit_env_calls", limits.append)
    shutil.copytree(half, tmp_path / "run")
    description = json.loads((half / "run.json").read_text())
    assert description["env_timeout"] == 600
    for steps, stored, options in ((410, 3600, []), (420, None, []), (430, 3600, ["--env-timeout", "5"])):
        kept = {name: value for name, value in description.items() if name != "env_timeout"} | {"steps": steps - 10}
        (tmp_path / "run" / "run.json").write_text(json.dumps(kept | ({"env_timeout": stored} if stored else {})))
        assert main(["resume", str(tmp_path / "run"), "--steps", str(steps), *options]) == 0
    assert limits == [3600, 600, 5]
