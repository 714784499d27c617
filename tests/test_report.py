"""The report: its numbers, unusual input, and its behaviour in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gemrl.analysis import statistics
from gemrl.analysis.report import summary
from gemrl.analysis.report.page import contents, page, plain
from gemrl.analysis.results.collection import Collection, collect
from gemrl.analysis.results.scales import REFERENCES, scale
from gemrl.cli.main import main
from gemrl.core.mappings import differences
from tests.folders import write_run, write_study

pytest.importorskip("plotly")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    return collect(write_study(tmp_path_factory.mktemp("study")))


def data_of(text: str) -> dict[str, Any]:
    """The data inside a page."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert found
    return json.loads(found[1])


def test_scores_of_the_runs(study: Collection) -> None:
    (row,) = [row for row in summary.score_rows(study) if (row["method"], row["env"]) == ("gem", "Hopper-v5")]
    assert (row["runs"], row["step"], row["mean"]) == (3, 10_000, pytest.approx(990))  # 0.8, 0.9 and 1 of the final returns
    assert row["last"] == pytest.approx(1100)
    assert row["std"] == pytest.approx(np.std([900, 990, 1080], ddof=1))
    assert (row["low"], row["high"]) == (
        pytest.approx(900),
        pytest.approx(1080),
    )  # 1/27 > 2.5% of resamples have only the worst
    assert row["area"] == pytest.approx(1100 * 0.55)  # linear from a tenth of the final return to all of it
    assert row["error"] == 10
    low, high, _ = REFERENCES["Hopper"]
    assert row["normalised"] == pytest.approx((990 - low) / (high - low))


def test_comparison_over_all_tasks(study: Collection) -> None:
    found = summary.overall(study)
    assert (found["methods"], found["reference"]) == (["gem", "td3"], "gem")
    gem, td3 = found["rows"]
    assert "improvement" not in gem
    assert (td3["improvement"], td3["improvement_low"], td3["improvement_high"]) == (1, 1, 1)  # each gem run beats each td3 run
    each = [
        (900 * (1 + seed / 10) - low) / (high - low)
        for low, high, _ in (REFERENCES["Hopper"], REFERENCES["HalfCheetah"])
        for seed in range(3)
    ]
    assert gem["iqm"] == pytest.approx(np.mean(sorted(each)[1:-1]))
    assert found["efficiency"]["gem"]["value"][-1] > gem["iqm"]  # it ends with the last evaluation
    assert found["fractions"][0] == pytest.approx(0.1)


def test_statistics_of_each_method_over_all_tasks(tmp_path: Path) -> None:
    """With a third task of another length; all curves are linear from 0 to their end."""
    write_study(tmp_path)
    for algo, top in (("gem", 300.0), ("td3", 200.0)):
        for seed in range(3):
            returns = [top * (1 + seed / 10) * k / 20 for k in range(1, 21)]
            write_run(tmp_path / algo / "Walker2d-v5" / str(seed), algo, "Walker2d-v5", seed, returns)
    found = collect(tmp_path)
    whole = summary.overall(found)
    lows, highs = np.array([scale(found, env)[:2] for env in found.envs]).T
    for row in whole["rows"]:
        table = summary.normalised_scores(found, row["method"])
        means = table.mean(0)
        assert (row["mean"], row["median"]) == (pytest.approx(means.mean()), pytest.approx(np.median(means)))
        assert row["low"] < row["iqm"] < row["high"]
        above = [(table > threshold).mean() for threshold in whole["thresholds"]]
        np.testing.assert_allclose(whole["profile"][row["method"]]["value"], above)
        ends = np.array([[run.evaluations["return_mean"][-1] for run in found.of(row["method"], env)] for env in found.envs]).T
        half = np.interp(0.55, whole["fractions"], whole["efficiency"][row["method"]]["value"])
        assert half == pytest.approx(statistics.iqm((0.55 * ends - lows) / (highs - lows)), rel=1e-2)


def test_curves_and_costs_use_their_columns(study: Collection) -> None:
    curve = summary.curves(study, "Hopper-v5", "return_mean")["gem"]
    assert curve["std"][-1] == pytest.approx(np.std([1000, 1100, 1200]))
    assert (curve["low"][-1], curve["high"][-1]) == (pytest.approx(1000), pytest.approx(1200))
    data = contents(study, "", videos=False, others=[])
    hopper = next(env for env in data["envs"] if env["id"] == "Hopper-v5")
    np.testing.assert_array_equal(hopper["errors"]["gem"]["mean"], np.arange(1, 11))
    assert data["runs"][0]["hours"] == pytest.approx(5000 / 3600)
    assert {row["minutes_each"] for row in summary.cost_rows(study)} == {5000 / 60}


def test_fields_that_depend_on_the_task_are_listed(tmp_path: Path) -> None:
    for env, depth in (("Ant-v5", 1000), ("Hopper-v5", 5)):
        write_run(tmp_path / env, "gem", env, 0, [1], depth=depth)
    ((name, values),) = summary.recipe_differences(collect(tmp_path))[0]["by_task"]
    planner = "Planned(planner=Twin(depth={}))"
    assert (name, values) == ("targets", {"Ant-v5": planner.format(1000), "Hopper-v5": planner.format(5)})


def test_methods_without_runs_on_a_task_are_not_compared_over_all_tasks(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "gem", "Hopper-v5", 0, [1, 2])
    write_run(tmp_path / "b", "gem", "Ant-v5", 0, [1, 2])
    write_run(tmp_path / "c", "gem", "Ant-v5", 1, [3, 4])  # fewer runs on Hopper than on Ant
    write_run(tmp_path / "d", "td3", "Hopper-v5", 0, [1, 2])
    found = collect(tmp_path)
    assert summary.overall(found)["methods"] == ["gem"]
    table = summary.normalised_scores(found, "gem")
    assert table.shape == (2, 2)
    assert np.isnan(table).sum() == 1


def test_differences_between_recipes(study: Collection, tmp_path: Path) -> None:
    gem, td3 = summary.recipe_differences(study)
    assert gem["fields"] == []
    assert ("batch_size", 100, 100) not in td3["fields"]
    assert ("layer_norm", True, False) in td3["fields"]
    write_run(tmp_path / "a", "gem", "Hopper-v5", 0, [1])
    write_run(tmp_path / "b", "sac", "Hopper-v5", 0, [1])
    write_run(tmp_path / "c", "td3", "Ant-v5", 0, [1])
    write_run(tmp_path / "d", "ddpg", "Ant-v5", 0, [1])
    found = {record["method"]: record for record in summary.recipe_differences(collect(tmp_path))}
    assert found["sac"]["fields"][0] == ("family", "deterministic policy", "stochastic policy")
    assert (found["td3"]["reference"], found["td3"]["env"]) == ("ddpg", "Ant-v5")  # gem has no run on Ant-v5
    assert ("n_critics", 1, 2) in found["td3"]["fields"]


def test_cost_adds_up(study: Collection) -> None:
    rows = summary.cost_rows(study)
    assert len(rows) == 4
    assert sum(row["hours"] for row in rows) == pytest.approx(12 * 5000 / 3600)
    assert {row["speed"] for row in rows} == {2.0}


def test_conversion_to_json() -> None:
    values = {"a": np.array([1.0, np.nan, np.inf]), "b": np.int64(3), "c": (np.float32(0.5), True, None), 1: 1.23456789}
    assert plain(values) == {"a": [1.0, None, None], "b": 3, "c": [0.5, True, None], "1": 1.23457}


def test_page_is_one_file(study: Collection, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(study.folder), "--out", str(tmp_path / "deep" / "r.html")]) == 0
    assert "12 runs of 2 methods on 2 environments" in capsys.readouterr().out
    text = (tmp_path / "deep" / "r.html").read_text()
    assert not re.search(r'<(?:script|img|link)[^>]+(?:src|href)="(?!data:)', text.replace(page_script(), ""))
    assert str(study.folder) not in text  # no local path
    assert page(study) == page(study)
    assert len(data_of(text)["runs"]) == 12


def test_scores_as_markdown(study: Collection, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(study.folder), "--table"]) == 0
    scores, _, differences, _ = capsys.readouterr().out.split("\n\n")
    header, _, *rows = scores.splitlines()
    assert header == "|  | gem | td3 |"
    assert [row.split(" | ")[0] for row in rows] == [f"| {env} (3 runs, 10,000 steps)" for env in study.envs]
    hopper = next(row for row in rows if "Hopper" in row)
    assert hopper.split(" | ")[1] == "**990.0 ± 90.0**"  # mean and sample deviation of 900, 990 and 1080
    assert "**" not in hopper.split(" | ")[2]
    assert differences.splitlines()[2:] == [
        f"| {env} | td3 ({fields} fields) | -495.0 | 0.1 (0.1) | likely |"
        for env, fields in zip(study.envs, _differing_fields(study), strict=True)
    ]
    write_run(tmp_path / "one", "sac", "Pendulum-v1", 0, [-900.0, -150.25])
    assert main(["report", str(tmp_path), "--table"]) == 0
    assert "| Pendulum-v1 (1 run, 2,000 steps) | **-525.1 (1 run)** |" in capsys.readouterr().out


def _differing_fields(study: Collection) -> list[int]:
    """In how many fields td3 differs from gem in each environment."""
    recipes = [[study.of(method, env)[0].recipe for method in ("gem", "td3")] for env in study.envs]
    return [len(differences(*pair)) for pair in recipes]


def page_script() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def test_unreadable_runs_are_listed_in_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "a", "gem", "Hopper-v5", 0, [1, 2])
    write_run(tmp_path / "b", "gem", "Hopper-v5", 1, [1], steps=5000)
    (write_run(tmp_path / "c", "gem", "Hopper-v5", 2, [1]) / "evaluations.csv").write_text("?\n1\n")
    assert main(["report", str(tmp_path), "--title", "Mine & <b>yours</b>"]) == 0
    shown = capsys.readouterr().out
    assert "is at step 1,000 of 5,000" in shown
    assert "evaluations.csv is damaged" in shown
    text = (tmp_path / "report.html").read_text()
    assert "<title>Mine &amp; &lt;b&gt;yours&lt;/b&gt;</title>" in text
    assert data_of(text)["leftOut"] == ["c/evaluations.csv is damaged"]


def test_videos_are_included_up_to_the_size_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_run(tmp_path, "gem", "Hopper-v5", 0, [1, 2])
    (folder / "video.gif").write_bytes(b"GIF89a")
    (folder / "videos").mkdir()
    (folder / "videos" / "long.mp4").write_bytes(b"\0\0\0\x18ftyp" + bytes(92))
    found = collect(tmp_path)
    assert [video["name"] for video in data_of(page(found))["runs"][0]["videos"]] == ["video.gif", "long.mp4"]
    assert data_of(page(found, videos=False))["runs"][0]["videos"] == []
    monkeypatch.setattr("gemrl.analysis.report.videos.VIDEO_LIMIT", 50)
    data = data_of(page(found))
    assert [video["name"] for video in data["runs"][0]["videos"]] == ["video.gif"]
    assert "long.mp4" in data["notes"][0]
    monkeypatch.setattr("gemrl.analysis.report.videos.VIDEO_LIMIT", 1000)
    monkeypatch.setattr("gemrl.analysis.report.videos.TOTAL_VIDEO_LIMIT", 104)  # enough for one of them, not for both
    data = data_of(page(found))
    assert [video["name"] for video in data["runs"][0]["videos"]] == ["video.gif"]


GIF = bytes.fromhex("47494638396101000100800000ffffff00000021f90401000000002c00000000010001000002024401003b")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = write_study(tmp_path_factory.mktemp("shown"))
    (folder / "gem" / "HalfCheetah-v5" / "0" / "video.gif").write_bytes(GIF)
    write_run(folder / "x", "ddpg", "</script><img src=x onerror=alert(1)>-v0", 0, [1, 2])  # as HTML it would make a request
    assert main(["report", str(folder), "--title", "A study"]) == 0
    return (folder / "report.html").as_uri()


@pytest.fixture(scope="module")
def watched(browser: Any, address: str) -> Iterator[tuple[Any, list[str]]]:
    """The page, opened once, and a list of its console messages, errors and network requests."""
    context = browser.new_context(viewport={"width": 1300, "height": 900}, color_scheme="light")
    tab, problems = context.new_page(), []

    def requested(request: Any) -> None:
        if request.url.split("#")[0] != address and not request.url.startswith("data:"):
            problems.append(request.url)

    tab.on("console", lambda message: problems.append(f"{message.type}: {message.text}"))
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("request", requested)
    tab.goto(address)
    yield tab, problems
    context.close()


@pytest.fixture
def opened(watched: tuple[Any, list[str]]) -> Iterator[Any]:
    """The page in its initial state, whatever other tests did to it; the test fails if there are problems."""
    tab, problems = watched
    tab.emulate_media(color_scheme="light")
    tab.set_viewport_size({"width": 1300, "height": 900})
    tab.evaluate("() => { localStorage.clear(); history.replaceState(null, '', location.pathname); }")
    tab.reload()
    yield tab
    assert problems == []


def test_link_opens_a_run(browser: Any, address: str) -> None:
    tab = browser.new_page()
    tab.goto(f"{address}#run-0")
    assert tab.locator("dialog[open] h2").inner_text() == "gem on HalfCheetah-v5, seed 0"
    tab.close()


RANGE = "gd => gd._fullLayout.xaxis.range"
SHOWN = "gd => gd._fullData.filter(trace => trace.visible === true).map(trace => trace.name)"


def test_curves_can_be_hidden_and_zoomed(opened: Any) -> None:
    chart = opened.locator('[aria-label="return on Hopper-v5"]')
    chart.scroll_into_view_if_needed()
    opened.locator('[aria-label="return on Hopper-v5"] .main-svg').first.wait_for()
    assert set(chart.evaluate(SHOWN)) == {"gem", "td3"}
    means = chart.evaluate("gd => gd._fullData.filter(trace => trace.name === 'gem').at(-1).y")
    np.testing.assert_allclose(list(means.values()) if isinstance(means, dict) else means, 110 * np.arange(1, 11), rtol=1e-5)
    symbols = chart.evaluate("gd => gd._fullData.filter(trace => trace.name === 'gem').at(-1).marker.symbol")
    assert symbols == ["circle-open"] * 10  # all evaluations come before training starts
    before = chart.evaluate(RANGE)
    box = chart.locator(".nsewdrag").first.bounding_box()
    opened.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.3 * box["height"])
    opened.mouse.down()
    opened.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.35 * box["height"], steps=4)
    opened.mouse.up()
    opened.wait_for_function("([gd, end]) => gd._fullLayout.xaxis.range[1] < 0.75 * end", arg=[chart.element_handle(), before[1]])
    zoomed = chart.evaluate(RANGE)
    opened.locator(".chip", has_text="td3").click()
    assert set(chart.evaluate(SHOWN)) == {"gem"}
    assert chart.evaluate(RANGE) == zoomed  # hiding a method keeps the zoom
    opened.locator(".chip", has_text="td3").click()
    assert set(chart.evaluate(SHOWN)) == {"gem", "td3"}


def test_tables_sort(opened: Any) -> None:
    rows = opened.locator("#runs tbody tr")
    assert rows.count() == 13
    scores = "rows => rows.map(row => Number(row.children[4].textContent.replaceAll(',', '')))"
    opened.locator("#runs thead button", has_text="score").click()
    descending = rows.evaluate_all(scores)
    assert descending == sorted(descending, reverse=True)
    assert descending[0] == 1080
    opened.locator("#runs thead button", has_text="score").click()
    assert rows.evaluate_all(scores) == descending[::-1]
    assert opened.locator('#runs th[aria-sort="ascending"]').inner_text().startswith("score")
    gem = opened.locator("#scores tbody tr", has_text="gem").first
    assert "990 ± 90" in gem.inner_text()
    assert "[900, 1,080]" in gem.inner_text()


def test_run_opens_inside_the_page(opened: Any) -> None:
    opened.locator("#runs tbody tr", has_text="gem/HalfCheetah-v5/0").click()
    view = opened.locator("dialog[open]")
    assert view.locator("h2").inner_text() == "gem on HalfCheetah-v5, seed 0"
    view.locator(".main-svg").first.wait_for()
    text = view.inner_text()
    assert "Planned(planner=Twin(depth=5))" in text
    assert "gymnasium" in text
    assert view.locator("img").evaluate("image => image.decode().then(() => image.naturalWidth)") == 1
    opened.wait_for_function("location.hash === '#run-0'")
    view.get_by_role("button", name="Close").click()
    assert opened.locator("dialog[open]").count() == 0
    opened.wait_for_function("location.hash !== '#run-0'")


def test_themes_and_screen_widths(opened: Any) -> None:
    background = "() => getComputedStyle(document.body).backgroundColor"
    light = opened.evaluate(background)
    opened.emulate_media(color_scheme="dark")
    opened.wait_for_function(f"light => ({background})() !== light", arg=light)
    opened.locator("#theme").click()
    assert opened.evaluate(background) == light
    for width in (320, 390, 800, 1300, 2200):
        opened.set_viewport_size({"width": width, "height": 800})
        narrow = "width => document.documentElement.scrollWidth <= width"  # tables scroll horizontally, the page does not
        opened.wait_for_function(narrow, arg=width)  # charts resize with a delay
    assert opened.locator("nav").bounding_box()["height"] == 800  # next to the text if there is room


def test_print_has_every_chart_and_a_legend(browser: Any, address: str) -> None:
    tab = browser.new_page(viewport={"width": 900, "height": 300})
    tab.goto(address)
    charts, drawn = (tab.locator(f"section .plot{state}") for state in ("", "[data-drawn]"))
    assert drawn.count() < charts.count()  # the others are drawn when they scroll into view
    tab.emulate_media(media="print")
    tab.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    assert drawn.count() == charts.count()
    assert tab.locator(".chip", has_text="gem").first.is_visible()
    tab.close()


def test_single_runs_have_no_interval(browser: Any, tmp_path: Path) -> None:
    for number in range(12):
        for env in ("Hopper-v5", "Ant-v5"):
            write_run(tmp_path / f"{number}{env}", "gem", env, 0, [1, 2 + number], depth=number + 1)
    assert main(["report", str(tmp_path)]) == 0
    tab = browser.new_page(viewport={"width": 1300, "height": 700})
    tab.goto((tmp_path / "report.html").as_uri())
    assert tab.locator("#scores td small", has_text="1 run per task").count() == 12
    assert "without intervals" in tab.locator("#overall p").first.inner_text()
    chart = tab.locator('[aria-label="Interquartile mean"]')
    chart.scroll_into_view_if_needed()
    chart.locator(".main-svg").first.wait_for()
    assert chart.locator(".ytick").count() == 12  # every name is shown
    tab.close()
