"""Reading folders of runs, and the figures drawn from them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gemrl.analysis.figures.curves import draw_curve
from gemrl.analysis.figures.learning_curve import learning_curve
from gemrl.analysis.figures.paper import ERROR, FIGURES, RETURN, Figure, _panels, captioned, draw, usual_window
from gemrl.analysis.palette import styles
from gemrl.analysis.results.collection import Collection, collect
from gemrl.analysis.results.run import stacked, task_name
from gemrl.analysis.results.scales import OWN, REFERENCES, scale
from gemrl.cli.main import main
from gemrl.core.exceptions import RunFolderError
from tests.folders import write_run, write_study


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    return collect(write_study(tmp_path_factory.mktemp("study")))


def test_study_is_read(study: Collection) -> None:
    assert (study.methods, study.envs, len(study.runs)) == (["gem", "td3"], ["HalfCheetah-v5", "Hopper-v5"], 12)
    assert sorted(run.seed for run in study.of("td3", "Hopper-v5")) == [0, 1, 2]
    assert study.final_step("Hopper-v5") == 10_000
    np.testing.assert_allclose(study.scores("gem", "Hopper-v5"), [900, 990, 1080])  # 0.8, 0.9 and 1 of the final returns
    assert (study.runs[0].timing, study.runs[0].speed) == ((10_000, 5000.0), 2.0)
    steps, values = stacked(study.of("gem", "Hopper-v5"))
    np.testing.assert_allclose(steps, 1000 * np.arange(1, 11))
    np.testing.assert_allclose(values.mean(0), 110 * np.arange(1, 11))


def test_score_is_the_mean_return_of_the_last_three_evaluations(tmp_path: Path) -> None:
    write_run(tmp_path, "gem", "Hopper-v5", 0, range(40), every=10)
    (run,) = collect(tmp_path).runs
    assert (run.score(400), run.last(400)) == (38, 39)  # steps 380 to 400
    assert run.score(205) == 18
    assert run.score(20) == 0.5
    assert np.isnan([run.score(5), run.last(5)]).all()


def test_runs_of_different_length_are_compared_at_a_common_step(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "gem", "Hopper-v5", 0, [1, 2, 3, 4])
    write_run(tmp_path / "b", "td3", "Hopper-v5", 0, [5, 6])
    write_run(tmp_path / "c", "td3", "Hopper-v5", 1, [9], steps=2000)
    found = collect(tmp_path)
    assert [run.folder.name for run in found.unfinished()] == ["c"]
    assert found.final_step("Hopper-v5") == 2000
    assert found.scores("gem", "Hopper-v5").tolist() == [1.5]
    assert found.scores("td3", "Hopper-v5").tolist() == [5.5]  # c is not finished


def test_settings_are_added_to_method_names(tmp_path: Path) -> None:
    for depth in (5, 1000):
        write_run(tmp_path / f"td3-nstep-depth={depth}" / "Hopper-v5" / "0", "td3-nstep", "Hopper-v5", 0, [1], depth=depth)
        write_run(tmp_path / "more" / str(depth), "gem", "Hopper-v5", 0, [1], depth=depth)
    assert collect(tmp_path).methods == [
        "gem targets=Planned(planner=Twin(depth=1000))",
        "gem targets=Planned(planner=Twin(depth=5))",
        "td3-nstep-depth=1000",
        "td3-nstep-depth=5",
    ]


def test_root_folder_does_not_name_a_method(tmp_path: Path) -> None:
    for name, algo in (("a", "sac"), ("b", "td3")):
        write_run(tmp_path / "sac-vs-td3" / name, algo, "Hopper-v5", 0, [1])
    assert collect(tmp_path / "sac-vs-td3").methods == ["sac", "td3"]
    write_run(tmp_path / "td3-depth=5" / "Hopper-v5" / "0", "td3", "Hopper-v5", 0, [1])
    assert collect(tmp_path / "td3-depth=5").methods == ["td3-depth=5"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("run.json", "{", "run.json is damaged"),
        ("run.json", '{"algo": "gem", "env": "Hopper-v5", "seed": 0, "steps": "many"}', "steps must be a whole number"),
        ("evaluations.csv", "step,return_mean\n1,2\n", "evaluations.csv is damaged"),
        ("evaluations.csv", "step,return_mean,return_std,length_mean,estimation_error\n1,2\n", "evaluations.csv is damaged"),
        ("evaluations.csv", "step,return_mean,return_std,length_mean,estimation_error\n", "no evaluation yet"),
        (
            "evaluations.csv",
            "step,return_mean,return_std,length_mean,estimation_error\n2,1,1,1,1\n1,1,1,1,1\n",
            "steps must increase",
        ),
        ("evaluations.csv", None, "no evaluations.csv"),
    ],
)
def test_unreadable_runs_are_left_out_and_listed(tmp_path: Path, name: str, text: str | None, message: str) -> None:
    write_run(tmp_path / "good", "gem", "Hopper-v5", 0, [1, 2])
    bad = write_run(tmp_path / "bad", "gem", "Hopper-v5", 1, [1, 2]) / name
    if text is None:
        bad.unlink()
    else:
        bad.write_text(text)
    found = collect(tmp_path)
    assert [run.folder.name for run in found.runs] == ["good"]
    assert len(found.left_out) == 1
    assert message in found.left_out[0]
    with pytest.raises(RunFolderError, match="contains no run that can be read"):
        collect(tmp_path / "bad")


def test_empty_folder_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figure", "mujoco", "--runs", str(tmp_path)]) == 2
    assert "contains no run; create one with `gemrl train`" in capsys.readouterr().err
    assert main(["figure", "mujoco", "--runs", str(tmp_path / "nowhere")]) == 2
    assert "is not a folder" in capsys.readouterr().err


def test_scales(study: Collection, tmp_path: Path) -> None:
    assert scale(study, "Hopper-v5") == REFERENCES["Hopper"]
    write_run(tmp_path / "a", "gem", "Pendulum-v1", 0, [-1000, -200])
    write_run(tmp_path / "b", "td3", "Pendulum-v1", 0, [-1400, -500])
    assert scale(collect(tmp_path), "Pendulum-v1") == (-1200, -600, OWN)
    assert [task_name(env) for env in ("ALE/Alien-v5", "AlienNoFrameskip-v4", "a.b:Cart-Pole-v0")] == [
        "Alien",
        "Alien",
        "Cart-Pole",
    ]


def test_dollar_signs_are_not_math(study: Collection) -> None:
    figure = Figure("gain of $5 (10%) for $6, or $_10", ("Hopper",))
    drawing = draw(figure, study, formats=("png", "svg"))
    assert drawing.caption.startswith("gain of $5 (10%) for $6, or $_10.")
    assert drawing.files["png"].startswith(b"\x89PNG")


def test_styles_differ() -> None:
    names = [f"other-{number}" for number in range(24)] + ["gem"]
    found = styles(names)
    assert len(set(found.values())) == 25
    assert len({(look.colour, look.marker) for look in found.values()}) == 25  # distinct without dashes
    assert found["gem"].colour == "#0072B2"


def test_methods_have_the_same_style_in_every_figure() -> None:
    figures = [styles(FIGURES[name].methods) for name in ("mujoco", "ablation", "nstep")]
    for look in figures:
        assert {name: look[name] for name in look if name in figures[0]}.items() <= figures[0].items()
        assert len(set(look.values())) == len(look)
    assert styles(["dqn", "gem-discrete"])["gem-discrete"] == figures[0]["gem"]


def test_curve_is_the_mean_with_a_band_of_deviations(study: Collection) -> None:
    from matplotlib.figure import Figure

    panel = Figure().subplots()
    line = draw_curve(panel, study.of("gem", "Hopper-v5"), "return_mean", 1, 0.5, styles(["gem"])["gem"])
    np.testing.assert_allclose(line.get_ydata(), 110 * np.arange(1, 11))
    outline = np.asarray(panel.collections[0].get_paths()[0].vertices)
    assert outline[:, 1].max() == pytest.approx(1100 + 0.5 * np.std([1000, 1100, 1200]))
    smooth = draw_curve(panel, study.of("gem", "Hopper-v5"), "return_mean", 3, 1.0, styles(["gem"])["gem"])
    np.testing.assert_allclose(smooth.get_ydata(), [165, *110 * np.arange(2, 10), 1045])


def test_panels_draw_their_column_and_band(study: Collection, tmp_path: Path) -> None:
    import matplotlib.pyplot as plt

    figure = Figure("Two", ("Hopper",), methods=("gem", "td3"), rows=(RETURN, ERROR), band=0.5)
    picture = _panels(plt, figure, study, ["Hopper-v5"], 1, "")
    top, bottom = (panel for panel in picture.axes if panel.get_visible())
    assert (top.get_ylabel(), bottom.get_ylabel()) == ("return", "estimation error")
    np.testing.assert_allclose(top.lines[0].get_ydata(), 110 * np.arange(1, 11))
    np.testing.assert_allclose(bottom.lines[0].get_ydata(), np.arange(1, 11))
    highest = top.collections[0].get_paths()[0].vertices[:, 1].max()
    assert highest == pytest.approx(1100 + 0.5 * np.std([1000, 1100, 1200]))
    (legend,) = picture.legends
    named = {text.get_text(): line.get_color() for text, line in zip(legend.get_texts(), legend.get_lines(), strict=True)}
    assert named == {"gem": top.lines[0].get_color(), "td3": top.lines[1].get_color()}
    assert [top.xaxis.get_major_formatter()(x, 0) for x in (500, 5_000, 2_500_000)] == ["500", "5k", "2.5M"]
    plt.close(picture)


@pytest.mark.parametrize(("count", "window"), [(49, 1), (50, 5)])
def test_curves_with_fifty_evaluations_are_smoothed(count: int, window: int, tmp_path: Path) -> None:
    for algo, number in (("gem", 60), ("td3", count)):
        write_run(tmp_path / algo, algo, "Hopper-v5", 0, range(number))
    assert usual_window(collect(tmp_path), ["Hopper-v5"]) == window


def kept_figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list that receives every learning curve instead of a file."""
    drawn: list[Any] = []

    def keep(picture: Any) -> bytes:
        drawn.append(picture)
        return b""

    monkeypatch.setattr("gemrl.analysis.figures.learning_curve.encoded", keep)
    return drawn


def test_learning_curve_shows_the_evaluations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = kept_figures(monkeypatch)
    learning_curve(write_run(tmp_path, "gem", "Hopper-v5", 0, [5.0, 7.0, 6.0]))
    top, bottom = drawn[0].axes
    np.testing.assert_array_equal(top.lines[0].get_xydata(), [[1000, 5], [2000, 7], [3000, 6]])
    assert top.collections[0].get_paths()[0].vertices[:, 1].max() == 8  # 7 plus the standard deviation of episodes
    np.testing.assert_array_equal(bottom.lines[1].get_ydata(), [1, 2, 3])


def test_evaluations_before_training_are_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of four evaluations come before training starts: the line marks only the others, hollow markers mark these."""
    from matplotlib.figure import Figure as Canvas

    drawn = kept_figures(monkeypatch)
    learning_curve(write_run(tmp_path / "run", "gem", "Hopper-v5", 0, [5.0, 6.0, 7.0, 8.0], learning_starts=2000))
    (run,) = collect(tmp_path).runs
    panel = Canvas().subplots()
    draw_curve(panel, [run], "return_mean", 1, 1.0, styles(["gem"])["gem"])
    for axes in (drawn[0].axes[0], panel):
        (hollow,) = (item for item in axes.collections if np.size(item.get_offsets()) > 2)
        np.testing.assert_array_equal(hollow.get_offsets(), [[1000, 5], [2000, 6]])
        assert np.all(np.asarray(hollow.get_facecolor()) == 1)  # white
        assert axes.lines[0].get_markevery() == [2, 3]
    assert [text.get_text() for text in drawn[0].axes[0].texts] == ["warm-up"]
    caption = captioned(FIGURES["mujoco"], collect(tmp_path), ["gem"], ["Hopper-v5"], 1)
    assert "Shaded: warm-up before training starts; hollow markers: evaluations before training starts." in caption


@pytest.mark.parametrize("tasks", [("Hopper",), ("Hopper", "HalfCheetah")])
def test_png_files_are_wide_enough(study: Collection, tmp_path: Path, tasks: tuple[str, ...]) -> None:
    files = [draw(Figure("Wide", tasks), study, formats=["png"]).files["png"]]
    curve = learning_curve(write_run(tmp_path, "gem", "Hopper-v5", 0, [1.0, 2.0]))
    assert curve is not None
    for content in (*files, curve.read_bytes()):
        assert int.from_bytes(content[16:20], "big") >= 1600  # the width in the header of a PNG


def test_figure_command_draws_the_available_runs(study: Collection, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["figure", "ablation", "--runs", str(study.folder), "--smooth", "3", "--out"]
    assert main([*words, str(tmp_path / "a")]) == 0
    shown = capsys.readouterr().out
    assert "tasks without runs: Ant, Humanoid" in shown
    assert "HalfCheetah-v5 has no run of td3-sil, gem-no-tbp" in shown
    starts = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    for ending, start in starts.items():
        assert (tmp_path / "a" / f"ablation.{ending}").read_bytes().startswith(start)
    assert main([*words, str(tmp_path / "b"), "--format", "svg"]) == 0
    assert [file.name for file in (tmp_path / "b").iterdir()] == ["ablation.svg"]
    assert (tmp_path / "b" / "ablation.svg").read_bytes() == (tmp_path / "a" / "ablation.svg").read_bytes()


def test_captions_state_smoothing_and_bands(study: Collection) -> None:
    caption = captioned(FIGURES["nstep"], study, ["gem"], ["Hopper-v5"], 5)
    assert "Mean over 3 runs" in caption
    assert "half a standard deviation over runs, moving average over 5 evaluations" in caption
    assert "not smoothed" in captioned(FIGURES["ablation"], study, ["gem"], ["Hopper-v5"], 1)


def test_captions_state_random_actions_in_evaluations(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "dqn", "CartPole-v1", 0, [100.0, 200.0])
    write_run(tmp_path / "b", "dqn", "ALE/Alien-v5", 0, [100.0, 200.0], evaluation_eps=0.001)
    both = captioned(FIGURES["nstep"], collect(tmp_path), ["dqn"], ["CartPole-v1", "ALE/Alien-v5"], 1)
    assert "deterministic evaluations (on Atari with 0.1% random actions)" in both


def test_games_with_sticky_actions_have_a_separate_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--runs", str(tmp_path), "--format", "svg"]
    for chance in (0.0, 0.25):
        folder = write_run(tmp_path / str(chance), "dqn", "ALE/Alien-v5", 0, [100.0, 200.0], evaluation_eps=0.001)
        description = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps(description | {"env_args": {"repeat_action_probability": chance}}))
        name, other = ("atari-sticky", "atari") if chance else ("atari", "atari-sticky")
        drawing = draw(FIGURES[name], collect(folder), formats=["svg"])
        assert b"<!-- agent steps (4 frames each) -->" in drawing.files["svg"]
        assert "One run per method: evaluations with 0.1% random actions" in drawing.caption
        assert main(["figure", other, "--runs", str(folder)]) == 2
        assert f"with{'out' * (chance > 0)} sticky actions" in capsys.readouterr().err
    assert main(["figure", "atari", *words]) == 0
    both = (tmp_path / "atari.svg").read_text()
    assert "ALE/Alien-v5" in both
    assert "repeat_action_probability" not in both


def test_figures_and_reports_find_studies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["figure", "mujoco"]) == 2
    assert "runs is not a folder" in capsys.readouterr().err
    write_study(tmp_path / "studies" / "mujoco")
    assert main(["figure", "mujoco", "--format", "svg"]) == 0
    assert (tmp_path / "studies" / "mujoco" / "mujoco.svg").exists()
    assert main(["report", "--table"]) == 0
    assert "HalfCheetah-v5" in capsys.readouterr().out


def test_study_of_the_paper_on_other_tasks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for env in ("Pendulum-v1", "Hopper-v5"):
        write_run(tmp_path / "gem" / env / "0", "gem", env, 0, [1, 2])
    (tmp_path / "study.json").write_text(json.dumps({"name": "mujoco", "title": "MuJoCo", "algos": {"gem": {}}, "envs": []}))
    assert main(["figure", "mujoco", "--runs", str(tmp_path), "--format", "svg"]) == 0
    drawn = (tmp_path / "mujoco.svg").read_text()
    assert drawn.index("<!-- Hopper-v5 -->") < drawn.index("<!-- Pendulum-v1 -->")
    assert "Pendulum" not in capsys.readouterr().out.replace("Pendulum-v1 has no run of", "")


def test_custom_studies_have_a_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "td3" / "Pendulum-v1" / "0", "td3", "Pendulum-v1", 0, [1, 2])
    facts = {"name": "mine", "title": "My study", "algos": {"td3": {}}, "envs": ["Pendulum-v1"]}
    (tmp_path / "study.json").write_text(json.dumps(facts))
    assert main(["figure", "mine", "--runs", str(tmp_path), "--format", "svg"]) == 0
    assert (tmp_path / "mine.svg").exists()
    assert main(["figure", "min", "--runs", str(tmp_path)]) == 2
    assert "did you mean 'mine'?" in capsys.readouterr().err
    assert main(["figure", "atari", "--runs", str(tmp_path)]) == 2
    assert "has no run on Alien" in capsys.readouterr().err


@pytest.mark.parametrize(("methods", "long"), [(24, "learning_rate=0.000{} batch_size=256"), (2, "x" * 60 + " {} " + "y" * 60)])
def test_legend_has_enough_room(tmp_path: Path, methods: int, long: str, recwarn: pytest.WarningsRecorder) -> None:
    """With many names, long names and long titles nothing overlaps the panels and nothing is clipped."""
    import matplotlib.pyplot as plt

    env = "ALE/Frostbite-v5 (repeat_action_probability=0.25)"
    for number in range(methods):
        write_run(tmp_path / str(number), "gem", "Hopper-v5", number, [1, 2])
    found = collect(tmp_path)
    named = tuple(replace(run, method=f"gem {long.format(run.seed)}", env=env) for run in found.runs)
    found = replace(found, runs=named)
    picture = _panels(plt, Figure("Many", ("Frostbite",), methods=tuple(found.methods)), found, [env], 1, "A caption. " * 9)
    renderer = picture.canvas.get_renderer()
    (panel,) = (axes for axes in picture.axes if axes.get_visible())
    legend = picture.legends[0].get_window_extent(renderer)
    whole = picture.bbox
    assert legend.y1 <= panel.get_window_extent(renderer).y0
    assert whole.x0 <= legend.x0 < legend.x1 <= whole.x1
    assert whole.y0 <= legend.y0
    assert panel.title.get_window_extent(renderer).x1 <= whole.x1
    assert panel.get_window_extent(renderer).height > 100
    assert not [warning for warning in recwarn if "constrained_layout" in str(warning.message)]
    plt.close(picture)


def test_smoothing_is_over_the_evaluations_of_each_run(tmp_path: Path) -> None:
    """Independent of how often other runs were evaluated."""
    import matplotlib.pyplot as plt

    zigzag = [0.0, 3.0] * 30
    write_run(tmp_path / "0", "gem", "Hopper-v5", 0, zigzag, every=1000)
    write_run(tmp_path / "1", "gem", "Hopper-v5", 1, [1.5] * 600, every=100)
    picture = _panels(plt, Figure("Two", ("Hopper",), methods=("gem",)), collect(tmp_path), ["Hopper-v5"], 5, "")
    (line,) = (line for line in picture.axes[0].lines)
    assert np.abs(np.diff(line.get_ydata())[25:-25]).max() < 0.35  # every second value is 3, a fifth of the window
    plt.close(picture)
