"""What a person sees while training computes."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from rich.console import Console
from rich.progress import Progress

from gemrl.cli import console
from gemrl.training.display import evaluation_line
from gemrl.training.evaluation import Evaluation
from gemrl.training.loop import Event


class Clock:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(console, "monotonic", clock)
    return clock


def training(clock: Clock, seconds: list[float]) -> Iterator[Event]:
    """Rounds that take so long, the first compiled, the others refreshing the memory."""
    for number, spent in enumerate(seconds):
        yield Event(number, compiling=number == 0, refreshing=True)
        clock.now += spent
        yield Event(number + 1, rounds=1, losses={})


@pytest.mark.parametrize(
    ("seconds", "told"), [([30, 5, 9], []), ([1, 5, 25, 26], ["step         2  a round that refreshed the memory took 25 s"])]
)
def test_a_long_refresh_is_told_once_where_there_is_no_bar(
    clock: Clock, seconds: list[float], told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in console.with_progress(training(clock, seconds), len(seconds), "gem"):
        pass
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == f"first round: {seconds[0]:.1f} s, compiling included"
    assert [line.split(",")[0] for line in rest] == told


def test_the_bar_says_what_it_waits_for_while_it_waits(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling at once; a refresh when ten seconds have passed."""
    written, bars = io.StringIO(), []

    class Kept(Progress):
        def __enter__(self) -> Kept:
            bars.append(super().__enter__())
            return self

    monkeypatch.setattr(console, "Console", lambda: Console(file=written, force_terminal=True, width=120, color_system=None))
    monkeypatch.setattr(console, "Progress", Kept)
    events = console.with_progress(training(clock, [1.0, 25.0]), 2, "gem")
    drawn: list[str] = []

    def draw() -> None:
        """What the bar's own thread draws while a round computes."""
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
    assert ["a round that refreshes the memory" in text.split("took")[0] for text in drawn] == [False, False, True, False]


def test_capped_episodes_are_told() -> None:
    line = evaluation_line(1000, Evaluation((1.0, 2.0), (27_000, 5), capped=1, estimation_error=0.5))
    assert "1 of 2 episodes capped" in line
    assert "capped" not in evaluation_line(1000, Evaluation((1.0, 2.0), (4, 5), capped=0, estimation_error=0.5))
