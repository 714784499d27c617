"""How runs, tasks and methods are identified when a folder of runs is read."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gemrl.analysis.palette import BLUE, styles
from gemrl.analysis.report.markdown import digits, score_table
from gemrl.analysis.report.summary import curves, reference, score_rows
from gemrl.analysis.results.collection import Collection, collect
from gemrl.analysis.results.run import task_name
from gemrl.analysis.results.scales import DECLINED, OWN, scale
from gemrl.cli.main import main
from tests.folders import write_run, write_study


def changed(folder: Path, **values: Any) -> Path:
    """The run, with these values in its run.json."""
    description = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(description | values))
    return folder


def counted(collection: Collection) -> dict[tuple[str, str], int]:
    """The number of compared runs by method and environment."""
    pairs = [(method, env) for method in collection.methods for env in collection.envs]
    return {pair: len(collection.of(*pair)) for pair in pairs if collection.of(*pair)}


def test_copied_runs_count_once(tmp_path: Path) -> None:
    """Studies share methods, tasks and seeds: a copy of a run is not another sample."""
    original = collect(write_study(tmp_path / "one"))
    shutil.copytree(tmp_path / "one" / "gem", tmp_path / "two" / "gem")
    both = collect(tmp_path)
    assert counted(both) == counted(original) == {(a, e): 3 for a in ("gem", "td3") for e in ("HalfCheetah-v5", "Hopper-v5")}
    assert len(both.left_out) == 6
    assert both.left_out[0].endswith(f"is the same run as {tmp_path / 'one' / 'gem' / 'HalfCheetah-v5' / '0'}")
    assert [row["low"] for row in score_rows(both)] == [row["low"] for row in score_rows(original)]


def test_copies_of_different_length_count_once(tmp_path: Path) -> None:
    """The longer copy is used, whichever is read first; a run with other evaluations is another run."""
    for short, long in (("a", "b"), ("d", "c")):
        write_run(tmp_path / "td3" / short, "td3", "Hopper-v5", len(short), [1, 2, 3])
        write_run(tmp_path / "td3" / long, "td3", "Hopper-v5", len(short), [1, 2, 3, 4])
        (run,) = collect(tmp_path).runs
        assert run.last_step == 4000
    write_run(tmp_path / "td3" / "e", "td3", "Hopper-v5", 1, [1, 2, 5])
    assert len(collect(tmp_path).runs) == 2


def test_equal_recipes_with_different_names_are_two_methods(tmp_path: Path) -> None:
    """For example gem and `gem depth=5` on Hopper, whose preset is 5."""
    for name in ("gem", "gem-depth=5"):
        write_run(tmp_path / name / "Hopper-v5" / "0", "gem", "Hopper-v5", 0, [1, 2], depth=5)
    assert counted(collect(tmp_path)) == {("gem", "Hopper-v5"): 1, ("gem-depth=5", "Hopper-v5"): 1}


def test_older_runs_without_a_field_belong_to_the_same_method(tmp_path: Path) -> None:
    for seed in (0, 1):
        write_run(tmp_path / str(seed), "gem", "Hopper-v5", seed, [1])
    description = json.loads((tmp_path / "0" / "run.json").read_text())
    del description["recipe"]["norm_first"]
    (tmp_path / "0" / "run.json").write_text(json.dumps(description))
    assert counted(collect(tmp_path)) == {("gem", "Hopper-v5"): 2}
    changed(tmp_path / "0", recipe=description["recipe"] | {"norm_first": True})
    assert collect(tmp_path).methods == ["gem norm_first=False", "gem norm_first=True"]


def test_symbolic_links_are_followed_once(tmp_path: Path) -> None:
    write_run(tmp_path / "elsewhere" / "0", "gem", "Hopper-v5", 0, [1])
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "gem").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "loop").symlink_to(tmp_path / "here")
    (run,) = collect(tmp_path / "here").runs
    assert run.folder == tmp_path / "here" / "gem" / "0"


def test_scale_if_no_method_improves(tmp_path: Path) -> None:
    for algo, end in (("gem", -1400.0), ("td3", -1500.0)):
        write_run(tmp_path / algo, algo, "Mine-v0", 0, [-1000.0, end])
    found = collect(tmp_path)
    assert scale(found, "Mine-v0") == (-1250, -1000, DECLINED)
    assert [row["normalised"] for row in score_rows(found)] == [0.2, 0]
    write_run(tmp_path / "flat", "sac", "Flat-v0", 0, [3.0, 3.0])
    assert scale(collect(tmp_path), "Flat-v0")[:2] == (3, 4)


def test_short_trials_do_not_determine_the_compared_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They end before the first evaluation of others. They are listed, and drawn if their method has no other run."""
    write_run(tmp_path / "td3" / "Pendulum-v1" / "0", "td3", "Pendulum-v1", 0, [-900.0], every=1_000)
    write_run(tmp_path / "td3" / "Pendulum-v1" / "1", "td3", "Pendulum-v1", 1, [-500.0, -100.0], every=10_000)
    write_run(tmp_path / "sac" / "Pendulum-v1" / "0", "sac", "Pendulum-v1", 0, [-800.0], every=1_000)
    found = collect(tmp_path)
    assert found.final_step("Pendulum-v1") == 20_000
    (row,) = score_rows(found)
    assert (row["method"], row["runs"], row["mean"]) == ("td3", 1, -300.0)
    assert [[run.last_step for run in found.shown(method, "Pendulum-v1")] for method in ("td3", "sac")] == [[20_000], [1_000]]
    assert len(found.left_out) == 2
    assert "0 ends at step 1,000, but runs on Pendulum-v1 are compared at step 20,000" in found.left_out[0]
    others = tmp_path / "others.csv"
    others.write_text("method,env,step,return\nA,Pendulum-v1,20000,-300\n")
    assert main(["compare", str(tmp_path), "--csv", str(others)]) == 0
    assert "left out: " in capsys.readouterr().out


def test_unfinished_runs_do_not_affect_the_scores_of_finished_ones(tmp_path: Path) -> None:
    """As in a report during a study: the unfinished run has a curve but no score yet."""
    write_run(tmp_path / "gem", "gem", "Hopper-v5", 0, range(100), every=10_000)
    write_run(tmp_path / "td3", "td3", "Hopper-v5", 0, [50], every=10_000, steps=1_000_000)
    found = collect(tmp_path)
    assert [(row["method"], row["mean"], row["step"]) for row in score_rows(found)] == [("gem", 98.0, 1_000_000)]
    assert len(found.shown("td3", "Hopper-v5")) == 1
    assert "td3" not in score_table(found)
    assert curves(found, "Hopper-v5", "return_mean")["td3"]["mean"].tolist() == [50]


def test_every_compared_run_has_a_score(tmp_path: Path) -> None:
    """For random lengths and evaluation intervals."""
    rng = np.random.default_rng(0)
    for case in range(60):
        folder = tmp_path / str(case)
        for number in range(int(rng.integers(1, 7))):
            every, count = int(rng.choice([1000, 3000, 20_000])), int(rng.integers(1, 9))
            steps = every * count * int(rng.choice([1, 2]))
            algo = str(rng.choice(["gem", "td3"]))
            write_run(folder / str(number), algo, "Hopper-v5", number, range(count), every=every, steps=steps)
        rows = score_rows(collect(folder))
        assert rows
        assert all(np.isfinite([row["mean"], row["area"], row["error"]]).all() for row in rows)


def test_speed_uses_the_last_line_of_progress(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", "gem", "Hopper-v5", 0, [1], every=10_000, steps=20_000)
    text = (folder / "progress.csv").read_text().splitlines()
    (folder / "progress.csv").write_text("\n".join([*text, text[1].replace("10000,", "19000,", 1).replace("5000.0", "9500.0")]))
    (run,) = collect(tmp_path).runs
    assert run.speed == 2.0


def test_small_returns_keep_their_decimals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for algo, value in (("gem-tabular", 0.82), ("q-learning", 0.79)):
        write_run(tmp_path / algo, algo, "FrozenLake-v1", 0, [value])
    assert "**0.82 (1 run)** | 0.79 (1 run)" in score_table(collect(tmp_path))
    others = tmp_path / "others.csv"
    others.write_text("method,env,step,return\nA,FrozenLake-v1,1000,0.55\n")
    assert main(["compare", str(tmp_path), "--csv", str(others)]) == 0
    assert re.search(r"0\.55 +0\.82 +0\.79", capsys.readouterr().out)
    printed = [f"{value:.{digits(value)}f}" for value in (0.0, -0.00052, 0.031, 0.9, 5.0)]
    assert printed == ["0.00", "-0.00052", "0.031", "0.90", "5.00"]


def test_folder_names_that_only_start_like_a_method_are_ignored(tmp_path: Path) -> None:
    write_run(tmp_path / "gemrl-runs" / "gemini-v0" / "0", "gem", "gemini-v0", 0, [1])
    write_run(tmp_path / "gem-depth-5" / "gemini-v0" / "0", "gem", "gemini-v0", 1, [1], depth=7)
    write_run(tmp_path / "gem" / "no-tbp" / "0", "gem-no-tbp", "gemini-v0", 0, [1])
    write_run(tmp_path / "td3" / "five" / "0", "td3-nstep", "gemini-v0", 0, [1])
    assert collect(tmp_path).methods == ["gem", "gem-depth-5", "gem-no-tbp", "td3-nstep"]
    write_run(tmp_path / "discrete" / "gem" / "CartPole-v1" / "0", "gem-discrete", "CartPole-v1", 0, [1])
    assert collect(tmp_path / "discrete").methods == ["gem"]  # as requested with --algo gem


def test_gem_with_settings_is_recognised_as_gem(tmp_path: Path) -> None:
    write_run(tmp_path / "0", "ddpg", "Hopper-v5", 0, [1])
    for depth in (5, 50):
        write_run(tmp_path / str(depth), "gem", "Hopper-v5", 0, [1], depth=depth)
    found = collect(tmp_path)
    assert reference(found).startswith("gem ")
    assert styles(found.methods)["ddpg"].colour != BLUE


@pytest.mark.parametrize("env", ["mylab/Ant-v0", "my_envs:Hopper-v0", "Hopper-vehicle"])
def test_custom_tasks_have_their_own_scale(env: str, tmp_path: Path) -> None:
    write_run(tmp_path, "gem", env, 0, [1, 2])
    assert scale(collect(tmp_path), env).source == OWN


def test_environment_arguments_change_the_scale(tmp_path: Path) -> None:
    changed(write_run(tmp_path, "gem", "Ant-v5", 0, [1, 2]), env_args={"ctrl_cost_weight": 0.0})
    found = collect(tmp_path)
    assert found.envs == ["Ant-v5 (ctrl_cost_weight=0.0)"]
    assert scale(found, found.envs[0]).source == OWN


def test_equal_curves_of_different_seeds_are_different_runs(tmp_path: Path) -> None:
    for seed in range(2):
        write_run(tmp_path / str(seed), "gem", "Hopper-v5", seed, [1.0, 2.0])
    assert counted(collect(tmp_path)) == {("gem", "Hopper-v5"): 2}


def test_environment_arguments_make_different_tasks(tmp_path: Path) -> None:
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
    assert collect(tmp_path / "d").envs == [f"ALE/Alien-v5 ({sticky}=0.25)"]  # sticky actions are not the default


def test_damaged_environment_arguments_are_reported(tmp_path: Path) -> None:
    write_run(tmp_path / "good", "gem", "Hopper-v5", 0, [1.0])
    changed(write_run(tmp_path / "bad", "gem", "Hopper-v5", 1, [1.0]), env_args=3)
    found = collect(tmp_path)
    assert [run.seed for run in found.runs] == [0]
    assert "run.json is damaged: env_args must be an object with fields, not 3" in found.left_out[0]


def test_number_of_environments_makes_different_methods(tmp_path: Path) -> None:
    changed(write_run(tmp_path / "a", "gem", "Hopper-v5", 0, [1.0]), n_envs=1)
    changed(write_run(tmp_path / "b", "gem", "Hopper-v5", 1, [2.0]), n_envs=8)
    assert collect(tmp_path).methods == ["gem n_envs=1", "gem n_envs=8"]


def test_study_determines_the_names_of_methods(tmp_path: Path) -> None:
    """`gem depth=20` is gem-discrete on discrete actions, but not the method that the study calls gem."""
    write_run(tmp_path / "gem" / "CartPole-v1" / "0", "gem-discrete", "CartPole-v1", 0, [1.0])
    write_run(tmp_path / "gem-depth=20" / "CartPole-v1" / "0", "gem-discrete", "CartPole-v1", 0, [2.0], depth=20)
    study = {"name": "own", "title": "Own", "algos": {"gem": {}, "gem-depth=20": {}}, "envs": ["CartPole-v1"]}
    (tmp_path / "study.json").write_text(json.dumps(study))
    assert collect(tmp_path).methods == ["gem", "gem-depth=20"]


def test_estimation_errors_are_taken_at_the_compared_step(tmp_path: Path) -> None:
    write_run(tmp_path / "gem", "gem", "Hopper-v5", 0, [1.0, 2.0, 3.0, 4.0])
    write_run(tmp_path / "td3", "td3", "Hopper-v5", 0, [1.0, 2.0])
    assert [(row["step"], row["mean"], row["error"]) for row in score_rows(collect(tmp_path))] == [(2000, 1.5, 2), (2000, 1.5, 2)]


def test_table_lists_what_it_leaves_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "gem", "gem", "Hopper-v5", 0, [1.0, 2.0])
    write_run(tmp_path / "td3", "td3", "Hopper-v5", 0, [7.0], steps=100_000)
    (write_run(tmp_path / "bad", "sac", "Hopper-v5", 0, [7.0]) / "evaluations.csv").write_text("step\nx\n")
    assert main(["report", str(tmp_path), "--table"]) == 0
    shown = capsys.readouterr().out
    assert f"not finished: {tmp_path / 'td3'} is at step 1,000 of 100,000" in shown
    assert f"left out: {tmp_path / 'bad'}/evaluations.csv is damaged" in shown
    assert main(["report", str(tmp_path), "--table", "--out", "x"]) == 2
    assert capsys.readouterr().err == "gemrl: --table writes no file, so it cannot be combined with --out\n"
