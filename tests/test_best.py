"""The best model of a run: that of its best evaluation, the same bytes after any interruption."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import gemrl
from gemrl.cli.main import main
from gemrl.experiments.run_folder import describe
from gemrl.experiments.run_logs import read_evaluations

WORDS = ["--algo", "q-learning", "--seed", "4", "--eval-every", "50", "--eval-episodes", "20", "--checkpoint-every", "75"]
WORDS += ["--set", "exploration_steps=200", "exploration_final_eps=0.5"]


def train(folder: Path, steps: int, *more: str) -> None:
    assert main(["train", "FrozenLake-v1", "--run", str(folder), "--steps", str(steps), *more, *WORDS]) == 0


def files(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in ("best.json", "best.safetensors")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose best evaluation is neither its first nor its last."""
    folder = tmp_path_factory.mktemp("best") / "run"
    train(folder, 1500)
    returns = read_evaluations(folder)["return_mean"]
    assert 0 < returns.argmax() < len(returns) - 1
    return folder


def test_it_is_the_model_of_the_first_best_evaluation(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evaluations = read_evaluations(whole)
    first = int(evaluations["return_mean"].argmax())
    best = gemrl.load(whole / "best")
    assert best.num_timesteps == evaluations["step"][first]
    assert best.evaluate("FrozenLake-v1", 20).return_mean == evaluations["return_mean"][first]
    assert gemrl.load(whole).num_timesteps == 1500
    assert main(["evaluate", str(whole), "--best", "--episodes", "20"]) == 0
    shown = capsys.readouterr().out
    assert f"step {best.num_timesteps:>9,}  return {evaluations['return_mean'][first]:10,.1f}" in shown
    assert describe(whole)["keep_best"] is True


def test_an_extended_run_keeps_the_same_one(whole: Path, tmp_path: Path) -> None:
    train(tmp_path / "run", 600)
    assert main(["resume", str(tmp_path / "run"), "--steps", "1500"]) == 0
    assert files(tmp_path / "run") == files(whole)


@pytest.mark.parametrize("harm", ["none", "newer", "damaged", "removed"])
def test_a_resumed_run_starts_from_the_best_of_its_checkpoint(whole: Path, tmp_path: Path, harm: str) -> None:
    """Whatever is in the folder by then: a killed run may have kept a model from after its last checkpoint."""
    folder = tmp_path / "run"
    train(folder, 600)
    before = files(folder)
    if harm == "newer":  # as if killed later
        for name, content in files(whole).items():
            (folder / name).write_bytes(content)
    elif harm == "damaged":
        (folder / "best.safetensors").write_bytes(b"damaged")
    elif harm == "removed":
        (folder / "best.json").unlink()
    text = (folder / "checkpoints" / "000000600" / "state.json").read_text()
    score = json.loads(text)["facts"]["best"]
    evaluations = read_evaluations(folder)
    assert score == evaluations["return_mean"].max()
    assert main(["resume", str(folder), "--steps", "650"]) == 0
    later = read_evaluations(folder)["return_mean"][evaluations["step"].size :]
    assert (files(folder) == before) == (later.max() <= score)
    assert main(["resume", str(folder), "--steps", "1500"]) == 0
    assert files(folder) == files(whole)


def test_an_older_checkpoint_has_its_own_best(whole: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    shutil.rmtree(max((folder / "checkpoints").iterdir()))
    assert main(["resume", str(folder), "--steps", "1550"]) == 0
    train(tmp_path / "long", 1550)
    assert files(folder) == files(tmp_path / "long")


def test_a_run_without_a_checkpoint_starts_without_a_best(tmp_path: Path) -> None:
    train(tmp_path / "run", 100)
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    for name in ("model.json", "best.safetensors"):
        (tmp_path / "run" / name).write_bytes(b"left behind")
    assert main(["resume", str(tmp_path / "run")]) == 0
    train(tmp_path / "again", 100)
    assert files(tmp_path / "run") == files(tmp_path / "again")


def test_a_best_that_someone_removes_during_the_run_is_kept_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gemrl.experiments.best_model import BestModel

    update = BestModel.update

    def removing(self: BestModel, *arguments: object) -> None:
        update(self, *arguments)  # type: ignore[arg-type]
        (tmp_path / "run" / "best.json").unlink(missing_ok=True)

    monkeypatch.setattr(BestModel, "update", removing)
    train(tmp_path / "run", 300)
    assert not (tmp_path / "run" / "best.json").exists()


def test_it_can_be_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(tmp_path / "run", 100, "--no-keep-best")
    assert not list((tmp_path / "run").rglob("best*"))
    assert "best evaluation" not in capsys.readouterr().out
    assert main(["evaluate", str(tmp_path / "run"), "--best"]) == 2
    error = capsys.readouterr().err
    assert "has no best model: it was trained without keeping it" in error
    assert error.count("\n") == 1
    assert np.isfinite(gemrl.load(tmp_path / "run").evaluate("FrozenLake-v1", 1).return_mean)
