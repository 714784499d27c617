"""What counts as one run, one task and one method when a folder of runs is read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gemrl.cli import main
from gemrl.report.collecting import Collection, collect, task_name
from gemrl.report.scales import scale
from gemrl.report.summary import score_rows
from tests.folders import write_run, write_study


def changed(folder: Path, **words: Any) -> Path:
    """The run with other words in its run.json."""
    description = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(description | words))
    return folder


def counted(collection: Collection) -> dict[tuple[str, str], int]:
    """How many runs each method has on each environment."""
    places = [(method, env) for method in collection.methods for env in collection.envs]
    return {place: len(collection.of(*place)) for place in places if collection.of(*place)}


def test_a_run_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    """Studies share methods, tasks and seeds: the same training is not another witness."""
    alone = collect(write_study(tmp_path / "one"))
    shutil.copytree(tmp_path / "one" / "gem", tmp_path / "two" / "gem")
    both = collect(tmp_path)
    assert counted(both) == counted(alone) == {(a, e): 3 for a in ("gem", "td3") for e in ("HalfCheetah-v5", "Hopper-v5")}
    assert len(both.left_out) == 6
    assert both.left_out[0].endswith(f"is the same run as {tmp_path / 'one' / 'gem' / 'HalfCheetah-v5' / '0'}")
    assert [row["low"] for row in score_rows(both)] == [row["low"] for row in score_rows(alone)]


def test_runs_that_cannot_be_compared_are_left_out_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One ended at step 1,000; the other was evaluated at 10,000 first: no step is common to both."""
    write_run(tmp_path / "td3" / "Pendulum-v1" / "0", "td3", "Pendulum-v1", 0, [-900.0], every=1_000)
    write_run(tmp_path / "td3" / "Pendulum-v1" / "1", "td3", "Pendulum-v1", 1, [-500.0, -100.0], every=10_000)
    found = collect(tmp_path)
    assert [run.seed for run in found.runs] == [0]
    assert "1 has no evaluation up to step 1,000, the last that all runs on Pendulum-v1 have reached" in found.left_out[0]
    (row,) = score_rows(found)
    assert (row["runs"], row["mean"]) == (1, -900.0)
    others = tmp_path / "others.csv"
    others.write_text("method,env,step,return\nA,Pendulum-v1,1000,-300\n")
    assert main(["compare", str(tmp_path), "--csv", str(others)]) == 0
    assert "left out: " in capsys.readouterr().out


def test_the_same_curve_of_another_seed_is_another_run(tmp_path: Path) -> None:
    for seed in range(2):
        write_run(tmp_path / str(seed), "gem", "Hopper-v5", seed, [1.0, 2.0])
    assert counted(collect(tmp_path)) == {("gem", "Hopper-v5"): 2}


def test_arguments_of_environments_make_other_tasks(tmp_path: Path) -> None:
    changed(write_run(tmp_path / "a", "gem-tabular", "FrozenLake-v1", 0, [0.1]), env_args={})
    changed(write_run(tmp_path / "b", "gem-tabular", "FrozenLake-v1", 0, [1.0]), env_args={"is_slippery": False})
    sticky = "repeat_action_probability"
    changed(write_run(tmp_path / "c", "dqn", "ALE/Alien-v5", 0, [400.0]), env_args={sticky: 0.0})
    changed(write_run(tmp_path / "d", "dqn", "ALE/Alien-v5", 0, [500.0]), env_args={sticky: 0.25})
    found = collect(tmp_path)
    assert found.envs == ["ALE/Alien-v5", f"ALE/Alien-v5 ({sticky}=0.25)", "FrozenLake-v1", "FrozenLake-v1 (is_slippery=False)"]
    assert set(counted(found).values()) == {1}
    assert {task_name(env) for env in found.envs} == {"Alien", "FrozenLake"}
    assert scale(found, found.envs[1]) == scale(found, found.envs[0])
    assert collect(tmp_path / "d").envs == ["ALE/Alien-v5"]  # nothing to be told apart from


def test_damaged_arguments_are_told(tmp_path: Path) -> None:
    write_run(tmp_path / "good", "gem", "Hopper-v5", 0, [1.0])
    changed(write_run(tmp_path / "bad", "gem", "Hopper-v5", 1, [1.0]), env_args=3)
    found = collect(tmp_path)
    assert [run.seed for run in found.runs] == [0]
    assert "env_args in run.json are damaged" in found.left_out[0]


def test_numbers_of_environments_make_other_methods(tmp_path: Path) -> None:
    changed(write_run(tmp_path / "a", "gem", "Hopper-v5", 0, [1.0]), n_envs=1)
    changed(write_run(tmp_path / "b", "gem", "Hopper-v5", 1, [2.0]), n_envs=8)
    assert collect(tmp_path).methods == ["gem n_envs=1", "gem n_envs=8"]


def test_a_study_names_its_methods(tmp_path: Path) -> None:
    """`gem depth=20` is gem-discrete where actions are, but it is not what the study calls gem."""
    write_run(tmp_path / "gem" / "CartPole-v1" / "0", "gem-discrete", "CartPole-v1", 0, [1.0])
    write_run(tmp_path / "gem-depth=20" / "CartPole-v1" / "0", "gem-discrete", "CartPole-v1", 0, [2.0], depth=20)
    study = {"name": "own", "title": "Own", "algos": {"gem": {}, "gem-depth=20": {}}, "envs": ["CartPole-v1"]}
    (tmp_path / "study.json").write_text(json.dumps(study))
    assert collect(tmp_path).methods == ["gem", "gem-depth=20"]


def test_estimation_errors_are_those_of_the_scored_step(tmp_path: Path) -> None:
    write_run(tmp_path / "gem", "gem", "Hopper-v5", 0, [1.0, 2.0, 3.0, 4.0])
    write_run(tmp_path / "td3", "td3", "Hopper-v5", 0, [1.0, 2.0])
    assert [(row["step"], row["mean"], row["error"]) for row in score_rows(collect(tmp_path))] == [(2000, 2, 2), (2000, 2, 2)]


def test_a_table_tells_what_it_leaves_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "gem", "gem", "Hopper-v5", 0, [1.0, 2.0])
    write_run(tmp_path / "td3", "td3", "Hopper-v5", 0, [7.0], steps=100_000)
    (write_run(tmp_path / "bad", "sac", "Hopper-v5", 0, [7.0]) / "evaluations.csv").write_text("step\nx\n")
    assert main(["report", str(tmp_path), "--table"]) == 0
    told = capsys.readouterr().out
    assert f"not finished: {tmp_path / 'td3'} is at step 1,000 of 100,000" in told
    assert f"left out: {tmp_path / 'bad'}/evaluations.csv is damaged" in told
    assert main(["report", str(tmp_path), "--table", "--out", "x"]) == 2
    assert capsys.readouterr().err == "gemrl: --table prints, so it has no --out\n"
