"""What the command line prints: progress during training, tables, and numbers with their nouns."""

from __future__ import annotations

import dataclasses
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import Progress

from gemrl.algorithms.registry import ALGORITHMS, RECIPES, difference
from gemrl.analysis.figures.paper import Figure, draw
from gemrl.analysis.results.collection import collect
from gemrl.cli import console
from gemrl.cli.compare import MAX_METHODS
from gemrl.cli.main import main
from gemrl.core.text import counted, short
from gemrl.training.display import evaluation_line
from gemrl.training.evaluation import Evaluation
from gemrl.training.loop import Event
from tests.folders import write_run


class Clock:
    """A clock that is advanced by the test."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(console, "monotonic", clock)
    return clock


def training(clock: Clock, seconds: list[float]) -> Iterator[Event]:
    """Events of rounds that take these seconds; the first round is compiled, all refresh the memory."""
    for number, spent in enumerate(seconds):
        yield Event(number, compiling=number == 0, refreshing=True)
        clock.now += spent
        yield Event(number + 1, rounds=1, losses={})


@pytest.mark.parametrize(
    ("seconds", "lines"), [([30, 5, 9], []), ([1, 5, 25, 26], ["step         2  a round with a memory refresh took 25 s"])]
)
def test_long_refresh_is_mentioned_once_without_a_terminal(
    clock: Clock, seconds: list[float], lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in console.with_progress(training(clock, seconds), len(seconds), "gem"):
        pass
    before, first, *rest = capsys.readouterr().out.splitlines()
    assert before == "step         0  compiling the first round of training"
    assert first == f"first round: {seconds[0]:.1f} s, including compilation"
    assert [line.split(";")[0] for line in rest] == lines


def test_bar_shows_what_training_waits_for(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compilation is shown immediately, a refresh after ten seconds."""
    written, bars = io.StringIO(), []

    class Recorded(Progress):
        def __enter__(self) -> Recorded:
            bars.append(super().__enter__())
            return self

    monkeypatch.setattr(console, "Console", lambda: Console(file=written, force_terminal=True, width=120, color_system=None))
    monkeypatch.setattr(console, "Progress", Recorded)
    events = console.with_progress(training(clock, [1.0, 25.0]), 2, "gem")
    drawn: list[str] = []

    def draw() -> None:
        """Records what the thread of the bar draws while a round computes."""
        written.truncate(0)
        bars[0].refresh()
        drawn.append(written.getvalue())

    next(events)
    draw()
    next(events), next(events)
    clock.now += 9.0
    draw()
    clock.now += 2.0
    draw()
    next(events)
    draw()
    assert ["compiling" in text for text in drawn] == [True, False, False, False]
    assert ["refreshing the memory" in text for text in drawn] == [False, False, True, False]


def test_capped_episodes_are_mentioned() -> None:
    line = evaluation_line(1000, Evaluation((1.0, 2.0), (27_000, 5), capped=1, estimation_error=0.5))
    assert "1 of 2 episodes capped" in line
    assert "capped" not in evaluation_line(1000, Evaluation((1.0, 2.0), (4, 5), capped=0, estimation_error=0.5))


def test_numbers_agree_with_their_nouns() -> None:
    assert [counted(number, "run") for number in (0, 1, 2, 1500)] == ["0 runs", "1 run", "2 runs", "1,500 runs"]
    assert [counted(number, "trajectory") for number in (1, 3)] == ["1 trajectory", "3 trajectories"]
    assert "(1 of 1 episode capped)" in evaluation_line(10, Evaluation((1.0,), (27_000,), capped=1, estimation_error=0.5))
    assert RECIPES["gem"].warnings(1, 1)[0].startswith("nothing is learned in 1 step: ")


def test_summaries_of_a_single_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One run, one method and one environment are in the singular, and so is one method that a table has no room for."""
    write_run(tmp_path / "0", "gem", "Hopper-v5", 0, [1], steps=5000)
    found = collect(tmp_path)
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "report.html")]) == 0
    assert "1 run of 1 method on 1 environment" in capsys.readouterr().out
    assert "not finished: 1 run; left out of them: 0" in draw(Figure("One", ("Hopper",)), found, formats=("png",)).missing
    for seed, name in enumerate(sorted(RECIPES.keys() - {"gem"})[:MAX_METHODS], 1):
        write_run(tmp_path / str(seed), name, "Hopper-v5", seed, [1])
    results = tmp_path / "theirs.csv"
    results.write_text("method,env,step,return\nother,Hopper-v5,1000,1\n")
    assert main(["compare", str(tmp_path), "--csv", str(results)]) == 0
    assert re.search(r"the page shows 1 further method\b", capsys.readouterr().out)


def words_of_algorithms() -> set[str]:
    """Every word that `gemrl algos` has to show."""
    found: list[str] = []
    for name, algorithm in ALGORITHMS.items():
        changes = difference(RECIPES[algorithm.compared_with], algorithm.recipe)
        changes = {"family": changes["family"]} if "family" in changes else changes
        found += [name, algorithm.summary, *(f"{field} = {short(new)}" for field, (_, new) in changes.items())]
    return {word for text in found for word in text.split()}


@pytest.mark.parametrize("width", [60, 80, 120])
def test_algorithms_are_wrapped_and_not_cut(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipe has the width that COLUMNS says."""
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["algos"]) == 0
    shown = capsys.readouterr().out
    assert words_of_algorithms() <= set(shown.split())
    assert max(map(len, shown.splitlines())) <= width
    assert main(["algos", "--fields"]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= width
    fields = [field for name in ("gem", "gem-discrete") for field in dataclasses.fields(RECIPES[name])]
    words = {word for field in fields for word in [field.name, *field.metadata["doc"].split()[:-1]]}  # a list may follow the last
    assert words <= set(shown.split())


def test_tables_are_wide_in_a_pipe_without_a_width(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for columns in ("", "0", "wide"):
        monkeypatch.setenv("COLUMNS", columns)
        assert main(["algos"]) == 0
        assert 120 < max(map(len, capsys.readouterr().out.splitlines())) <= 160
