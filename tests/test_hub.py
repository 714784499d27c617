"""Models on the Hugging Face Hub: pushed to and loaded from a Hub on this machine, by its own client, in other processes."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import gemrl
from gemrl.cli.main import main
from gemrl.core.exceptions import BadValue
from gemrl.experiments.hub import checked_name
from tests.conftest import SMALL_WORDS
from tests.hub_server import Hub, local_hub


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub") / "run"
    words = ["train", "Pendulum-v1", "--steps", "200", "--eval-every", "100", "--eval-episodes", "2", "--run", str(folder)]
    assert main([*words, *SMALL_WORDS]) == 0
    return folder


@pytest.fixture(scope="module")
def hub() -> Iterator[str]:
    with local_hub() as address:
        yield address


def python(address: str, home: Path, *words: str, token: str = "secret", **more: str) -> subprocess.CompletedProcess[str]:
    """Another process, which knows this Hub only."""
    own = {
        "HF_ENDPOINT": address,
        "HF_HOME": str(home),
        "HF_TOKEN": token,
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_XET": "1",
    }
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, env=os.environ | own | more, check=False)


LOADS = """
import sys, numpy as np, gemrl
model = gemrl.load(sys.argv[1])
print(model.algo, model.num_timesteps, *model.predict(np.ones(3, np.float32))[0])
"""


def test_a_pushed_model_is_loaded_again(run: Path, hub: str, tmp_path: Path) -> None:
    """With the same policy, and then offline, from the client's cache."""
    pushed = python(hub, tmp_path / "home", "-m", "gemrl", "push", str(run), "someone/pendulum")
    assert pushed.returncode == 0, pushed.stderr
    assert 'gemrl.load("hf:someone/pendulum") loads it' in pushed.stdout
    names = {"README.md", "run.json", "model.json", "model.safetensors", "evaluations.csv", "progress.csv", "learning_curve.png"}
    assert set(Hub.models["someone/pendulum"]) == names
    assert Hub.models["someone/pendulum"]["model.safetensors"] == (run / "model.safetensors").read_bytes()
    expected = gemrl.load(run).predict(np.ones(3, np.float32))[0]
    for more in ({}, {"HF_HUB_OFFLINE": "1"}):
        loaded = python(hub, tmp_path / "home", "-c", LOADS, "hf:someone/pendulum", **more)
        assert loaded.returncode == 0, loaded.stderr
        algo, steps, action = loaded.stdout.split()
        assert (algo, steps) == ("gem", "200")
        assert float(action) == pytest.approx(float(expected[0]), rel=1e-6)


def test_a_private_model_is_created_as_one(run: Path, hub: str, tmp_path: Path) -> None:
    assert python(hub, tmp_path, "-m", "gemrl", "push", str(run), "someone/secret", "--private").returncode == 0
    assert Hub.private["someone/secret"]


def test_the_card_says_how_it_did_and_how_to_use_it(run: Path, tmp_path: Path) -> None:
    assert main(["push", str(run), "someone/pendulum", "--out", str(tmp_path / "out")]) == 0
    card = (tmp_path / "out" / "README.md").read_text()
    facts = pytest.importorskip("yaml").safe_load(card.split("---")[1])
    assert facts["library_name"] == "gemrl"
    metric = facts["model-index"][0]["results"][0]["metrics"][0]
    last = (run / "evaluations.csv").read_text().splitlines()[-1].split(",")
    assert metric["value"] == f"{float(last[1]):.2f} +/- {float(last[2]):.2f}"
    assert 'gemrl.load("hf:someone/pendulum")' in card
    assert "gemrl train Pendulum-v1 --algo gem --steps 200 --seed 0" in card


def test_errors_of_the_hub_are_one_line(run: Path, hub: str, tmp_path: Path) -> None:
    refused = python(hub, tmp_path, "-m", "gemrl", "push", str(run), "someone/refused", token="wrong")
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert refused.stderr.startswith("gemrl: the Hugging Face Hub and 'someone/refused': ")
    missing = python(hub, tmp_path, "-c", LOADS, "hf:nobody/nothing")
    assert "HubError: the Hugging Face Hub and 'nobody/nothing': " in missing.stderr


@pytest.mark.parametrize("name", ["pendulum", "a/b/c", "/b", "a/", "a b/c"])
def test_other_names_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadValue, match="user/name"):
        checked_name(name)


def test_the_card_s_command_trains_the_same(run: Path, tmp_path: Path) -> None:
    """Read back by the shell's rules, it gives a run with the same recipe."""
    assert main(["push", str(run), "someone/pendulum", "--out", str(tmp_path / "out")]) == 0
    line = next(line for line in (tmp_path / "out" / "README.md").read_text().splitlines() if line.startswith("Trained with `"))
    words = shlex.split(line.split("`")[1])[1:]
    words[words.index("--steps") + 1] = "120"
    at = words.index("--set")
    assert main([*words[:at], "--run", str(tmp_path / "again"), "--eval-episodes", "1", *words[at:]]) == 0
    recipes = [json.loads((folder / "run.json").read_text())["recipe"] for folder in (run, tmp_path / "again")]
    assert recipes[0] == recipes[1]


def test_a_folder_with_files_is_not_overwritten(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "README.md").write_text("mine")
    assert main(["push", str(run), "a/b", "--out", str(tmp_path)]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert (tmp_path / "README.md").read_text() == "mine"


def test_links_and_unfinished_runs_are_not_pushed(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    linked = tmp_path / "linked"
    shutil.copytree(run, linked)
    (linked / "progress.csv").unlink()
    (tmp_path / "secret").write_text("key")
    (linked / "progress.csv").symlink_to(tmp_path / "secret")
    assert main(["push", str(linked), "a/b", "--out", str(tmp_path / "one")]) != 0
    assert not (tmp_path / "one" / "progress.csv").exists()
    early = tmp_path / "early"
    shutil.copytree(run, early)
    description = json.loads((early / "run.json").read_text())
    (early / "run.json").write_text(json.dumps(description | {"steps": 5000}))
    assert main(["push", str(early), "a/b", "--out", str(tmp_path / "two")]) == 2
    assert "is not finished" in capsys.readouterr().err


def test_a_run_without_a_model_is_refused(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.json").write_bytes((run / "run.json").read_bytes())
    assert main(["push", str(tmp_path), "a/b", "--out", str(tmp_path / "out")]) == 2
    assert "it has no model.json" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
