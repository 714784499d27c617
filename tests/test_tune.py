"""`gemrl tune`: search spaces, every trial exactly once whatever is killed, pruning, and what is made of the results."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from gemrl.algorithms.registry import RECIPES
from gemrl.algorithms.search_spaces import SPACES, Choice, Range, check_space, default_space
from gemrl.analysis.results.collection import collect
from gemrl.analysis.results.searches import search_record
from gemrl.cli.main import main
from gemrl.core.exceptions import BadValue, RunFolderError
from gemrl.core.locking import is_free
from gemrl.experiments.executors.base import Job
from gemrl.experiments.executors.registry import EXECUTORS
from gemrl.experiments.run_folder import describe, seal_results
from gemrl.experiments.run_logs import read_returns
from gemrl.experiments.studies import runner as study_runner
from gemrl.experiments.studies.study import Study
from gemrl.experiments.tuning import store as store_module
from gemrl.experiments.tuning.files import TrialRow, ranked, read_search, write_trials
from gemrl.experiments.tuning.search import Search, score
from gemrl.experiments.tuning.space_file import read_space
from gemrl.experiments.tuning.store import TrialStore
from tests.folders import write_run

pytest.importorskip("optuna")

LAKE = ["FrozenLake-v1", "--env-args", "is_slippery=False", "--steps", "400", "--eval-every", "100", "--eval-episodes", "1"]
"""A search on a small table."""


@pytest.mark.parametrize("name", RECIPES)
def test_space_of_every_algorithm(name: str) -> None:
    """Every value alone, all low ends together and all high ends together make a valid recipe."""
    recipe = RECIPES[name]
    space = default_space(recipe)
    assert len(space) >= 4
    assert set(space) <= set(recipe.settable())
    check_space(recipe, space)
    for end in (0, -1):
        changed = recipe.but_from_text([(field, values.texts[end]) for field, values in space.items()]).settable()
        for field, values in space.items():
            expected = (values.low, values.high)[end] if isinstance(values, Range) else values.values[end]
            assert changed[field] == expected


def test_every_family_has_a_space() -> None:
    assert set(map(type, RECIPES.values())) == {family.kind for family in SPACES}
    for recipe in RECIPES.values():
        assert sum(family.fits(recipe) for family in SPACES) == 1


def test_space_does_not_turn_an_algorithm_into_another_one() -> None:
    def searched(name: str) -> set[str]:
        return set(default_space(RECIPES[name]))

    assert searched("td3-nstep") - searched("td3") == {"depth"}
    assert searched("gem") - searched("gem-no-asymmetry") == {"alpha"}
    assert searched("td3") - searched("ddpg") == {"target_policy_noise"}
    assert searched("emac") - searched("ddpg") == {"weight", "k", "every"}
    gradient_steps = {name: default_space(RECIPES[name])["gradient_steps"] for name in ("gem", "td3")}
    assert gradient_steps == {"gem": Choice((100, 200, 400)), "td3": Choice((1, 2, 4))}


def test_spaces_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "--spaces"]) == 0
    shown = capsys.readouterr().out
    assert all(family.title in shown and all(field in shown for field in family.fields) for family in SPACES)
    assert main(["tune", "--spaces", "--algo", "td3"]) == 0
    shown = capsys.readouterr().out
    assert "0.001 to 0.05, logarithmic" in shown
    assert "depth" not in shown


def test_space_in_a_toml_file(tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text(
        "[gamma]\nlow = 0.9\nhigh = 0.99\n[batch_size]\nlow = 16\nhigh = 64\nlog = true\n"
        '[net_arch]\nchoices = [[64, 64], [256]]\n[planner]\nchoices = ["Twin(depth=5)", "Single(depth=5)"]\n'
    )
    space = read_space(file)
    assert space["gamma"] == Range(0.9, 0.99)
    assert space["batch_size"] == Range(16, 64, log=True)
    assert space["net_arch"].texts == ("(64, 64)", "(256,)")
    check_space(RECIPES["gem"], space)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[gama]\nlow = 0.5\nhigh = 1.0", "unknown field 'gama'; did you mean 'gamma'?"),
        ("[adam_epsilon]\nlow = 0.5\nhigh = 1.0", "adam_epsilon is a field of other algorithms, not of this one"),
        ("[gamma]\nlow = 0.5\nhihg = 1.0", "did you mean 'high'?"),
        ("[gamma]\nlow = 0.5", "must have low and high (and may have log), or choices"),
        ("[gamma]\nlow = 0.5\nhigh = 2.0", "gamma must be a number from 0 to 1, not 2.0"),
        ("[gamma]\nlow = 0.9\nhigh = 0.5", "low must be smaller than high"),
        ("[gamma]\nlow = 0.0\nhigh = 0.5\nlog = true", "with log, low must be larger than 0"),
        ("[gamma]\nlow = 'x'\nhigh = 0.5", "low and high must be numbers, not 'x'"),
        ("[gamma]\nchoices = []", "choices must not be empty"),
        ("[gamma]\nchoices = [0.9, 0.9]", "choices contain a value twice"),
        ("[replays]\nlow = 0.0\nhigh = 3.0", "replays is a whole number, so low and high must be whole numbers, too"),
        ("gamma = 0.9", "gamma in FILE must be a table"),
        ("[gamma", "is not valid TOML"),
        ("", "names no field"),
    ],
)
def test_wrong_spaces(text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "space.toml"
    file.write_text(text)
    assert main(["tune", *LAKE, "--space", str(file), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert message.replace("FILE", str(file)) in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "ENV is missing"),
        (["FrozenLake-v1", "--algo", "gme"], "unknown algorithm 'gme'; did you mean 'gem'?"),
        (["FrozenLak-v1"], "unknown environment 'FrozenLak-v1'; did you mean 'FrozenLake-v1'?"),
        (["FrozenLake-v1", "--set", "gama=1"], "unknown field 'gama'; did you mean 'gamma'?"),
        (["Pendulum-v1", "--steps", "3000"], "learning_starts is 10,000; set a smaller one (such as --set learning_starts=300)"),
        (["FrozenLake-v1", "--storage", "nowhere"], "--storage takes a database URL"),
        (
            ["FrozenLake-v1", "--storage", "sqlite:////no/such/folder/x.db"],
            "cannot use the storage sqlite:////no/such/folder/x.db",
        ),
    ],
)
def test_wrong_use(arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", *arguments, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_missing_optuna_and_a_linked_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tune.db").symlink_to(tmp_path / "elsewhere.db")
    assert main(["tune", *LAKE, "--out", str(tmp_path)]) == 2
    assert "tune.db is a link" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert main(["tune", *LAKE, "--out", str(tmp_path / "out")]) == 2
    assert "pip install 'gemrl[tune]'" in capsys.readouterr().err


def test_score_is_the_mean_of_the_last_three_evaluations() -> None:
    assert score([{100: 1.0, 200: 2.0, 300: 6.0, 400: 7.0}, {100: 3.0}]) == (5 + 3) / 2


def test_ranking() -> None:
    states = [("complete", 1.0), ("pruned", 9.0), ("complete", 3.0), ("failed", None), ("complete", 3.0), ("running", None)]
    rows = [TrialRow(number, state, value, {}) for number, (state, value) in enumerate(states)]
    assert [row.number for row in ranked(rows)] == [2, 4, 0]


def lake_search(sampler: str = "random", **space: Range | Choice) -> Search:
    base = Study("search", "search", ("q-learning",), ("FrozenLake-v1",), (0,), 400, eval_every=100)
    return Search.of(base, sampler, "none", space or None)


def opened(folder: Path, owner: str, search: Search) -> TrialStore:
    return TrialStore(search, f"sqlite:///{folder}/shared.db", "shared", owner)


def test_machines_share_a_search(tmp_path: Path) -> None:
    """Numbers are given once, and only the owner of an unfinished trial continues it."""
    search = lake_search()
    one, two = opened(tmp_path, "aa", search), opened(tmp_path, "bb", search)
    started = [machine.start() for machine in (one, two, one)]
    assert [trial.number for trial in started] == [0, 1, 2]
    assert len({json.dumps(trial.settings) for trial in started}) == 3
    one.complete(started[0], 1.5)
    two.fail(started[1], "the motor is hot")
    assert [row[:3] for row in two.rows()] == [(0, "complete", 1.5), (1, "failed", None), (2, "running", None)]
    assert two.rows()[1].reason == "the motor is hot"
    again = opened(tmp_path, "aa", search)
    assert again.unfinished() == [started[2]]
    assert (two.unfinished(), two.count()) == ([], 3)
    with pytest.raises(RunFolderError, match="is a different search: sampler is random there but tpe here"):
        opened(tmp_path, "cc", lake_search("tpe"))


def test_trial_that_was_killed_while_its_settings_were_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search, suggest = lake_search(), store_module._suggested
    fields = list(search.space)

    def dying(trial: Any, name: str, values: Any) -> str:
        if name == fields[2]:
            raise KeyboardInterrupt
        return suggest(trial, name, values)

    killed = opened(tmp_path, "aa", search)
    monkeypatch.setattr(store_module, "_suggested", dying)
    with pytest.raises(KeyboardInterrupt):
        killed.start()
    monkeypatch.undo()
    store = opened(tmp_path, "aa", search)
    before = store.rows()[0].settings
    assert list(before) == fields[:2]
    (trial,) = store.unfinished()
    assert (trial.number, {name: trial.settings[name] for name in before}) == (0, before)
    assert list(trial.settings) == fields
    assert store.count() == 1


def test_sampler_learns_from_ended_trials(tmp_path: Path) -> None:
    """The score depends on one field alone, and TPE comes near its optimum."""
    space: dict[str, Range | Choice] = {"gamma": Range(0.0, 1.0), "power": Range(0.0, 1.0)}
    store, distances = opened(tmp_path, "aa", lake_search("tpe", **space)), []
    for _ in range(25):
        trial = store.start()
        distances.append(abs(float(trial.settings["gamma"]) - 0.7))
        store.complete(trial, -distances[-1])
    assert fmean(distances[15:]) < 0.5 * fmean(distances[:10])


@pytest.mark.parametrize("pruned", [False, True])
def test_importance_names_the_field_that_matters(pruned: bool, tmp_path: Path) -> None:
    """The score depends on a field with choices alone. Trials with the poor choice may be pruned."""
    space: dict[str, Range | Choice] = {"gamma": Range(0.0, 1.0), "power": Range(0.0, 1.0), "initial_value": Choice((0.0, 1.0))}
    store = opened(tmp_path, "aa", lake_search("random", **space))
    for number in range(16):
        if number == 9:
            assert store.importance() == {}
        trial = store.start()
        value = float(trial.settings["initial_value"])
        if pruned and not value:
            store.report(trial, {100: value})
            store.prune(trial)
        else:
            store.complete(trial, value)
    importance = store.importance()
    assert next(iter(importance)) == "initial_value"
    assert importance["initial_value"] > 0.5
    assert sum(importance.values()) == pytest.approx(1)


class ScriptedProcess:
    """A run that writes one evaluation at each poll. `returns` are those of the run; None is a failure."""

    def __init__(self, job: Job, returns: list[float] | None) -> None:
        self.job, self.returns, self.written, self.stopped = job, returns, 0, False

    def poll(self) -> int | None:
        if self.returns is None:
            self.job.log.parent.mkdir(exist_ok=True)
            self.job.log.write_text("gemrl: the motor is hot\n")
            return 1
        if self.stopped:
            return 130
        self.written += 1
        write_run(self.job.folder, "gem-tabular", "FrozenLake-v1", 0, self.returns[: self.written], every=100, steps=400)
        (self.job.folder / "checkpoints").mkdir(exist_ok=True)
        if self.written < len(self.returns):
            return None
        seal_results(self.job.folder)
        return 0

    def stop(self) -> None:
        self.stopped = True

    def kill(self) -> None:
        self.stopped = True


class Scripted:
    """An executor whose runs have the returns that a function of trial and seed gives."""

    def __init__(self, slots: int, returns: Callable[[int, int], list[float] | None]) -> None:
        self.slots, self.at_once, self._returns = slots, slots, returns
        self.processes: list[ScriptedProcess] = []

    def start(self, job: Job) -> ScriptedProcess:
        running = [process for process in self.processes if process.returns and process.written < len(process.returns)]
        assert len([process for process in running if not process.stopped]) < self.at_once
        self.processes.append(ScriptedProcess(job, self._returns(int(job.folder.parent.name), int(job.folder.name))))
        return self.processes[-1]

    def close(self) -> None: ...


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Scripted]:
    monkeypatch.setattr(study_runner, "POLL_SECONDS", 0.0)

    def install(returns: Callable[[int, int], list[float] | None], slots: int = 2) -> Scripted:
        made = Scripted(slots, returns)
        monkeypatch.setitem(EXECUTORS, "scripted", lambda options: made)
        return made

    return install


def tune(out: Path, *arguments: str) -> int:
    return main(["tune", *LAKE, "--out", str(out), "--executor", "scripted", *arguments])


def test_poor_trial_is_pruned(scripted: Callable[..., Scripted], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After five trials, one below their median stops at its first evaluation after a third of the steps."""
    executor = scripted(lambda number, seed: [-9.0, -9.0, -9.0, 99.0] if number == 6 else [1.0, 2.0, 3.0, 4.0], slots=1)
    executor.slots = 1000  # as on a cluster, which would take all trials before one of them has ended
    assert tune(tmp_path, "--trials", "8") == 0
    trials = read_search(tmp_path).trials
    assert [trial.state for trial in trials] == ["complete"] * 6 + ["pruned", "complete"]
    assert (trials[6].score, trials[6].step, trials[0].score) == (-9.0, 200, 3.0)
    poor = next(process for process in executor.processes if process.job.folder.parent.name == "6")
    assert (poor.stopped, poor.written) == (True, 2)
    assert not (tmp_path / "trials" / "6" / "0" / "checkpoints").exists()
    assert "trial 6: pruned at step 200" in capsys.readouterr().out
    scripted(lambda number, seed: [-9.0] * 4 if number == 6 else [1.0] * 4, slots=1)
    assert tune(tmp_path / "all", "--trials", "8", "--pruner", "none") == 0
    assert {trial.state for trial in read_search(tmp_path / "all").trials} == {"complete"}


def test_trial_with_several_seeds(scripted: Callable[..., Scripted], tmp_path: Path) -> None:
    """A trial's reports and score are means over its seeds; it is not given a second run of a seed."""
    executor = scripted(lambda number, seed: [float(seed)] * 3 + [10.0 * seed], slots=2)
    assert tune(tmp_path, "--trials", "3", "--seeds", "3", "--seed", "5") == 0
    folders = [process.job.folder.relative_to(tmp_path / "trials").as_posix() for process in executor.processes]
    assert folders == [f"{number}/{seed}" for number in range(3) for seed in (5, 6, 7)]
    expected = fmean((2 * seed + 10 * seed) / 3 for seed in (5, 6, 7))
    assert [trial.score for trial in read_search(tmp_path).trials] == [pytest.approx(expected)] * 3
    with sqlite3.connect(tmp_path / "tune.db") as database:
        reported = database.execute(
            "SELECT step, intermediate_value FROM trial_intermediate_values ORDER BY trial_id, step"
        ).fetchall()
    assert reported[:4] == [(100, 6.0), (200, 6.0), (300, 6.0), (400, 60.0)]
    assert len(reported) == 12


def test_failures(scripted: Callable[..., Scripted], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One failed trial is listed and the rest goes on; if all of them fail, the search stops."""
    scripted(lambda number, seed: None if number == 1 else [1.0] * 4)
    assert tune(tmp_path / "one", "--trials", "4") == 0
    trials = read_search(tmp_path / "one").trials
    assert [trial.state for trial in trials] == ["complete", "failed", "complete", "complete"]
    assert trials[1].reason == "the motor is hot"
    capsys.readouterr()
    executor = scripted(lambda number, seed: None)
    assert tune(tmp_path / "all", "--trials", "30") == 1
    assert "failed and none ended well: the motor is hot" in capsys.readouterr().out
    assert len(executor.processes) < 12
    assert main(["train", "FrozenLake-v1", "--from-tune", str(tmp_path / "all")]) == 2
    assert "has no finished trial yet" in capsys.readouterr().err


def test_a_finished_search_continues_with_more_trials(
    scripted: Callable[..., Scripted], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = scripted(lambda number, seed: [1.0] * 4)
    assert tune(tmp_path, "--trials", "3", "--dry-run") == 0
    assert not first.processes
    assert not (tmp_path / "tune.json").exists()
    assert tune(tmp_path, "--trials", "3") == 0
    before = read_search(tmp_path).trials
    second = scripted(lambda number, seed: [1.0] * 4)
    assert tune(tmp_path, "--trials", "3") == 0
    assert not second.processes
    assert tune(tmp_path, "--trials", "5") == 0
    assert [process.job.folder.parent.name for process in second.processes] == ["3", "4"]
    assert read_search(tmp_path).trials[:3] == before
    capsys.readouterr()
    assert tune(tmp_path, "--trials", "5", "--set", "gamma=0.9") == 2
    assert "contains a different search" in capsys.readouterr().err


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search with real runs, which nothing interrupts. Settings of the random sampler depend on the trial's number alone."""
    out = tmp_path_factory.mktemp("search") / "out"
    assert main([*REAL, "--out", str(out)]) == 0
    return out


REAL = ["tune", *LAKE, "--steps", "3000", "--eval-every", "500", "--trials", "5", "--sampler", "random", "--workers", "2"]
REAL += ["--pruner", "none", "--checkpoint-every", "500", "--set", "initial_value=0.5"]
"""Trials that take long enough to be killed."""


def test_files_of_a_search(uninterrupted: Path) -> None:
    assert {file.name for file in uninterrupted.iterdir()} == {".lock", "tune.json", "tune.db", "trials.json", "trials"}
    found = read_search(uninterrupted)
    assert (found.description["algo"], found.description["env_args"]) == ("gem-tabular", {"is_slippery": False})
    assert [trial.number for trial in found.trials] == list(range(5))
    for trial in found.trials:
        folder = uninterrupted / "trials" / str(trial.number) / "0"
        assert {file.name for file in folder.iterdir()} == {
            ".lock",
            "run.json",
            "evaluations.csv",
            "progress.csv",
            "finished.json",
        }
        assert trial.score == fmean(list(read_returns(folder).values())[-3:])
        recipe = describe(folder)["recipe"]
        assert recipe["initial_value"] == 0.5
        assert recipe["gamma"] == float(trial.settings["gamma"])


def test_killed_search_continues(uninterrupted: Path, tmp_path: Path) -> None:
    """Interrupted, then killed, then continued: every trial exists once, with the results of an uninterrupted search."""
    out, log = tmp_path / "out", tmp_path / "log.txt"
    code = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "from gemrl.cli.main import main; sys.exit(main(sys.argv[1:]))"

    def start(number: int) -> subprocess.Popen[bytes]:
        """Starts the search and waits until a trial of at least this number has begun to train, or the search ends."""
        with log.open("a") as file:
            process = subprocess.Popen([sys.executable, "-c", code, *REAL, "--out", str(out)], stdout=file, stderr=file)
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            if any(int(found.parents[1].name) >= number for found in out.glob("trials/*/0/run.json")):
                break
            time.sleep(0.02)
        return process

    first = start(0)
    first.send_signal(signal.SIGINT)
    assert first.wait(60) == 130, log.read_text()
    assert "the same command continues" in log.read_text()
    second = start(2)
    second.kill()
    assert second.wait(60) == -signal.SIGKILL
    running = [row.number for row in read_search(out).trials if row.state == "running"]
    assert running
    third = start(99)
    assert third.wait(120) == 0, log.read_text()
    with sqlite3.connect(out / "tune.db") as database:
        stored = database.execute("SELECT number, state FROM trials ORDER BY number").fetchall()
    assert stored == [(number, "COMPLETE") for number in range(5)]
    assert read_search(out).trials == read_search(uninterrupted).trials
    for number in range(5):
        ours, theirs = (folder / "trials" / str(number) / "0" / "evaluations.csv" for folder in (out, uninterrupted))
        assert ours.read_bytes() == theirs.read_bytes()
        assert log.read_text().count(f"trial {number}: score") == 1
    assert all(is_free(folder) for folder in out.glob("trials/*/0"))


def test_train_from_the_best_trial(
    uninterrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)  # it is not needed
    trials = read_search(uninterrupted).trials
    best = max(trials, key=lambda trial: (trial.score or 0.0, -trial.number))
    words = ["train", "FrozenLake-v1", "--from-tune", str(uninterrupted), "--run", str(tmp_path / "run")]
    assert main([*words, "--algo", "gem", "--steps", "200", "--set", "gamma=0.5"]) == 0
    run = describe(tmp_path / "run")
    assert (run["algo"], run["env_args"]) == ("gem-tabular", {"is_slippery": False})
    searched = describe(uninterrupted / "trials" / str(best.number) / "0")["recipe"]
    assert run["recipe"] == searched | {"gamma": 0.5}
    capsys.readouterr()
    refused = {
        ("train", "CliffWalking-v1"): "is a search for FrozenLake-v1 (is_slippery=False), not for CliffWalking-v1",
        ("train", "FrozenLake-v1", "--algo", "q-learning"): "is a search for gem-tabular, not for q-learning",
        ("train", "FrozenLake-v1", "--env-args", "is_slippery=True"): "not for FrozenLake-v1 (is_slippery=True)",
    }
    for arguments, message in refused.items():
        assert main([*arguments, "--from-tune", str(uninterrupted)]) == 2
        assert message in capsys.readouterr().err
    assert main(["train", "FrozenLake-v1", "--from-tune", str(tmp_path)]) == 2
    assert "contains no search" in capsys.readouterr().err


def test_report_shows_the_trials(uninterrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, browser: Any) -> None:
    pytest.importorskip("plotly")
    monkeypatch.setitem(sys.modules, "optuna", None)  # it is not needed
    shares = {"gamma": 0.75, "power": 0.25}
    for file in ("tune.json", "trials.json"):
        shutil.copy(uninterrupted / file, tmp_path)
    write_trials(tmp_path, read_search(tmp_path).trials, shares)
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "report.html")]) == 0
    collection = collect(tmp_path, or_searches=True)
    assert not collection.runs
    record = search_record(collection.searches[0], tmp_path)
    scores = [trial.score or 0.0 for trial in read_search(uninterrupted).trials]
    assert [trial["score"] for trial in record["trials"]] == scores
    assert record["best"] == [max(scores[: number + 1]) for number in range(5)]
    assert record["importance"] == [{"field": name, "share": share} for name, share in shares.items()]
    with pytest.raises(RunFolderError, match="contains no run"):
        collect(uninterrupted)
    errors: list[str] = []
    page = browser.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto((tmp_path / "report.html").as_uri())
    assert page.inner_text("#lead") == "1 hyperparameter search, 5 trials."
    assert page.locator("section").count() == 1
    page.evaluate("document.querySelectorAll('details').forEach((it) => (it.open = true))")
    assert page.locator("#searches tbody tr").count() == 5
    page.wait_for_selector("#searches .plot .barlayer path", state="attached")
    assert not errors
    page.close()


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("trials.json", '"complete"', '"great"'),
        ("trials.json", '"step": 3000', '"step": -1'),
        ("tune.json", '"format": 1', '"format": 2'),
    ],
)
def test_damaged_files_are_named(uninterrupted: Path, tmp_path: Path, name: str, old: str, new: str) -> None:
    for file in ("tune.json", "trials.json"):
        text = (uninterrupted / file).read_text()
        (tmp_path / file).write_text(text.replace(old, new) if file == name else text)
    with pytest.raises(RunFolderError, match=f"{name} is damaged"):
        read_search(tmp_path)
    write_run(tmp_path / "run", "gem", "Hopper-v5", 0, [1.0])
    assert f"{name} is damaged" in collect(tmp_path).left_out[0]


def test_family_without_a_space_needs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gemrl.experiments.tuning.search.default_space", lambda recipe: {})
    with pytest.raises(BadValue, match="q-learning has no search space of its own; give one with --space"):
        lake_search()
