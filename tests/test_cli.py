"""The command line as a user sees it: files, messages and exit codes."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

import gemrl
from gemrl.algorithms.registry import RECIPES, Recipe, TabularRecipe
from gemrl.cli.main import main
from gemrl.core.exceptions import RunFolderError
from gemrl.experiments.description import env_folder
from gemrl.experiments.run_folder import describe
from gemrl.experiments.run_logs import read_evaluations
from tests.conftest import SMALL_WORDS

WORDS = ["--eval-every", "100", "--eval-episodes", "2", *SMALL_WORDS, "--set", "exploration_noise=0.2"]


def train(folder: Path, *arguments: str, env: str = "Pendulum-v1") -> int:
    return main(["train", env, "--steps", "250", "--run", str(folder), *WORDS, *arguments])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "pendulum"
    assert train(folder) == 0
    return folder


def test_atari_run_with_sticky_actions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first line shows the probability; evaluations have the Atari defaults."""
    pytest.importorskip("ale_py")
    pytest.importorskip("cv2")
    arguments = [
        "train",
        "ALE/Pong-v5",
        "--steps",
        "20",
        "--sticky",
        "0.25",
        "--eval-episodes",
        "1",
        "--run",
        str(tmp_path / "run"),
    ]
    assert main([*arguments, "--env-args", "max_num_frames_per_episode=200", "--set", "net_arch=(8,)", "buffer_size=100"]) == 0
    assert "repeat_action_probability=0.25" in capsys.readouterr().out.splitlines()[0]
    description = describe(tmp_path / "run")
    assert description["env_args"] == {"repeat_action_probability": 0.25, "max_num_frames_per_episode": 200}
    assert (description["eval_every"], description["eval_episodes"]) == (50_000, 1)
    with (tmp_path / "run" / "progress.csv").open() as file:
        assert list(csv.DictReader(file))[-1]["rollout/exploration_rate"] == "1.0"


def test_files_of_a_run(run: Path) -> None:
    names = {
        ".lock",
        "run.json",
        "evaluations.csv",
        "progress.csv",
        "learning_curve.png",
        "model.safetensors",
        "model.json",
        "best.safetensors",
        "best.json",
        "checkpoints",
    }
    assert {file.name for file in run.iterdir()} == names
    description = describe(run)
    assert (description["algo"], description["env"], description["seed"], description["steps"]) == ("gem", "Pendulum-v1", 0, 250)
    assert {"gemrl", "jax", "gymnasium", "mujoco", "python", "platform"} <= description["versions"].keys()
    recipe = Recipe.from_dict(description["recipe"])
    widths = recipe.settable()["net_arch"]
    assert (widths, recipe.gradient_steps, recipe.exploration_noise) == ((16,), 6, 0.2)  # both --set options count
    assert (run / "evaluations.csv").read_text().startswith("step,return_mean,return_std,length_mean,estimation_error\n100,")
    assert read_evaluations(run)["step"].tolist() == [100, 200, 250]
    with (run / "progress.csv").open() as file:
        last = list(csv.DictReader(file))[-1]
    assert (last["time/total_timesteps"], last["train/n_updates"]) == ("250", "18")
    assert float(last["eval/estimation_error"]) == read_evaluations(run)["estimation_error"][-1]
    assert float(last["rollout/ep_rew_mean"]) < 0
    assert (run / "learning_curve.png").read_bytes()[:4] == b"\x89PNG"
    assert (run / "model.safetensors").stat().st_mode & 0o777 == 0o644


def test_same_seed_gives_same_bytes(run: Path, tmp_path: Path) -> None:
    assert train(tmp_path / "again") == 0
    for name in ("evaluations.csv", "model.safetensors", "model.json", "run.json"):
        assert (tmp_path / "again" / name).read_bytes() == (run / name).read_bytes()
    assert train(tmp_path / "other", "--seed", "1") == 0
    for name in ("evaluations.csv", "model.safetensors", "run.json"):
        assert (tmp_path / "other" / name).read_bytes() != (run / name).read_bytes()


def test_evaluate(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By default it plays the episodes of the run's own evaluations, so it reproduces the final one."""
    assert main(["evaluate", str(run), "--episodes", "2"]) == 0
    shown = capsys.readouterr().out
    final = f"return {read_evaluations(run)['return_mean'][-1]:10,.1f}"
    assert final in shown
    assert gemrl.load(run).num_timesteps == 250
    assert main(["evaluate", str(run), "--episodes", "2", "--seed", "99"]) == 0
    shown = capsys.readouterr().out
    assert "seed 0, 2 episodes with seed 99" in shown
    assert final not in shown


def test_environment_arguments_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["is_slippery=False", "desc=('SFF', 'FHF', 'FFG')", "max_episode_steps=7"]
    assert main(["train", "FrozenLake-v1", "--steps", "1500", "--env-args", *arguments, "--set", "exploration_steps=700"]) == 0
    (folder,) = (tmp_path / "runs/gem-tabular").iterdir()
    assert folder.name.startswith("FrozenLake-v1,is_slippery=False,desc=")
    run = describe(folder / "0")
    assert run["env_args"] == {"is_slippery": False, "desc": ["SFF", "FHF", "FFG"], "max_episode_steps": 7}
    assert gemrl.load(folder / "0").observation_space.n == 9  # type: ignore[attr-defined]
    capsys.readouterr()
    assert main(["evaluate", str(folder / "0"), "--episodes", "3"]) == 0
    shown = capsys.readouterr().out
    assert "gem-tabular on FrozenLake-v1 (is_slippery=False, " in shown
    assert "return        1.0 ± 0.0  length 4" in shown


def test_default_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", "Pendulum-v1", "--steps", "20", "--seed", "7", "--algo", "gem-paper", *WORDS]) == 0
    assert (tmp_path / "runs/gem-paper/Pendulum-v1/7/run.json").exists()
    shown = capsys.readouterr().out
    assert "next              gemrl evaluate runs/gem-paper/Pendulum-v1/7 --video video.mp4" in shown
    assert "warning: nothing is learned in 20 steps" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian", "x"], "unknown command 'trian'; did you mean 'train'?"),
        (["train", "Pendulm-v1"], "unknown environment 'Pendulm-v1'; did you mean 'Pendulum-v1'?"),
        (["train", "Pendulum-v1", "--algo", "gme"], "unknown algorithm 'gme'; did you mean 'gem'?"),
        (["train", "Pendulum-v1", "--set", "gama=1"], "unknown field 'gama'; did you mean 'gamma'?"),
        (["train", "Pendulum-v1", "--set", "gamma=x"], "gamma: 'x' is not a Python literal"),
        (
            ["train", "CartPole-v1", "--set", "policy_delay=1"],
            "policy_delay is a field of other algorithms, not of this one",
        ),
        (["train", "--set", "depth=3", "Pendulum-v1"], "ENV (it comes first, before --set, --env-args and --data)"),
        (["train", "Pendulum-v1", "--seed", "4294967296"], "from 0 to 4,294,967,295"),
        (["train", "Pendulum-v1", "--seed", str(2**40)], "seed must be a whole number from 0 to 4,294,967,295"),
        (["train", "Pendulum-v1", "--n-envs", str(10**7)], "n_envs must be a whole number from 1 to 4,096, not 10000000"),
        (["train", "Pendulum-v1", "--threads", "1000000"], "threads must be a whole number from 1 to 1,024, not 1000000"),
        (["train", "Pendulum-v1", "--threads", "9" * 5000], "is not a whole number of at least 1"),
        (["train", "Pendulum-v1", "--steps", str(10**22)], "steps must be a whole number of at most 1,000,000,000"),
        (["train", "Pendulum-v1", "--set", f"policy_delay={10**22}"], "policy_delay must be a whole number of at most"),
        (["resume", "no/such/run", "--steps", str(10**22)], "steps must be a whole number of at most"),
        (["study", "quick", "--dry-run", "--set", f"batch_size={10**12}"], "batch_size must be a whole number of at most"),
        (["study", "quick", "--dry-run", "--steps", str(10**12)], "steps must be a whole number of at most"),
        (["train", "Pendulum-v1", "--stesp", "5"], "unknown option '--stesp'; did you mean '--steps'?"),
        (["train", "Pendulum-v1", "more"], "unexpected argument 'more'"),
        (["train", "Pendulum-v1", "--steps", "0"], "'0' is not a whole number of at least 1"),
        (["train", "Pendulum-v1", "--steps", "-5"], "'-5' is not a whole number"),
        (["train", "Pendulum-v1", "--steps", "many"], "'many' is not a whole number"),
        (["train", "Pendulum-v1", "--steps", "inf"], "'inf' is not a whole number"),
        (["train", "Pendulum-v1", "--device", "tpu"], "--device"),
        (["train"], "ENV"),
        (["train", "CartPole-v1", "--algo", "td3"], "td3 needs a Box of observations and continuous actions"),
        (["train", "FrozenLake-v1", "--env-args", "slippery"], "--env-args takes KEY=VALUE, not 'slippery'"),
        (["train", "FrozenLake-v1", "--env-args", "map_name=8x8"], "strings need quotes: \"map_name='...'\""),
        (["train", "FrozenLake-v1", "--env-args", "x=__import__('os')"], "is not a Python literal"),
        (["train", "FrozenLake-v1", "--env-args", "x={1, 2}"], "cannot be stored as JSON"),
        (["train", "FrozenLake-v1", "--env-args", "render_mode='human'"], "--env-args cannot set render_mode"),
        (["train", "FrozenLake-v1", "--env-args", "slipery=True"], "cannot make FrozenLake-v1: "),
        (["train", "Pendulum-v1", "--algo", "q-learning"], "q-learning needs discrete observations and actions"),
        (["train", "no.such.module:Env-v0"], "cannot import 'no.such.module'"),
        (["evaluate", "no/such/run"], "not a run folder"),
        (["evaluate"], "RUN"),
        (["--frobnicate"], "--frobnicate"),
    ],
)
def test_invalid_input_gives_one_line_and_exit_code_2(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And no run is started."""
    monkeypatch.setattr("gemrl.experiments.run.train_run", lambda *_: pytest.fail("a run was started"))
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err
    assert shown.err.startswith("gemrl: ")
    assert shown.err.count("\n") == 1


def test_existing_run_is_not_overwritten(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    assert train(run) == 2
    assert "already contains a run" in capsys.readouterr().err
    assert before == {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}


def test_environment_that_returns_nan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "faulty_envs.py").write_text(
        "import gymnasium, numpy\nfrom tests.probes import Poisoned\n"
        "gymnasium.register('Faulty-v0', lambda: Poisoned(observation=numpy.array([numpy.nan])))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    arguments = ["train", "faulty_envs:Faulty-v0", "--steps", "400", "--run", str(tmp_path / "run"), *WORDS]
    arguments[arguments.index("--eval-every") + 1] = "400"
    assert main(arguments) == 1
    assert (
        capsys.readouterr().err
        == "gemrl: the environment returned NaN or infinity in its observation at step 150: nan in entry 0 of 1\n"
    )
    assert gemrl.load(tmp_path / "run").num_timesteps == 149  # the model up to that step is saved


def test_modules_are_found_in_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "here.py").write_text(
        "import gymnasium\ngymnasium.register('Mine-v0', 'gymnasium.envs.classic_control:PendulumEnv', max_episode_steps=20)\n"
    )
    script = Path(sys.executable).with_name("gemrl")
    arguments = [str(script), "train", "here:Mine-v0", "--steps", "5", "--eval-episodes", "1", "--set", "net_arch=(8,)"]
    shown = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "No module" not in shown.stderr
    assert "length 20" in shown.stdout


def test_damaged_run_folder_is_reported(run: Path, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("[]")
    with pytest.raises(RunFolderError, match="is damaged: not a JSON object"):
        gemrl.load(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps(describe(run)))
    with pytest.raises(RunFolderError, match="contains no trained model"):
        gemrl.load(tmp_path)


def test_unwritable_folder_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert train(tmp_path / "file" / "run") == 2
    assert "cannot write to" in capsys.readouterr().err


def test_unreadable_folder_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """Tested with a name that is too long, because root may read every folder."""
    name = "x" * 300
    for arguments in (["report", name], ["study", "quick", "--out", name]):
        assert main(arguments) == 1
        shown = capsys.readouterr().err
        assert "File name too long" in shown
        assert shown.count("\n") == 1


def test_long_arguments_give_short_folder_names() -> None:
    maps = [("S" + 400 * letter,) for letter in "FH"]
    names = [env_folder({"env": "FrozenLake-v1", "env_args": {"desc": grid}}) for grid in maps]
    assert len(set(names)) == 2
    for name in names:
        assert name.startswith("FrozenLake-v1,desc=")
        assert len(name) < 100


def test_algos(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["algos"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in RECIPES)
    assert "planner = TwinReleased(depth=5)" in shown
    assert main(["algos", "--fields"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in {**Recipe().settable(), **TabularRecipe().settable()})


@pytest.mark.parametrize(
    "arguments", [["--help"], ["train", "--help"], ["evaluate", "--help"], ["algos", "--help"], ["theory", "--help"]]
)
def test_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 0
    assert "usage: gemrl" in capsys.readouterr().out


def test_help_and_errors_do_not_import_jax() -> None:
    """JAX is imported only when there is something to compute."""
    code = (
        "import sys; from gemrl.cli.main import main\n"
        "assert main(['train', 'Pendulum-v1', '--algo', 'gme']) == 2\n"
        "assert main(['train', 'Pendulm-v1']) == 2\n"
        "assert main(['algos']) == 0\n"
        "assert 'jax' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_version() -> None:
    shown = subprocess.run([sys.executable, "-m", "gemrl", "--version"], capture_output=True, text=True, check=True).stdout
    assert shown == f"gemrl {gemrl.__version__}\n"


def test_failed_start_leaves_the_folder_free(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(tmp_path / "run", "--set", "buffer_size=1000000000") == 2
    assert "set a smaller buffer_size" in capsys.readouterr().err
    assert train(tmp_path / "run", "--set", "net_arch=(1000000, 1000000)") == 2
    assert "set a smaller net_arch" in capsys.readouterr().err
    assert train(tmp_path / "run", "--seed", "99999999999") == 2
    assert train(tmp_path / "run") == 0
