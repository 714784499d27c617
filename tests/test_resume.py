"""A run that is killed, interrupted or damaged goes on to the same bits as one that never stopped."""

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
from gemrl.core.locking import exclusive, is_free
from gemrl.core.threads import LIBRARIES, set_threads
from gemrl.envs.single import Task
from gemrl.experiments import checkpoints
from gemrl.experiments.loading import load
from gemrl.experiments.run_logs import Recorder, read_evaluations
from gemrl.training.loop import Event
from tests.torture import differences, run_killed, run_undisturbed

SETTINGS = ["net_arch=(16,)", "learning_starts=100", "buffer_size=300"]
ROUNDS = ["gradient_steps=6", "batch_size=16", "train_freq=50", "target_update_interval=50"]
EVALUATIONS = ["--eval-every", "100", "--eval-episodes", "2"]


def train(folder: Path, steps: int, *words: str, env: str = "Pendulum-v1", algo: str = "gem", fields: list[str] = ROUNDS) -> int:
    settings = ["--set", *SETTINGS, *fields]
    return main(["train", env, "--algo", algo, "--steps", str(steps), "--run", str(folder), *EVALUATIONS, *words, *settings])


def test_three_kills_at_random_moments(tmp_path: Path) -> None:
    """One of them during a write; parameters, memory and evaluations come out byte for byte."""
    words = ["Pendulum-v1", "--steps", "1500", "--checkpoint-every", "25", "--eval-every", "500", "--eval-episodes", "1"]
    words += ["--set", *SETTINGS, *ROUNDS]
    run_undisturbed(tmp_path / "undisturbed", *words)
    assert run_killed(tmp_path / "killed", 3, 300, random.Random(0), *words) == (3, 1)
    assert differences(tmp_path / "undisturbed", tmp_path / "killed") == []


FEW = ["gradient_steps=1", "batch_size=4", "train_freq=50", "target_update_interval=150"]
GAME = ["--sticky", "0.25", "--eval-every", "250", "--eval-episodes", "1", "--env-args", "max_num_frames_per_episode=1000"]


@pytest.mark.parametrize(
    ("env", "algo", "words", "fields"),
    [
        ("Pendulum-v1", "gem", [], ROUNDS),
        ("Pendulum-v1", "gem", ["--n-envs", "3"], [*ROUNDS, "normalize_observations=True"]),
        ("Pendulum-v1", "td3-sil", [], ["batch_size=16"]),
        ("Pendulum-v1", "sac", [], ["batch_size=16", "normalize_observations=True"]),
        ("CartPole-v1", "gem", [], ["batch_size=16", "train_freq=10", "target_update_interval=150"]),
        ("MinAtar/Breakout-v1", "clipped-ddqn", ["--n-envs", "2"], FEW),
        ("ALE/MsPacman-v5", "gem", GAME, FEW),
    ],
)
def test_two_sittings_are_as_good_as_one(tmp_path: Path, env: str, algo: str, words: list[str], fields: list[str]) -> None:
    """The ring has wrapped, the episode is running and rows wait on the host when the first sitting ends."""
    assert train(tmp_path / "one", 500, *words, env=env, algo=algo, fields=fields) == 0
    assert train(tmp_path / "two", 370, *words, env=env, algo=algo, fields=fields) == 0
    assert main(["resume", str(tmp_path / "two"), "--steps", "500"]) == 0
    lines = (tmp_path / "two" / "evaluations.csv").read_text().splitlines()
    assert [line for line in lines if not line.startswith(("370", "372"))] == (
        (tmp_path / "one" / "evaluations.csv").read_text().splitlines()
    )
    assert set(differences(tmp_path / "one", tmp_path / "two")) == {"evaluations.csv", "checkpoint evaluations.csv"}


@pytest.mark.parametrize(
    ("algo", "words", "fields"),
    [
        ("gem", [], ["replays=2", "learning_starts=50"]),
        ("gem-tabular", ["--n-envs", "3"], ["depth=20"]),
        ("nstep-q", [], ["exploration_steps=200"]),
    ],
)
def test_tables_go_on_to_the_same_bytes(tmp_path: Path, algo: str, words: list[str], fields: list[str]) -> None:
    """The same for tables, on a lake whose arguments are kept; a checkpoint of another lake is refused."""
    common = ["train", "FrozenLake-v1", "--algo", algo, *words, *EVALUATIONS, "--env-args", "is_slippery=False"]
    common += ["--set", "buffer_size=150", *fields]
    assert main([*common, "--steps", "500", "--run", str(tmp_path / "one")]) == 0
    assert main([*common, "--steps", "370", "--run", str(tmp_path / "two")]) == 0
    assert main(["resume", str(tmp_path / "two"), "--steps", "500"]) == 0
    assert set(differences(tmp_path / "one", tmp_path / "two")) == {"evaluations.csv", "checkpoint evaluations.csv"}
    description = json.loads((tmp_path / "two" / "run.json").read_text())
    assert description["env_args"] == {"is_slippery": False}
    (tmp_path / "two" / "run.json").write_text(json.dumps(description | {"env_args": {}}))
    assert main(["resume", str(tmp_path / "two"), "--steps", "600"]) == 2


def test_a_run_of_old_keeps_its_columns(tmp_path: Path) -> None:
    """Newer versions may log more: lines of a file must not have more than its head."""
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


INTERRUPTED = """
import gymnasium, os, signal
from gymnasium.envs.classic_control import PendulumEnv
class Interrupted(PendulumEnv):
    steps = 0
    def step(self, action):
        type(self).steps += 1
        if type(self).steps in {at!r} and not os.path.exists({mark!r}):
            open({mark!r}, "w").close()
            {deed}
        return super().step(action)
gymnasium.register("Interrupted-v0", Interrupted, max_episode_steps=200)
"""


def with_deed(folder: Path, deed: str, at: tuple[int, ...] = (330,)) -> dict[str, str]:
    """An environment that does something once, when it takes step number 330 of a process."""
    folder.mkdir(exist_ok=True)
    text = INTERRUPTED.format(at=at, mark=str(folder / "mark"), deed=deed)
    (folder / "interrupted_env.py").write_text(text)
    return {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{Path(__file__).parents[1]}"}


def import_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets this process find the environment of a folder, whatever another test imported under its name."""
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "interrupted_env", raising=False)


# A shell that starts tests in the background has their children ignore SIGINT, so it is set as a terminal has it.
START = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from gemrl.__main__ import script; script()"


def command(*words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", START, *words], capture_output=True, text=True, check=False, env=env)


WORDS = ["interrupted_env:Interrupted-v0", "--steps", "500", *EVALUATIONS, "--set", *SETTINGS, *ROUNDS]
QUIETLY = ["--checkpoint-every", "100", "--eval-every", "1000"]
"""Only the final evaluation, so that every step before it is one of training."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes the run of WORDS and some more, whose environment does nothing strange."""

    @cache
    def made(*words: str) -> Path:
        folder = tmp_path_factory.mktemp("undisturbed")
        assert command("train", *WORDS, *words, "--run", str(folder / "run"), env=with_deed(folder, "pass")).returncode == 0
        return folder / "run"

    return made


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupt_leaves_a_checkpoint_of_that_very_step(
    tmp_path: Path,
    undisturbed: Callable[..., Path],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    env = with_deed(
        tmp_path, f"signal.signal(signal.SIGINT, signal.getsignal(signal.SIGINT)); os.kill(os.getpid(), signal.{name})"
    )
    shown = command("train", *WORDS, "--run", str(tmp_path / "run"), env=env)
    assert shown.returncode == 130, shown.stderr
    assert f"go on with: gemrl resume {tmp_path / 'run'}" in shown.stdout
    (folder,) = (tmp_path / "run" / "checkpoints").iterdir()
    assert shown.stdout.count("interrupted at step") == 1
    assert f"interrupted at step {int(folder.name)};" in shown.stdout
    assert load(tmp_path / "run").num_timesteps == int(folder.name)
    import_anew(tmp_path, monkeypatch)
    assert main(["train", *WORDS, "--run", str(tmp_path / "run")]) == 2
    assert "holds a run that is not finished; go on with: gemrl resume" in capsys.readouterr().err
    assert main(["resume", str(tmp_path / "run")]) == 0
    assert differences(tmp_path / "run", undisturbed()) == []
    assert progress_steps(tmp_path / "run") == progress_steps(undisturbed()) == [100, 200, 300, 400, 500]


def test_two_interrupts_end_it_at_once(tmp_path: Path, undisturbed: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    deed = "[os.kill(os.getpid(), signal.SIGINT) for _ in range(2)]; import time; time.sleep(60)"
    env = with_deed(tmp_path, deed, at=(331,))
    shown = command("train", *WORDS, *QUIETLY, "--run", str(tmp_path / "run"), env=env)
    assert shown.returncode == 130
    assert "stopped at once" in shown.stderr
    assert {folder.name for folder in (tmp_path / "run" / "checkpoints").iterdir()} == {"000000200", "000000300"}
    import_anew(tmp_path, monkeypatch)
    assert main(["resume", str(tmp_path / "run")]) == 0
    assert differences(tmp_path / "run", undisturbed(*QUIETLY)) == []


def test_an_environment_that_does_not_answer_ends_the_process(
    tmp_path: Path, undisturbed: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    env = with_deed(tmp_path, "import time; time.sleep(600)", at=(331,))
    shown = command("train", *WORDS, *QUIETLY, "--env-timeout", "5", "--run", str(tmp_path / "run"), env=env)
    assert shown.returncode == 1
    (line,) = shown.stderr.strip().splitlines()
    assert "the environment did not respond within 5 s at step 331" in line
    import_anew(tmp_path, monkeypatch)
    assert main(["resume", str(tmp_path / "run")]) == 0
    assert differences(tmp_path / "run", undisturbed(*QUIETLY)) == []


@pytest.mark.parametrize(
    ("deed", "message"),
    [
        ("raise OSError('the cable is loose')", "the environment raised OSError at step 331: the cable is loose"),
        ("return 'nothing', 0.0, False, False, {}", "the environment returned an observation that is not an array at step 331"),
        ("return self._get_obs(), None, False, False, {}", "the environment returned the reward None, which is not a number"),
    ],
)
def test_a_fault_is_one_line_and_the_run_goes_on_when_it_is_gone(
    tmp_path: Path,
    undisturbed: Callable[..., Path],
    deed: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with_deed(tmp_path, deed, at=(331,))
    import_anew(tmp_path, monkeypatch)
    assert main(["train", *WORDS, *QUIETLY, "--run", str(tmp_path / "run")]) == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert message in line
    assert main(["resume", str(tmp_path / "run")]) == 0
    assert differences(tmp_path / "run", undisturbed(*QUIETLY)) == []


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 400 steps that is to be one of 500, with checkpoints at 300 and 400."""
    folder = tmp_path_factory.mktemp("half") / "run"
    assert train(folder, 400, "--checkpoint-every", "300") == 0
    return folder


@pytest.fixture(scope="module")
def whole(half: Path) -> Path:
    folder = half.with_name("whole")
    shutil.copytree(half, folder)
    assert main(["resume", str(folder), "--steps", "500"]) == 0
    return folder


def test_a_finished_run_says_so(half: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resume", str(half)]) == 0
    assert "is finished: 400 steps" in capsys.readouterr().out
    assert main(["resume", str(half), "--steps", "300"]) == 2
    assert "was made for 400 steps already" in capsys.readouterr().err


def test_before_its_first_checkpoint_a_run_starts_again(half: Path, tmp_path: Path) -> None:
    shutil.copytree(half, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    (tmp_path / "run" / "model.json").unlink()
    (tmp_path / "run" / "evaluations.csv").write_text("half a li")
    assert main(["resume", str(tmp_path / "run")]) == 0
    assert differences(half, tmp_path / "run") == []


@pytest.mark.parametrize("name", ["state.json", "model.json", "model.safetensors", "model.memory.safetensors", "evaluations.csv"])
@pytest.mark.parametrize("how", ["truncated", "altered", "removed"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(
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
    assert "trying the checkpoint before it" in shown
    assert "resumed at step 300" in shown
    kept = sorted(folder.name for folder in (tmp_path / "run" / "checkpoints").iterdir())
    assert kept == ["000000300", "000000500", "damaged-000000400"]  # two that are whole
    assert differences(whole, tmp_path / "run") == []


def test_a_damaged_log_is_written_anew_from_the_checkpoint(half: Path, whole: Path, tmp_path: Path) -> None:
    shutil.copytree(half, tmp_path / "run")
    for name in ("progress.csv", "evaluations.csv"):
        (tmp_path / "run" / name).write_bytes(b"\xff\x00\n\xfe\n")
    assert main(["resume", str(tmp_path / "run"), "--steps", "500"]) == 0
    assert differences(whole, tmp_path / "run") == []


def test_no_checkpoint_that_can_be_read(half: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(half, tmp_path / "run")
    for folder in (tmp_path / "run" / "checkpoints").iterdir():
        (folder / "state.json").write_text("{}")
    assert main(["resume", str(tmp_path / "run"), "--steps", "500"]) == 1
    assert "no checkpoint of" in capsys.readouterr().err
    assert main(["resume", str(tmp_path / "run")]) == 0
    assert "is finished: 400 steps" in capsys.readouterr().out


def test_a_finished_run_without_checkpoints_is_not_begun_anew(
    half: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(half, tmp_path / "run")
    for folder in (tmp_path / "run" / "checkpoints").iterdir():
        folder.rename(folder.with_name(f"damaged-{folder.name}"))
    assert main(["resume", str(tmp_path / "run"), "--steps", "500"]) == 2
    assert "keeps no checkpoint" in capsys.readouterr().err
    for name in ("evaluations.csv", "run.json", "model.json", "model.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (half / name).read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, "a checkpoint of another run"),
        ({"env": "MountainCarContinuous-v0"}, "observation_space"),
        ({"algo": "td3"}, "unknown field 'alpha'|another run"),
        ({"versions": {"jax": "0.1"}}, "was made with .*jax 0.1 .*--other-versions"),
        ({"steps": "many"}, "its steps is missing or of another kind"),
        ({"recipe": {"gamma": "__import__('os').abort()"}}, "not a Python literal"),
    ],
)
def test_another_run_is_refused(
    half: Path, tmp_path: Path, change: dict[str, Any], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(half, tmp_path / "run")
    description = json.loads((half / "run.json").read_text()) | {"steps": 500} | change
    (tmp_path / "run" / "run.json").write_text(json.dumps(description))
    assert main(["resume", str(tmp_path / "run")]) == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert re.search(message, shown), shown


def test_a_format_of_the_future_is_refused(half: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(half, tmp_path / "run")
    for folder in (tmp_path / "run" / "checkpoints").iterdir():
        write_sealed(folder / "state.json", {"format": 99, "sha256": {}, "facts": {}})
    assert main(["resume", str(tmp_path / "run"), "--steps", "500"]) == 1
    assert "has format 99; this version of gemrl reads format 1" in capsys.readouterr().out


def test_one_process_for_a_folder(half: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with exclusive(half):
        assert main(["resume", str(half), "--steps", "500"]) == 2
    assert f"another process is using {half}" in capsys.readouterr().err


def test_leftovers_of_a_kill_are_removed(half: Path, tmp_path: Path) -> None:
    shutil.copytree(half, tmp_path / "run")
    (tmp_path / "run" / "checkpoints" / ".writing-abc").mkdir()
    (tmp_path / "run" / "checkpoints" / ".writing-abc" / "model.json").write_text("")
    (tmp_path / "run" / ".writing-model.json-xyz").write_text("")
    assert main(["resume", str(tmp_path / "run"), "--steps", "420"]) == 0
    assert not list((tmp_path / "run").rglob(".writing-*"))


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The third checkpoint does not fit: one line, exit code 1, and the second one goes on to the same bits."""
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
    assert train(tmp_path / "undisturbed", 400, "--checkpoint-every", "50") == 0
    assert differences(tmp_path / "run", tmp_path / "undisturbed") == []


def test_a_fault_after_the_first_checkpoint_leaves_something_to_go_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However early it comes."""
    with_deed(tmp_path, "raise OSError('the cable is loose')", at=(2,))
    import_anew(tmp_path, monkeypatch)
    words = [*WORDS, *QUIETLY, "--steps", "20", "--checkpoint-every", "1"]
    assert main(["train", *words, "--run", str(tmp_path / "run")]) == 1
    assert [folder.name for folder in (tmp_path / "run" / "checkpoints").iterdir()] == ["000000001"]
    assert main(["resume", str(tmp_path / "run")]) == 0
    assert read_evaluations(tmp_path / "run")["step"].tolist() == [20]


class Owning(gym.Env):
    """Counts those that are open, as if each held a process or a licence."""

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


@pytest.mark.parametrize(("words", "code"), [([], 0), (["--n-envs", "2"], 0), (["--env-args", "fails_at=30"], 1)])
def test_every_environment_is_closed_in_the_end(tmp_path: Path, words: list[str], code: int) -> None:
    gym.register("Owning-v0", "tests.test_resume:Owning", max_episode_steps=20)
    assert train(tmp_path / "run", 60, *words, env="Owning-v0") == code
    assert Owning.open == 0
    if code == 0:
        assert main(["evaluate", str(tmp_path / "run"), "--episodes", "2"]) == 0
        assert Owning.open == 0


HELD_BY_A_CHILD = """
import os, sys, time
from pathlib import Path
from gemrl.locking import alone, is_free
reading, writing = os.pipe()
with alone(Path(sys.argv[1])):
    if os.fork() == 0:
        os.write(writing, b"born")
        time.sleep(10)
        os._exit(0)
    os.read(reading, 4)
    os._exit(0)
"""


def test_a_child_that_lives_on_does_not_hold_the_folder(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", HELD_BY_A_CHILD, str(tmp_path)], check=True)
    assert is_free(tmp_path)


def watched(deed: str, limit: float) -> subprocess.Popen[bytes]:
    """A process that does something inside a call of an environment, within a limit of so many seconds."""
    code = "import os, sys, time\nfrom gemrl.watchdog import answering, limit_answers\n"
    code += f"limit_answers({limit})\nwith answering('step 1'):\n    print('begun', flush=True)\n    {deed}\n"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    return process


def test_a_process_that_was_stopped_has_not_waited() -> None:
    process = watched("time.sleep(2.5)", 3.0)
    process.send_signal(signal.SIGSTOP)
    time.sleep(4)
    process.send_signal(signal.SIGCONT)
    assert process.wait(60) == 0


def test_who_does_not_answer_is_ended_though_nobody_listens() -> None:
    process = watched("time.sleep(60)", 1.0)
    assert process.stderr
    process.stderr.close()
    assert process.wait(30) == 1


class Moody(gym.Env):
    """Draws from a generator that no seed reaches."""

    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Box(-1, 1, (1,))
    moods = np.random.default_rng(0)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        return self.moods.uniform(-1, 1, 1).astype(np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return self.moods.uniform(-1, 1, 1).astype(np.float32), 0.0, False, False, {}


def test_an_environment_that_does_not_repeat_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gym.register("Moody-v0", "tests.test_resume:Moody", max_episode_steps=70)
    assert train(tmp_path / "run", 240, env="Moody-v0") == 0
    assert main(["resume", str(tmp_path / "run"), "--steps", "300"]) == 0
    assert capsys.readouterr().out.count("did not repeat its episode") == 1
    newest = max((tmp_path / "run" / "checkpoints").iterdir())
    last = np.flatnonzero(load(newest / "model").memory.lane()["last"])
    assert last.tolist() == [69, 139, 209, 239]  # the abandoned episode is followed by nothing; the new one began at 240
    assert read_evaluations(tmp_path / "run")["step"].tolist() == [100, 200, 240, 300]


TASKS = ("HalfCheetah-v5", "Ant-v5", "Swimmer-v5", "Humanoid-v5", "Walker2d-v5", "Hopper-v5", "Pendulum-v1")

ELSEWHERE = """
import sys
from pathlib import Path
from gemrl.checkpoint import *
from tests.test_resume import TASKS, after, read_task
import gemrl.environments, gemrl.task
for name in TASKS:
    task = gemrl.task.Task(gemrl.environments.make(name), 3)
    observation = task.replay(read_task(Path(sys.argv[1]) / name))
    assert observation is not None, name
    print(after(task, observation))
"""


def read_task(path: Path) -> Any:
    from gemrl.core.files import digest_of, read_arrays, read_json
    from gemrl.core.snapshot import Snapshot

    file = path.with_suffix(".safetensors")
    return Snapshot(read_json(path.with_suffix(".json")), read_arrays(file, digest_of(file)))


def after(task: Task, observation: np.ndarray) -> str:
    """The next 30 steps, to the last bit."""
    rng, seen = np.random.default_rng(1), []
    for _ in range(30):
        step = task.step(observation, rng.uniform(-1, 1, (1, task.spaces.layout.action)).astype(np.float32))
        observation = step.observation
        seen.append((step.transition.reward.tobytes().hex(), observation.tobytes().hex()))
    return repr(seen)


def test_episodes_are_played_again_in_a_new_process(tmp_path: Path) -> None:
    """All six MuJoCo tasks of the paper: the same observations and rewards to the last bit, from the middle of an episode."""
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
        expected.append(after(task, observation))
    shown = subprocess.run([sys.executable, "-c", ELSEWHERE, str(tmp_path)], capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines() == expected


def test_wrappers_that_learn_over_episodes_are_part_of_it() -> None:
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
    assert after(other, again) == after(task, observation)
    saved, third = task.snapshot(), made()
    third.restore(saved)  # who begins a new episode goes on with them as well
    np.testing.assert_array_equal(third.reset(), task.reset())
    counts = [one.env.get_wrapper_attr("obs_rms").count for one in (third, task)]
    assert counts[0] == counts[1] > 50


def test_checkpoints_take_a_small_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """About one a minute; rarer if writing is slow, so that it never takes 5% of the time."""
    now = [0.0]
    monkeypatch.setattr(checkpoints, "monotonic", lambda: now[0])

    def simulated(cost: float) -> tuple[int, float]:
        now[0], spent, written = 0.0, 0.0, 0
        clock = checkpoints.Clock(None, 0)
        for step in range(1, 36_001):
            now[0] += 0.1
            if clock.due(step):
                start = now[0]
                clock.time(lambda: now.__setitem__(0, now[0] + cost), step)
                spent, written = spent + now[0] - start, written + 1
        return written, spent / now[0]

    assert simulated(0.01)[0] in (59, 60)
    for cost in (0.5, 10.0, 60.0):
        assert simulated(cost)[1] < 0.05


def test_a_resumed_run_computes_on_as_many_threads_as_it_began_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And with the same flags of the compiler: both decide rounding."""
    (tmp_path / "run.json").write_text(json.dumps({"threads": 3, "xla_flags": "--some_flag"}))
    for name in (*LIBRARIES, "XLA_FLAGS"):
        monkeypatch.setenv(name, "1")
    set_threads(["resume", str(tmp_path), "--steps", "10"])
    assert [os.environ[name] for name in (*LIBRARIES, "XLA_FLAGS")] == ["3", "3", "3", "--some_flag"]
    set_threads(["train", "Pendulum-v1", "--threads", "2"])
    assert [os.environ[name] for name in LIBRARIES] == ["2", "2", "2"]
    set_threads([])  # `gemrl` alone
    assert [os.environ[name] for name in LIBRARIES] == ["2", "2", "2"]


def test_other_versions_go_on_if_they_are_told_to(half: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(half, tmp_path / "run")
    description = json.loads((half / "run.json").read_text()) | {
        "steps": 420,
        "versions": {"jax": "0.1", "source": "0123456789ab"},
    }
    (tmp_path / "run" / "run.json").write_text(json.dumps(description))
    assert main(["resume", str(tmp_path / "run")]) == 2
    assert "code has changed" not in capsys.readouterr().out
    assert main(["resume", str(tmp_path / "run"), "--other-versions"]) == 0
    assert "code has changed since this run began (source 0123456789ab)" in capsys.readouterr().out
    assert read_evaluations(tmp_path / "run")["step"][-1] == 420


def test_the_time_limit_of_an_environment_is_kept(half: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []
    monkeypatch.setattr("gemrl.experiments.run.limit_env_calls", limits.append)
    shutil.copytree(half, tmp_path / "run")
    description = json.loads((half / "run.json").read_text())
    assert description["env_timeout"] == 600
    for steps, kept, words in ((410, 3600, []), (420, None, []), (430, 3600, ["--env-timeout", "5"])):
        told = {name: value for name, value in description.items() if name != "env_timeout"} | {"steps": steps - 10}
        (tmp_path / "run" / "run.json").write_text(json.dumps(told | ({"env_timeout": kept} if kept else {})))
        assert main(["resume", str(tmp_path / "run"), "--steps", str(steps), *words]) == 0
    assert limits == [3600, 600, 5]
