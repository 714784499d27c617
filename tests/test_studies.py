"""Studies as data: what the paper's figures need, how they are scaled down, and studies of a user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemrl.algorithms.registry import RECIPES, Recipe, difference
from gemrl.cli.main import main
from gemrl.core.exceptions import BadValue, GemrlError, RunFolderError, UnknownName
from gemrl.core.files import write_json
from gemrl.experiments import run_folder
from gemrl.experiments.studies.estimates import Estimate, RunProgress, duration_text, makespan, run_progress, table_estimate
from gemrl.experiments.studies.folder import PlannedRun, check_same, planned
from gemrl.experiments.studies.study import STUDIES, Entry, Study, read_study, study
from gemrl.experiments.versions import versions

TRAINED = [name for name, one in STUDIES.items() if isinstance(one, Study)]


def get(name: str) -> Study:
    found = study(name)
    assert isinstance(found, Study)
    return found


@pytest.mark.parametrize("name", TRAINED)
def test_all_agents_of_a_study_have_the_same_warm_up(name: str, tmp_path: Path) -> None:
    one = get(name)
    assert {entry.algo for entry in one.entries} <= RECIPES.keys()
    plans = planned(one, tmp_path)
    for env in one.envs:
        assert len({plan.facts["recipe"]["learning_starts"] for plan in plans if plan.run.env == env}) == 1
    places = {plan.job.folder for plan in plans}
    assert len(places) == len(plans) == len(one.algos) * len(one.envs) * len(one.seeds)


def test_studies_are_those_of_the_paper() -> None:
    assert set(STUDIES) == {
        *("mujoco", "ablation", "nstep", "atari", "atari-rollout", "atari-sticky"),
        *("minatar", "cartpole", "ladder", "theory", "quick"),
    }
    assert (get("mujoco").steps, len(get("mujoco").seeds), len(get("mujoco").envs)) == (1_000_000, 5, 6)
    assert len(get("atari").seeds) == 3
    assert "Humanoid-v5" in get("ablation").envs
    assert get("quick").settings == ("learning_starts=1000",)
    for name in ("mujoco", "ablation", "nstep", "ladder"):
        assert get(name).settings == ("learning_starts=10000",)


def test_each_run_has_the_recipe_that_its_entry_says(tmp_path: Path) -> None:
    plans = {(plan.run.entry.label, plan.run.env): plan for plan in planned(get("nstep").scaled(seeds=1), tmp_path)}
    for depth in (5, 1000):
        for env in ("Hopper-v5", "HalfCheetah-v5"):
            chosen = Recipe.from_dict(plans[f"td3-nstep-depth={depth}", env].facts["recipe"])
            assert chosen.planner.rollout_cap == depth
    presets = [Recipe.from_dict(plans["gem", env].facts["recipe"]) for env in ("Hopper-v5", "HalfCheetah-v5")]
    assert [chosen.planner.rollout_cap for chosen in presets] == [5, 1000]
    assert set(difference(*presets)) == {"targets"}
    assert plans["td3-nstep-depth=5", "Ant-v5"].job.folder == tmp_path / "td3-nstep-depth=5" / "Ant-v5" / "0"


def test_scaling_down() -> None:
    small = get("mujoco").scaled(steps=50, seeds=2, envs=("Hopper-v5",), algos=("gem", "td3"), eval_every=None)
    assert [str(run.place) for run in small.runs] == [f"{algo}/Hopper-v5/{seed}" for seed in (0, 1) for algo in ("gem", "td3")]
    assert (small.steps, small.eval_every) == (50, 10_000)
    assert get("nstep").scaled(algos=("td3-nstep-depth=5",)).entries == (Entry("td3-nstep", ("depth=5",)),)
    assert get("minatar").scaled(algos=("gem", "dqn")).algos == ("gem-discrete", "dqn")  # where its runs are
    assert get("mujoco").scaled(algos=("gem depth=20",)).entries[0].label == "gem-depth=20"
    assert str(Study("a", "a", ("gem",), ("pkg.mod:Own/Env-v0",)).runs[0].place) == "gem/pkg.mod-Own-Env-v0/0"


OWN = """
algos = ["gem", "td3-nstep depth=20"]
envs = ["Pendulum-v1"]
seeds = [3, 5]
steps = 1_000
settings = ["learning_starts=100"]
"""


def test_a_study_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(OWN)
    own = read_study(file)
    assert (own.name, own.seeds, own.steps, own.settings) == ("mine", (3, 5), 1000, ("learning_starts=100",))
    assert study(str(file)) == own
    file.write_text(OWN.replace("[3, 5]", "2"))
    assert read_study(file).seeds == (0, 1)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("steps", "stesp", "did you mean 'steps'"),
        ("1_000", '"many"', "steps in .* must be a whole number"),
        ("1_000", "true", "steps in .* must be a whole number"),
        ("1_000", "0", "steps must be a whole number of at least 1"),
        ("[3, 5]", "[3, 3]", "seeds name 3 twice"),
        ("[3, 5]", "[3, -5]", "seeds in .* must be a whole number or a list of them"),
        ("[3, 5]", "0", "seeds must be"),
        ('"gem"', '" "', "empty name"),
        ('"gem"', '"gem depth"', "takes field=value"),
        ('"gem"', '"gem net_arch=(400, 300)"', "a recipe in algos takes field=value, not '300\\)', without spaces"),
        ('["Pendulum-v1"]', '["a/b-v0", "a:b-v0"]', "envs name a-b-v0 twice"),
        ("algos =", 'env_args = ["five"]\nalgos =', "^env_args takes KEY=VALUE, not 'five'$"),
        ("[3, 5]", "2.5", "seeds in .* must be a whole number or a list of them"),
        ('["Pendulum-v1"]', "[]", "at least one of its envs"),
        ('envs = ["Pendulum-v1"]', "", "does not say its envs"),
        ("algos =", 'name = "../out"\nalgos =', "cannot be '../out'"),
        ("algos =", "algos", "is not TOML"),
    ],
)
def test_a_study_that_is_wrong_says_so(tmp_path: Path, old: str, new: str, message: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(OWN.replace(old, new, 1))
    with pytest.raises(BadValue, match=message):
        _ = read_study(file).runs


def test_names_that_do_not_exist(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean 'mujoco'"):
        study("mujco")
    with pytest.raises(BadValue, match="cannot read"):
        study(str(tmp_path / "none.toml"))
    with pytest.raises(UnknownName, match=r"study quick cannot be started here: unknown algorithm 'td4'; did you mean 'td3'"):
        planned(get("quick").scaled(algos=("td4",)), tmp_path)
    with pytest.raises(GemrlError, match="did you mean 'Pendulum-v1'"):
        planned(get("quick").scaled(envs=("Pendulm-v1",)), tmp_path)
    with pytest.raises(UnknownName, match="did you mean 'depth'"):
        planned(get("quick").scaled(algos=("gem dept=3",)), tmp_path)


def test_jobs_are_spread_as_they_come() -> None:
    assert makespan([], 2) == 0
    assert makespan([3, 1, 1, 4], 1) == 9
    assert makespan([3, 1, 1, 4], 2) == 6
    assert makespan([3, 1, 1, 4], 9) == 4
    assert [duration_text(seconds) for seconds in (0.2, 45, 600, 9000, 400_000)] == ["1 s", "45 s", "10 min", "2.5 h", "4.6 days"]


def write_progress(plan: PlannedRun, step: int, seconds: float) -> None:
    plan.job.folder.mkdir(parents=True)
    text = f"time/total_timesteps,time/time_elapsed\n{step // 2},{seconds / 4}\n{step},{seconds}\n{step + 1},9"
    (plan.job.folder / "progress.csv").write_text(text)


def test_an_estimate_learns_from_runs_in_the_folder(tmp_path: Path) -> None:
    plans = planned(get("quick"), tmp_path)
    before = Estimate(plans)
    assert "may be off" in before.source
    assert before.left(plans[0], RunProgress()) == table_estimate(plans[0], 5000) + 1
    slow = 10 * table_estimate(plans[0], 5000)
    write_progress(plans[0], 5000, slow)
    assert run_progress(plans[0].job.folder) == RunProgress(5000, slow, 2500 / (0.75 * slow), None)  # without the half line
    after = Estimate(plans)
    same = [plan for plan in plans if plan.run[:2] == plans[0].run[:2]]
    assert len(same) == 2
    for plan in plans:  # ten times slower here, so all others will be too
        assert after.left(plan, RunProgress()) / before.left(plan, RunProgress()) == pytest.approx(10, rel=0.1)
    assert after.left(plans[0], run_progress(plans[0].job.folder)) < 5
    assert "from 1 run in this folder" in after.source


def test_without_a_name_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in STUDIES)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["theory", "--steps", "5"], "trains nothing, so it has no --steps"),
        (["theory", "--set", "gamma=0.9"], "trains nothing, so it has no --set"),
        (["theory", "--results-only"], "trains nothing, so it has no --results-only"),
        (["quick", "--address", "127.0.0.1:1"], "--address is for --executor ray"),
        (["quick", "--gpus-per-run", "0.5"], "--gpus-per-run is for --executor ray"),
        (["quick", "--gpus-per-run", "-1"], "'-1' is not a number of GPUs"),
        (["quick", "--executor", "rai"], "invalid choice: 'rai'"),
        (["quick", "--results-only", "--keep-checkpoints"], "not allowed with"),
        (["quick", "--workres", "2"], "did you mean '--workers'"),
        (["quick", "--seeds", "0"], "at least 1"),
    ],
)
def test_wrong_words(words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", *words, "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_dry_run_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("quick", "theory"):
        assert main(["study", name, "--dry-run", "--out", str(tmp_path / "out")]) == 0
    assert "12 to start" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_a_run_from_before_a_field_was_there_counts(tmp_path: Path) -> None:
    """What its recipe does not name has the value that it always had."""
    plan = planned(get("quick").scaled(seeds=1, envs=("Pendulum-v1",), algos=("gem",)), tmp_path)[0]
    recipe = {name: value for name, value in plan.facts["recipe"].items() if name != "norm_first"}
    described = plan.facts | {
        "checkpoint_every": None,
        "threads": 1,
        "xla_flags": "",
        "versions": versions(),
        "device": "auto",
        "tensorboard": False,
    }
    plan.job.folder.mkdir(parents=True)
    run_folder.create(plan.job.folder, described | {"recipe": recipe})
    check_same(plan)
    write_json(plan.job.folder / "run.json", described | {"recipe": recipe | {"norm_first": True}})
    with pytest.raises(RunFolderError, match="norm_first is True there and False here"):
        check_same(plan)


def test_bytes_that_are_no_text_do_not_end_a_study(tmp_path: Path) -> None:
    (tmp_path / "progress.csv").write_bytes(b"time/total_timesteps,time/time_elapsed\n1000,2.0\n2000,\xff\n")
    assert run_progress(tmp_path).step == 2000


def test_a_study_that_is_all_warm_up_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "quick", "--steps", "1000", "--algo", "gem", "td3", "--out", str(tmp_path), "--dry-run"]) == 0
    assert "warning: nothing is learnt in 1,000 steps by gem, td3" in capsys.readouterr().out
    assert main(["study", "quick", "--steps", "1001", "--out", str(tmp_path), "--dry-run"]) == 0
    assert "warning" not in capsys.readouterr().out
    (tmp_path / "file").touch()
    assert main(["study", "quick", "--out", str(tmp_path / "file"), "--dry-run"]) == 2
    assert "is a file; a study needs a folder" in capsys.readouterr().err
