"""Studies as data: the studies of the paper, smaller versions of them, users' own studies, plans and time estimates."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemrl.algorithms.registry import RECIPES, Recipe, difference
from gemrl.cli.main import main
from gemrl.core.exceptions import BadValue, GemrlError, RunFolderError, UnknownName
from gemrl.core.files import write_json
from gemrl.core.mappings import differences
from gemrl.experiments import run_folder
from gemrl.experiments.studies.catalog import STUDIES, study
from gemrl.experiments.studies.estimates import Estimate, RunProgress, duration_text, makespan, run_progress, table_estimate
from gemrl.experiments.studies.folder import PlannedRun, check_same_run, planned
from gemrl.experiments.studies.study import Entry, Study
from gemrl.experiments.studies.study_file import read_study_file, write_study_file
from gemrl.experiments.studies.toml_file import read_study
from gemrl.experiments.versions import versions

TRAINED = [name for name, known in STUDIES.items() if isinstance(known, Study)]


def get(name: str) -> Study:
    found = study(name)
    assert isinstance(found, Study)
    return found


@pytest.mark.parametrize("name", TRAINED)
def test_all_agents_of_a_study_have_the_same_warm_up(name: str, tmp_path: Path) -> None:
    known = get(name)
    assert {entry.algo for entry in known.entries} <= RECIPES.keys()
    plans = planned(known, tmp_path)
    for env in known.envs:
        assert len({plan.facts["recipe"]["learning_starts"] for plan in plans if plan.trial.env == env}) == 1
    folders = {plan.job.folder for plan in plans}
    assert len(folders) == len(plans) == len(known.algos) * len(known.envs) * len(known.seeds)


def test_named_studies() -> None:
    assert set(STUDIES) == {
        *("mujoco", "ablation", "nstep", "atari", "atari-rollout", "atari-sticky"),
        *("minatar", "cartpole", "episodic", "episodic-minatar", "episodic-mujoco", "ladder", "gem2-ladder", "theory", "quick"),
    }
    assert (get("mujoco").steps, len(get("mujoco").seeds), len(get("mujoco").envs)) == (1_000_000, 5, 6)
    assert len(get("atari").seeds) == 3
    for name, env, steps in (("episodic", "CartPole-v1", 50_000), ("episodic-minatar", "MinAtar/Breakout-v1", 200_000)):
        assert (get(name).envs, get(name).steps, get(name).seeds) == ((env,), steps, (0, 1))
        assert set(get(name).algos) == {"gem-discrete", "nec", "emdqn", "ebu", "mfec", "dqn"}
    assert (get("episodic-mujoco").algos, get("episodic-mujoco").steps) == (("gem", "emac", "td3"), 100_000)
    assert get("episodic-mujoco").envs == ("Hopper-v5", "Swimmer-v5")
    assert "Humanoid-v5" in get("ablation").envs
    assert get("quick").settings == ("learning_starts=1000",)
    for name in ("mujoco", "ablation", "nstep", "ladder"):
        assert get(name).settings == ("learning_starts=10000",)


def test_recipes_of_planned_runs(tmp_path: Path) -> None:
    plans = {(plan.trial.entry.label, plan.trial.env): plan for plan in planned(get("nstep").scaled(seeds=1), tmp_path)}
    for depth in (5, 1000):
        for env in ("Hopper-v5", "HalfCheetah-v5"):
            chosen = Recipe.from_dict(plans[f"td3-nstep-depth={depth}", env].facts["recipe"])
            assert chosen.planner.rollout_cap == depth
    presets = [Recipe.from_dict(plans["gem", env].facts["recipe"]) for env in ("Hopper-v5", "HalfCheetah-v5")]
    assert [chosen.planner.rollout_cap for chosen in presets] == [5, 1000]
    assert difference(*presets) == {"depth": (5, 1000)}
    assert plans["td3-nstep-depth=5", "Ant-v5"].job.folder == tmp_path / "td3-nstep-depth=5" / "Ant-v5" / "0"


def test_scaled() -> None:
    small = get("mujoco").scaled(steps=50, seeds=2, envs=("Hopper-v5",), algos=("gem", "td3"), eval_every=None)
    assert [str(trial.subfolder) for trial in small.trials] == [
        f"{algo}/Hopper-v5/{seed}" for seed in (0, 1) for algo in ("gem", "td3")
    ]
    assert (small.steps, small.eval_every) == (50, 10_000)
    assert get("nstep").scaled(algos=("td3-nstep-depth=5",)).entries == (Entry("td3-nstep", ("depth=5",)),)
    assert get("minatar").scaled(algos=("gem", "dqn")).algos == ("gem-discrete", "dqn")  # the folder of its runs
    assert get("mujoco").scaled(algos=("gem depth=20",)).entries[0].label == "gem-depth=20"
    assert str(Study("a", "a", ("gem",), ("pkg.mod:Own/Env-v0",)).trials[0].subfolder) == "gem/pkg.mod-Own-Env-v0/0"


OWN = """
algos = ["gem", "td3-nstep depth=20"]
envs = ["Pendulum-v1"]
seeds = [3, 5]
steps = 1_000
settings = ["learning_starts=100"]
"""


def test_study_in_a_toml_file(tmp_path: Path) -> None:
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
        ("[3, 5]", "[3, 3]", "seeds contains 3 twice"),
        ("[3, 5]", "[3, -5]", "seeds in .* must be a whole number or a list of them"),
        ("[3, 5]", "0", "seeds must be"),
        ("[3, 5]", f"[3, {2**40}]", "a seed in seeds must be a whole number from 0 to 4,294,967,295, not 1099511627776"),
        ("1_000", f"{10**18}", "steps must be a whole number of at most 1,000,000,000"),
        ('"gem"', '" "', "empty name"),
        ('"gem"', '"gem depth"', "takes field=value"),
        ('"gem"', '"gem net_arch=(400, 300)"', "a recipe in algos takes field=value, not '300\\)', without spaces"),
        ('["Pendulum-v1"]', '["a/b-v0", "a:b-v0"]', "envs contains a-b-v0 twice"),
        ("algos =", 'env_args = ["five"]\nalgos =', "^env_args takes KEY=VALUE, not 'five'$"),
        ("[3, 5]", "2.5", "seeds in .* must be a whole number or a list of them"),
        ('["Pendulum-v1"]', "[]", "at least one value in envs"),
        ('envs = ["Pendulum-v1"]', "", "must set envs"),
        ("algos =", 'name = "../out"\nalgos =', "cannot be '../out'"),
        ("algos =", "algos", "is not valid TOML"),
    ],
)
def test_invalid_toml_file(tmp_path: Path, old: str, new: str, message: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(OWN.replace(old, new, 1))
    with pytest.raises(BadValue, match=message):
        _ = read_study(file).trials


def test_unknown_names(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean 'mujoco'"):
        study("mujco")
    with pytest.raises(BadValue, match="cannot read"):
        study(str(tmp_path / "none.toml"))
    with pytest.raises(UnknownName, match=r"study quick cannot be started: unknown algorithm 'td4'; did you mean 'td3'"):
        planned(get("quick").scaled(algos=("td4",)), tmp_path)
    with pytest.raises(GemrlError, match="did you mean 'Pendulum-v1'"):
        planned(get("quick").scaled(envs=("Pendulm-v1",)), tmp_path)
    with pytest.raises(UnknownName, match="did you mean 'depth'"):
        planned(get("quick").scaled(algos=("gem dept=3",)), tmp_path)


def test_makespan_and_durations() -> None:
    assert makespan([], 2) == 0
    assert makespan([3, 1, 1, 4], 1) == 9
    assert makespan([3, 1, 1, 4], 2) == 6
    assert makespan([3, 1, 1, 4], 9) == 4
    assert [duration_text(seconds) for seconds in (0.2, 45, 600, 9000, 400_000)] == ["1 s", "45 s", "10 min", "2.5 h", "4.6 days"]


def write_progress(plan: PlannedRun, step: int, seconds: float) -> None:
    plan.job.folder.mkdir(parents=True)
    text = f"time/total_timesteps,time/time_elapsed\n{step // 2},{seconds / 4}\n{step},{seconds}\n{step + 1},9"
    (plan.job.folder / "progress.csv").write_text(text)


def test_estimate_uses_runs_in_the_folder(tmp_path: Path) -> None:
    plans = planned(get("quick"), tmp_path)
    before = Estimate(plans)
    assert "may be off" in before.source
    assert before.left(plans[0], RunProgress()) == table_estimate(plans[0], 5000) + 1
    slow = 10 * table_estimate(plans[0], 5000)
    write_progress(plans[0], 5000, slow)
    assert run_progress(plans[0].job.folder) == RunProgress(
        5000, slow, 2500 / (0.75 * slow), None
    )  # the incomplete line does not count
    after = Estimate(plans)
    same = [plan for plan in plans if str(plan.trial.subfolder.parent) == str(plans[0].trial.subfolder.parent)]
    assert len(same) == 2
    for plan in plans:  # this run was ten times slower than the table, so the others will be too
        assert after.left(plan, RunProgress()) / before.left(plan, RunProgress()) == pytest.approx(10, rel=0.1)
    assert after.left(plans[0], run_progress(plans[0].job.folder)) < 5
    assert "from 1 run in this folder" in after.source


def test_studies_are_listed_without_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in STUDIES)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["theory", "--steps", "5"], "does not train, so --steps does not apply"),
        (["theory", "--set", "gamma=0.9"], "does not train, so --set does not apply"),
        (["theory", "--results-only"], "does not train, so --results-only does not apply"),
        (["quick", "--address", "127.0.0.1:1"], "--address needs --executor ray"),
        (["quick", "--gpus-per-run", "0.5"], "--gpus-per-run needs --executor ray"),
        (["quick", "--gpus-per-run", "-1"], "'-1' is not a number of GPUs"),
        (["quick", "--executor", "rai"], "invalid choice: 'rai'"),
        (["quick", "--results-only", "--keep-checkpoints"], "not allowed with"),
        (["quick", "--workres", "2"], "did you mean '--workers'"),
        (["quick", "--seeds", "0"], "at least 1"),
    ],
)
def test_invalid_options(options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", *options, "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_dry_run_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("quick", "theory"):
        assert main(["study", name, "--dry-run", "--out", str(tmp_path / "out")]) == 0
    assert "12 not started" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_run_without_a_newer_field_is_accepted(tmp_path: Path) -> None:
    """A field that is missing in its recipe has the value that reproduces the run."""
    plan = planned(get("quick").scaled(seeds=1, envs=("Pendulum-v1",), algos=("gem",)), tmp_path)[0]
    recipe = {name: value for name, value in plan.facts["recipe"].items() if name != "norm_first"}
    description = plan.facts | {
        "checkpoint_every": None,
        "threads": 1,
        "xla_flags": "",
        "versions": versions(),
        "device": "auto",
        "tensorboard": False,
    }
    plan.job.folder.mkdir(parents=True)
    run_folder.create(plan.job.folder, description | {"recipe": recipe})
    check_same_run(plan, tmp_path)
    write_json(plan.job.folder / "run.json", description | {"recipe": recipe | {"norm_first": True}})
    with pytest.raises(RunFolderError, match="norm_first is True there but False here"):
        check_same_run(plan, tmp_path)


def test_damaged_log_does_not_stop_a_study(tmp_path: Path) -> None:
    (tmp_path / "progress.csv").write_bytes(b"time/total_timesteps,time/time_elapsed\n1000,2.0\n2000,\xff\n")
    assert run_progress(tmp_path).step == 2000


def test_warning_if_all_steps_are_warm_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "quick", "--steps", "1000", "--algo", "gem", "td3", "--out", str(tmp_path), "--dry-run"]) == 0
    assert "warning: nothing is learned in 1,000 steps of gem, td3" in capsys.readouterr().out
    assert main(["study", "quick", "--steps", "1001", "--out", str(tmp_path), "--dry-run"]) == 0
    assert "warning:" not in capsys.readouterr().out
    (tmp_path / "file").touch()
    assert main(["study", "quick", "--out", str(tmp_path / "file"), "--dry-run"]) == 2
    assert "is a file; a study needs a folder" in capsys.readouterr().err


def test_study_file_is_read_strictly_by_studies_and_leniently_by_reports(tmp_path: Path) -> None:
    assert read_study_file(tmp_path, strict=True) == read_study_file(tmp_path, strict=False) == {}
    content = {"name": "own", "title": "Own", "algos": {"gem": {}}, "envs": ["Pendulum-v1"]}
    write_study_file(tmp_path, content)
    assert read_study_file(tmp_path, strict=False) == {"format": 1, **content}
    with pytest.raises(RunFolderError, match=r"study\.json is damaged"):  # enough for a report, but not to continue
        read_study_file(tmp_path, strict=True)
    numbers = {"seeds": [0], "steps": 9, "eval_every": 3, "eval_episodes": 1, "settings": [], "recipes": {"gem": {}}}
    write_study_file(tmp_path, content | numbers)
    assert read_study_file(tmp_path, strict=True) == {"format": 1, **content, **numbers}
    for damaged in ("{", "[]", '{"name": 3}'):
        (tmp_path / "study.json").write_text(damaged)
        for strict in (False, True):
            with pytest.raises(RunFolderError, match=r"study\.json is damaged"):
                read_study_file(tmp_path, strict=strict)


def test_differences_of_mappings() -> None:
    assert differences({"a": 1, "b": 2, "c": 3}, {"d": 4, "c": 5, "a": 1}) == {"b": (2, None), "c": (3, 5), "d": (None, 4)}
    assert list(differences({"b": 1, "a": 1}, {"c": 1})) == ["b", "a", "c"]
