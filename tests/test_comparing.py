"""Comparison of runs with external results, and export of runs to rl-zoo3."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gemrl.analysis.report.comparison import match_results, matching_envs, read_points
from gemrl.analysis.report.summary import shared_rows
from gemrl.analysis.results.collection import Collection, collect
from gemrl.cli.main import main
from tests.folders import write_run, write_study
from tests.test_report import data_of

ANCHORS = Path(__file__).parents[1] / "docs" / "anchors.csv"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    return collect(write_study(tmp_path_factory.mktemp("study")))


def written(folder: Path, text: str) -> Path:
    file = folder / "theirs.csv"
    file.write_text(text)
    return file


def test_external_and_own_results_at_the_same_step(study: Collection, tmp_path: Path) -> None:
    """The mean return of gem is 110 k at step 1,000 k; between evaluations it is interpolated."""
    rows = "their,Hopper-v3,2500,300,paper\ntheir,Hopper-v3,2500,500,paper\n"
    rows += 'td3,Hopper-v5,"10,000",7,\ntheir,Ant-v3,1,1,\nlate,Hopper-v3,99999,9,'
    points = read_points(written(tmp_path, f"method,env,step,return,source\n{rows}\n"))
    others, unmatched = match_results(study, points)
    assert unmatched == ["Ant-v3"]
    assert [(other["method"], other["env"], other["our_env"]) for other in others] == [
        ("their", "Hopper-v3", "Hopper-v5"),
        ("td3 (theirs)", "Hopper-v5", "Hopper-v5"),
        ("late", "Hopper-v3", "Hopper-v5"),
    ]
    first, second = shared_rows(study, others)  # `late` lies beyond the last step of our runs
    assert (first["value"], others[0]["std"][0], first["source"]) == (400, 100, "paper")
    assert first["ours"] == {"gem": pytest.approx(275), "td3": pytest.approx(137.5)}
    assert second["ours"]["td3"] == pytest.approx(550)
    assert not any(isinstance(value, np.ndarray) for value in first.values())  # a whole curve in each row made a page of 600 MB


def test_compare_prints_a_table_and_writes_a_page(study: Collection, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, "method,env,step,return\nother,Hopper-v4,5000,321\n")
    assert main(["compare", str(study.folder), "--csv", str(file), "--csv", str(ANCHORS), "--out", str(tmp_path / "c.html")]) == 0
    shown = capsys.readouterr().out
    line = next(line for line in shown.splitlines() if "other" in line)
    assert line.split()[-3:] == ["321.0", "550.0", "275.0"]
    assert "Hopper-v5 (published: Hopper-v4)" in line
    data = data_of((tmp_path / "c.html").read_text())
    assert {"other", "TD3, Tianshou"} <= {method["name"] for method in data["otherMethods"]}
    hopper = next(env for env in data["envs"] if env["id"] == "Hopper-v5")
    assert {other["method"] for other in hopper["others"]} >= {"other", "REDQ"}


def test_names_are_not_interpreted_as_markup(study: Collection, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, "method,env,step,return\nA [ours],Hopper-v4,5000,321\nB [/b],Hopper-v4,5000,1\n")
    assert main(["compare", str(study.folder), "--csv", str(file), "--out", str(tmp_path / "c.html")]) == 0
    shown = capsys.readouterr().out
    assert "A [ours]" in shown
    assert "B [/b]" in shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("method,env,steps,return\n", "has no column 'step'; did you mean 'steps'?"),
        ("method,env,step,return\n", "has no rows"),
        ("", "has no column 'method'; it has none"),
        ("method,env,step,return\na,b,c,1\n", "line 2: step must be a number, not 'c'"),
        ("method,env,step,return\na,b,1,nan\n", "line 2: return must be a number, not 'nan'"),
        ("method,env,step,return\na,b,1\n", "line 2: return must be a number, not None"),
        ("method,env,step,return\na,b,20,000,3\n", "line 2: more fields than columns; put numbers with commas in quotes"),
        ('method,env,step,return\na,b,1,"1234,5"\n', "line 2: return must be a number, not '1234,5'"),
        ("method,env,step,return\n,b,1,1\n", "line 2: method and env must not be empty"),
        ("method,env,step,return\na,Nowhere-v0,1,1\n", "no environment in the CSV files has runs here"),
    ],
)
def test_invalid_files_are_reported(
    study: Collection, tmp_path: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(study.folder), "--csv", str(written(tmp_path, text)), "--out", str(tmp_path / "c.html")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "c.html").exists()


def test_unreadable_files_are_reported(study: Collection, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert main(["compare", str(study.folder), "--csv", str(tmp_path / "binary")]) == 2
    assert "is not a CSV file" in capsys.readouterr().err
    assert main(["compare", str(study.folder), "--csv", str(tmp_path / "nothing")]) == 2
    assert "cannot read" in capsys.readouterr().err


def test_matching_environments(tmp_path: Path) -> None:
    for number, env in enumerate(("MinAtar/Breakout-v1", "ALE/Breakout-v5", "BreakoutNoFrameskip-v4")):
        write_run(tmp_path / str(number), "gem", env, 0, [1])
    found = collect(tmp_path)
    assert matching_envs(found, "MinAtar/Breakout-v0") == ["MinAtar/Breakout-v1"]
    assert matching_envs(found, "ALE/Breakout-v5") == ["ALE/Breakout-v5"]
    assert matching_envs(found, "Breakout-v4") == ["ALE/Breakout-v5", "BreakoutNoFrameskip-v4"]


def test_published_results_name_their_source() -> None:
    points = read_points(ANCHORS)
    assert all(point.source for point in points)
    assert len({(point.method, point.env, point.step) for point in points}) == len(points)  # no duplicates


def test_export_has_the_format_of_rl_zoo3(study: Collection, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """all_plots of rl-zoo3 reads <algo>/<env>_<n>/evaluations.npz and averages the results over their second axis."""
    assert main(["export", str(study.folder), "--out", str(tmp_path / "logs")]) == 0
    assert "wrote 12 runs" in capsys.readouterr().out
    names = sorted(path.relative_to(tmp_path / "logs").as_posix() for path in (tmp_path / "logs").rglob("*.npz"))
    assert names[:3] == [f"gem/HalfCheetah-v5_{number}/evaluations.npz" for number in (1, 2, 3)]
    for number, slope in ((1, 100.0), (3, 120.0)):  # numbered by seed
        with np.load(tmp_path / "logs" / "gem" / f"Hopper-v5_{number}" / "evaluations.npz", allow_pickle=False) as file:
            np.testing.assert_allclose(file["results"].mean(axis=1), slope * np.arange(1, 11))
    with np.load(tmp_path / "logs" / "gem" / "Hopper-v5_2" / "evaluations.npz", allow_pickle=False) as file:
        assert set(file) == {"timesteps", "results", "ep_lengths"}
        assert file["timesteps"].tolist() == list(range(1000, 11_000, 1000))
        np.testing.assert_allclose(file["results"].mean(axis=1), 110.0 * np.arange(1, 11))
        np.testing.assert_allclose(file["results"].std(axis=1), 1.0)
        assert file["ep_lengths"].tolist() == [[100.0, 100.0]] * 10


def test_export_reports_unfinished_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "runs" / "a", "td3", "Hopper-v5", 0, [1, 2, 3, 4])
    write_run(tmp_path / "runs" / "b", "td3", "Hopper-v5", 1, [1])
    write_run(tmp_path / "runs" / "c", "td3", "Hopper-v5", 2, [1], steps=4000)
    assert main(["export", str(tmp_path / "runs"), "--out", str(tmp_path / "logs")]) == 0
    shown = capsys.readouterr().out
    assert "wrote 3 runs" in shown
    assert "left out" not in shown  # short runs are exported too
    assert "not finished, but written" in shown


def test_runs_without_a_common_step_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "gem", "gem", "Hopper-v5", 0, [1, 2])
    for seed, every in ((0, 5_000), (1, 10_000)):
        write_run(tmp_path / str(seed), "td3", "Hopper-v5", seed, [1], every=every, steps=50_000)
    file = written(tmp_path, "method,env,step,return\nother,Hopper-v5,1500,321\n")
    assert main(["compare", str(tmp_path), "--csv", str(file)]) == 0
    assert "321" in capsys.readouterr().out


def test_export_never_replaces_files(study: Collection, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "logs" / "td3" / "Hopper-v5_3"
    own.mkdir(parents=True)
    assert main(["export", str(study.folder), "--out", str(tmp_path / "logs")]) == 2
    assert "already exists" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "logs").iterdir()] == ["td3"]  # nothing was written
