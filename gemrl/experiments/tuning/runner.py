"""Runs the trials of a search: starts them, reports their evaluations, prunes the poor ones and writes down the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gemrl.core.exceptions import GemrlError
from gemrl.core.locking import is_free
from gemrl.core.processes import Interrupts
from gemrl.core.text import score_text
from gemrl.experiments import checkpoints
from gemrl.experiments.executors.base import Executor
from gemrl.experiments.run_logs import read_returns
from gemrl.experiments.studies.folder import Keep, tidy_abandoned
from gemrl.experiments.studies.runner import Notify, State, StudyRunner, TrackedRun
from gemrl.experiments.tuning.files import TRIALS, TrialRow, write_trials
from gemrl.experiments.tuning.search import Search, score
from gemrl.experiments.tuning.store import StartedTrial, TrialStore

MAX_FAILURES = 3
"""A search stops if this many trials have failed and none has ended well: the environment is probably broken."""


class LiveTrial:
    """A trial that is being run: its runs, one per seed, and the evaluations that were reported."""

    def __init__(self, started: StartedTrial, runs: Sequence[TrackedRun]) -> None:
        self.started, self.runs = started, runs
        self.reported = set(started.reported)

    def new_returns(self) -> dict[int, float]:
        """The mean return over all runs at each step that all of them have evaluated and that was not reported yet."""
        returns = [read_returns(run.plan.job.folder) for run in self.runs]
        common = set.intersection(*(set(values) for values in returns)) - self.reported
        return {step: sum(values[step] for values in returns) / len(returns) for step in sorted(common)}

    def failure(self) -> str:
        """Why one of its runs failed, or ""."""
        return next((run.reason for run in self.runs if run.state is State.FAILED), "")

    def done(self) -> bool:
        """Whether all its runs are finished."""
        return all(run.state is State.DONE for run in self.runs)


class SearchRunner:
    """Runs a search until it has `trials` trials, as many runs at a time as the executor really runs at once.

    Asking for more settings than can be tried would ignore what the running trials are about to teach.
    """

    def __init__(
        self,
        search: Search,
        out: Path,
        store: TrialStore,
        executor: Executor,
        trials: int,
        notify: Notify,
        say: Callable[[str], None],
        extra: Sequence[str] = (),
    ) -> None:
        self._search, self._out, self._store, self._trials, self._say, self._extra = search, out, store, trials, say, extra
        self._at_once, self._all_started = executor.at_once, False
        self.runs = StudyRunner([], executor, Keep.RESULTS, notify)
        self.live: list[LiveTrial] = []
        self.rows: list[TrialRow] = []
        self.failed, self.ended = 0, 0
        self.broken = ""
        for started in store.unfinished():
            self._begin(started)
        self._write()
        self._tidy()

    def run(self, interrupts: Interrupts, refresh: Callable[[], None]) -> None:
        """Works until all trials have ended, or an interrupt has stopped them; calls `refresh` after each check."""

        def advance() -> None:
            self._advance(interrupts.asked)
            interrupts.asked = interrupts.asked or bool(self.broken)
            refresh()

        with self._store.errors():
            self.runs.run(interrupts, advance)
            self._write()

    def _advance(self, stopping: bool) -> None:
        """Reports what is new, ends trials that are done, failed or poor, and starts new ones where there is room."""
        for trial in list(self.live):
            if self._ended(trial, stopping):
                self.live.remove(trial)
                self._write()
        while not stopping and not self.broken and self._has_room():
            started = self._store.start()
            if started.number < self._trials:
                self._begin(started)
            else:  # another machine has started the last one at the same moment
                self._store.fail(started, "not needed: the last trial was started at the same time")
            self._write()

    def _ended(self, trial: LiveTrial, stopping: bool) -> bool:
        """Reports the new evaluations of a trial; ends it if it is done, failed or poor."""
        new = trial.new_returns()
        trial.reported |= new.keys()
        poor = self._store.report(trial.started, new) if new else False
        if reason := trial.failure():
            self._fail(trial.started, reason)
        elif trial.done():
            value = score([read_returns(run.plan.job.folder) for run in trial.runs])
            self._store.complete(trial.started, value)
            self.ended += 1
            self._say(f"trial {trial.started.number}: score {score_text(value)}")
        elif poor and not stopping and max(trial.reported) < self._search.base.steps:
            self._store.prune(trial.started)  # first: whatever is killed now, the trial is over
            self.ended += 1
            self._say(f"trial {trial.started.number}: pruned at step {max(trial.reported):,}")
        else:
            return False
        for run in trial.runs:
            if run.state not in (State.DONE, State.FAILED):
                self.runs.abandon(run)
        return True

    def _has_room(self) -> bool:
        """Whether a run can be started now and trials are left."""
        active = len(self.runs.in_state(State.WAITING, State.RUNNING, State.ELSEWHERE))
        if active >= self._at_once or self._all_started:
            return False
        self._all_started = self._store.count() >= self._trials
        return not self._all_started

    def _begin(self, started: StartedTrial) -> None:
        """Plans the runs of a trial, new or continued."""
        try:
            plans = self._search.plans(started.number, started.settings, self._out, self._extra)
        except GemrlError as error:
            self._fail(started, str(error))
            return
        self.live.append(LiveTrial(started, [self.runs.add(plan) for plan in plans]))

    def _fail(self, started: StartedTrial, reason: str) -> None:
        """Ends a trial that cannot be run. If nothing but failures happens, the search stops."""
        self._store.fail(started, reason)
        self._say(f"trial {started.number}: failed: {reason}")
        self.failed += 1
        if self.failed >= MAX_FAILURES and not self.ended:
            self.broken = reason

    def _tidy(self) -> None:
        """Removes the checkpoints of ended trials, which a search that was killed may have left behind."""
        for row in self.rows:
            for seed in self._search.base.seeds if row.state in ("pruned", "failed") else ():
                folder = self._out / TRIALS / str(row.number) / str(seed)
                if checkpoints.folder_of(folder).is_dir() and is_free(folder):
                    tidy_abandoned(folder)

    def _write(self) -> None:
        """Writes trials.json."""
        self.rows = self._store.rows()
        write_trials(self._out, self.rows, self._store.importance())
