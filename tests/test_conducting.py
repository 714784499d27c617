"""The loop of a study, with runs whose outcome a test decides: who is started, tried again, waited for and given up."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from gemrl.cli import study_table
from gemrl.core.processes import Interrupts
from gemrl.experiments.executors.base import Job
from gemrl.experiments.executors.local import Local
from gemrl.experiments.studies import runner
from gemrl.experiments.studies.folder import Keep, planned
from gemrl.experiments.studies.runner import State, StudyRunner
from gemrl.experiments.studies.study import Study

Deed = Callable[[], int]
"""What a process does, and the exit code that it ends with."""


class Plan:
    """A run of a study."""

    def __init__(self, folder: Path, name: str) -> None:
        self.run, self.done = name, False
        self.job = Job(folder / name, (), folder / "logs" / f"{name}.txt")
        self.job.folder.mkdir(parents=True)

    def ends(self, code: int = 0, *, done: bool = False, step: int | None = None) -> Deed:
        """It ends so, finished or not, with or without a new checkpoint."""

        def deed() -> int:
            self.done = self.done or done
            if step is not None:
                (self.job.folder / "checkpoints" / f"{step:09d}").mkdir(parents=True)
            return code

        return deed


class Script:
    """An executor in which each start of a run is its next deed."""

    def __init__(self, slots: int, deeds: dict[str, list[Deed]]) -> None:
        self.slots = self.at_once = slots
        self.deeds, self.started = deeds, list[str]()
        self.alive = self.most = 0

    def start(self, job: Job) -> Acting:
        self.started.append(job.folder.name)
        self.alive += 1
        self.most = max(self.most, self.alive)
        return Acting(self, self.deeds[job.folder.name].pop(0))

    def close(self) -> None: ...


class Acting:
    """A process that is seen alive once, and then ends."""

    def __init__(self, script: Script, deed: Deed) -> None:
        self._script, self._deed, self._seen = script, deed, False

    def poll(self) -> int | None:
        if not self._seen:
            self._seen = True
            return None
        self._script.alive -= 1
        return self._deed()

    def stop(self) -> None: ...

    def kill(self) -> None: ...


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "PAUSE", 0.0)


def conduct(plans: list[Any], script: Script, show: Callable[[], None] = lambda: None) -> tuple[list[State], list[str]]:
    """How the runs end, and what is said on the way."""
    said: list[str] = []
    conductor = StudyRunner(plans, script, Keep.ALL, lambda tracked, what: said.append(f"{tracked.plan.run}: {what}"))
    conductor.go(Interrupts(lambda: None), show)
    return [tracked.state for tracked in conductor.all], said


def test_never_more_at_a_time_than_there_is_room(tmp_path: Path) -> None:
    plans = [Plan(tmp_path, str(number)) for number in range(5)]
    script = Script(2, {plan.run: [plan.ends(done=True)] for plan in plans})
    assert conduct(plans, script)[0] == [State.DONE] * 5
    assert (script.most, script.started) == (2, [plan.run for plan in plans])


@pytest.mark.parametrize("code", [-9, -15, 130, 137, 143])
def test_who_is_killed_goes_on_and_is_given_up_if_nothing_comes_of_it(code: int, tmp_path: Path) -> None:
    patient, hopeless = Plan(tmp_path, "patient"), Plan(tmp_path, "hopeless")
    kills = [patient.ends(code, step=step) for step in range(100, 900, 100)]
    script = Script(2, {"patient": [*kills, patient.ends(done=True)], "hopeless": [hopeless.ends(code)] * 9})
    states, said = conduct([patient, hopeless], script)
    assert states == [State.DONE, State.FAILED]
    assert (script.started.count("patient"), script.started.count("hopeless")) == (9, 4)
    assert "hopeless: failed: killed 4 times without a new checkpoint; is there enough memory?" in said


def test_who_ends_well_without_being_finished_has_failed(tmp_path: Path) -> None:
    plan = Plan(tmp_path, "run")
    states, said = conduct([plan], Script(1, {"run": [plan.ends()] * 3}))
    assert states == [State.FAILED]
    assert "do all machines share this path?" in said[-1]


def test_who_fails_once_may_be_done_the_second_time(tmp_path: Path) -> None:
    plan = Plan(tmp_path, "run")
    states, said = conduct([plan], Script(1, {"run": [plan.ends(1), plan.ends(done=True)]}))
    assert states == [State.DONE]
    assert said == ["run: start", "run: failed and will be tried once more: it said nothing", "run: start", "run: done"]


HOLDER = """
import pathlib, sys
from gemrl.core.locking import alone
with alone(pathlib.Path(sys.argv[1])):
    print("mine", flush=True)
    sys.stdin.read()
"""


def test_a_folder_in_use_is_waited_for_and_takes_a_slot(tmp_path: Path) -> None:
    busy, other = Plan(tmp_path, "busy"), Plan(tmp_path, "other")
    words = [sys.executable, "-c", HOLDER, str(busy.job.folder)]
    script, looks = Script(1, {"other": [other.ends(done=True)]}), list[list[str]]()
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"mine\n"

        def show() -> None:
            looks.append(list(script.started))
            if len(looks) == 5:
                busy.done = True
                holder.communicate()

        _, said = conduct([busy, other], script, show)
    assert looks[:5] == [[]] * 5  # it takes a core as well
    assert script.started == ["other"]  # what the process left is done: it is not run again
    assert said[:2] == ["busy: another process is at work in its folder; waiting for it", "busy: done"]


@pytest.mark.parametrize("height", [8, 40])
def test_the_live_table_shows_every_state(tmp_path: Path, height: int, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    terminal = Console(file=written, force_terminal=True, width=120, height=height, color_system=None)
    monkeypatch.setattr(study_table, "Console", lambda: terminal)
    plans = planned(Study("own", "own", ("gem", "td3", "sac"), ("Pendulum-v1",), (0, 1), 5000), tmp_path)
    plans[1].job.folder.mkdir(parents=True)
    (plans[1].job.folder / "progress.csv").write_text("time/total_timesteps,time/time_elapsed\n1000,10\n2000,15\n")
    (plans[1].job.folder / "evaluations.csv").write_text("step,return_mean\n1000,-123.4\n")
    show = study_table.Show(2)
    conductor = show.conductor = StudyRunner(plans, Local(2), Keep.ALL, show.tell)
    for tracked, state in zip(conductor.all, State, strict=True):  # the second is running
        tracked.state = state
    with show:
        pass  # it is drawn at the end in any case
    text = written.getvalue()
    row = next(line for line in text.splitlines() if "2,000 of 5,000" in line)
    assert [word for word in row.split() if "━" not in word][-5:] == ["of", "5,000", "200", "-123.4", "running"]
    assert "1 of 6 runs done, 1 failed, about" in text
    assert ("and 3 more" in text) == (height == 8)
