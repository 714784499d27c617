"""The loop of a study with scripted runs: which are started, tried again, waited for and given up."""

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

Action = Callable[[], int]
"""What a process does; returns its exit code."""


class Plan:
    """A run of a study."""

    def __init__(self, folder: Path, name: str) -> None:
        self.trial, self.done = name, False
        self.job = Job(folder / name, (), folder / "logs" / f"{name}.txt")
        self.job.folder.mkdir(parents=True)

    def ends(self, code: int = 0, *, done: bool = False, step: int | None = None) -> Action:
        """A process that exits with this code, finished or not, with or without a new checkpoint."""

        def act() -> int:
            self.done = self.done or done
            if step is not None:
                (self.job.folder / "checkpoints" / f"{step:09d}").mkdir(parents=True)
            return code

        return act


class ScriptedExecutor:
    """An executor whose processes do what the script says: one action per start of a run."""

    def __init__(self, slots: int, actions: dict[str, list[Action]]) -> None:
        self.slots = self.at_once = slots
        self.actions, self.started = actions, list[str]()
        self.alive = self.most = 0

    def start(self, job: Job) -> ScriptedProcess:
        self.started.append(job.folder.name)
        self.alive += 1
        self.most = max(self.most, self.alive)
        return ScriptedProcess(self, self.actions[job.folder.name].pop(0))

    def close(self) -> None: ...


class ScriptedProcess:
    """A process that is alive at the first poll and ends at the second."""

    def __init__(self, script: ScriptedExecutor, action: Action) -> None:
        self._script, self._action, self._seen = script, action, False

    def poll(self) -> int | None:
        if not self._seen:
            self._seen = True
            return None
        self._script.alive -= 1
        return self._action()

    def stop(self) -> None: ...

    def kill(self) -> None: ...


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "POLL_SECONDS", 0.0)


def run_all(
    plans: list[Any], script: ScriptedExecutor, refresh: Callable[[], None] = lambda: None
) -> tuple[list[State], list[str]]:
    """The final states of the runs, and the messages."""
    messages: list[str] = []
    study = StudyRunner(plans, script, Keep.ALL, lambda tracked, what: messages.append(f"{tracked.plan.trial}: {what}"))
    study.run(Interrupts(lambda: None), refresh)
    return [tracked.state for tracked in study.all], messages


def test_no_more_processes_than_slots(tmp_path: Path) -> None:
    plans = [Plan(tmp_path, str(number)) for number in range(5)]
    script = ScriptedExecutor(2, {plan.trial: [plan.ends(done=True)] for plan in plans})
    assert run_all(plans, script)[0] == [State.DONE] * 5
    assert (script.most, script.started) == (2, [plan.trial for plan in plans])


@pytest.mark.parametrize("code", [-9, -15, 130, 137, 143])
def test_killed_runs_are_resumed_until_they_make_no_progress(code: int, tmp_path: Path) -> None:
    patient, hopeless = Plan(tmp_path, "patient"), Plan(tmp_path, "hopeless")
    kills = [patient.ends(code, step=step) for step in range(100, 900, 100)]
    script = ScriptedExecutor(2, {"patient": [*kills, patient.ends(done=True)], "hopeless": [hopeless.ends(code)] * 9})
    states, messages = run_all([patient, hopeless], script)
    assert states == [State.DONE, State.FAILED]
    assert (script.started.count("patient"), script.started.count("hopeless")) == (9, 4)
    assert "hopeless: failed: killed 4 times without a new checkpoint; is there enough memory?" in messages


def test_exit_without_results_counts_as_failure(tmp_path: Path) -> None:
    plan = Plan(tmp_path, "run")
    states, messages = run_all([plan], ScriptedExecutor(1, {"run": [plan.ends()] * 3}))
    assert states == [State.FAILED]
    assert "do all machines share this path?" in messages[-1]


def test_failed_run_is_tried_again(tmp_path: Path) -> None:
    plan = Plan(tmp_path, "run")
    states, messages = run_all([plan], ScriptedExecutor(1, {"run": [plan.ends(1), plan.ends(done=True)]}))
    assert states == [State.DONE]
    assert messages == [
        "run: starting",
        "run: failed and will be tried once more: it printed nothing",
        "run: starting",
        "run: done",
    ]


HOLDER = """
import pathlib, sys
from gemrl.core.locking import exclusive
with exclusive(pathlib.Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_folder_in_use_is_waited_for_and_takes_a_slot(tmp_path: Path) -> None:
    busy, other = Plan(tmp_path, "busy"), Plan(tmp_path, "other")
    command = [sys.executable, "-c", HOLDER, str(busy.job.folder)]
    script, started_at_each_poll = ScriptedExecutor(1, {"other": [other.ends(done=True)]}), list[list[str]]()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"locked\n"

        def refresh() -> None:
            started_at_each_poll.append(list(script.started))
            if len(started_at_each_poll) == 5:
                busy.done = True
                holder.communicate()

        _, messages = run_all([busy, other], script, refresh)
    assert started_at_each_poll[:5] == [[]] * 5  # it takes a core as well
    assert script.started == ["other"]  # the other process has finished the run, so it is not run again
    assert messages[:2] == ["busy: another process is using its folder; waiting for it", "busy: done"]


@pytest.mark.parametrize("height", [8, 40])
def test_live_table_shows_every_state(tmp_path: Path, height: int, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    terminal = Console(file=written, force_terminal=True, width=120, height=height, color_system=None)
    monkeypatch.setattr(study_table, "Console", lambda: terminal)
    plans = planned(Study("own", "own", ("gem", "td3", "sac"), ("Pendulum-v1",), (0, 1, 2), 5000), tmp_path)[:7]
    plans[1].job.folder.mkdir(parents=True)
    (plans[1].job.folder / "progress.csv").write_text("time/total_timesteps,time/time_elapsed\n1000,10\n2000,15\n")
    (plans[1].job.folder / "evaluations.csv").write_text("step,return_mean\n1000,-123.4\n")
    display = study_table.StudyDisplay(2)
    study = display.runner = StudyRunner(plans, Local(2), Keep.ALL, display.notify)
    for tracked, state in zip(study.all, State, strict=True):  # the second is running
        tracked.state = state
    with display:
        pass  # the table is always drawn at the end
    text = written.getvalue()
    row = next(line for line in text.splitlines() if "2,000 of 5,000" in line)
    assert [word for word in row.split() if "━" not in word][-5:] == ["of", "5,000", "200", "-123.4", "running"]
    assert "1 of 7 runs done, 1 failed, about" in text
    assert ("and 4 more" in text) == (height == 8)
