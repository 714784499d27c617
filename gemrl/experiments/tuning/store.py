"""The trials of a search in Optuna's storage: the only module that knows Optuna.

A trial is created with its owner in one transaction, so that whoever was killed finds its own unfinished trials again, and
machines that share a storage leave those of others alone. Optuna numbers the trials of a study without gaps and repetitions.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from gemrl.algorithms.search_spaces import Parameter, Range
from gemrl.core.exceptions import BadValue, GemrlError, MissingExtra, RunBroken, RunFolderError
from gemrl.core.seeding import derived_seed
from gemrl.experiments.studies.folder import changed_values
from gemrl.experiments.tuning.files import TrialRow
from gemrl.experiments.tuning.search import Search

WAIT_SECONDS = 60
"""How long a SQLite database may be locked by another process."""

STARTUP_TRIALS = 5
"""The median pruner lets this many trials run to their end."""

LEAST_TRIALS, GOOD = 10, 0.5
"""Trials from which on the importance of fields is estimated, and the share of them that counts as good.

Optuna's default share of 0.1 would be a single trial here, which says nothing of fields with choices.
"""

OWNER, FACTS, REASON = "owner", "search", "reason"
"""Names of user attributes in the storage."""


class StartedTrial(NamedTuple):
    """A trial that is not finished."""

    id: int
    number: int
    settings: dict[str, str]
    reported: frozenset[int] = frozenset()
    """Steps whose evaluations were reported already."""


class TrialStore:
    """The trials of one search."""

    def __init__(self, search: Search, url: str, name: str, owner: str) -> None:
        self._optuna = optuna = _imported()
        self._space, self._owner, self._seed, self._sampler = search.space, owner, search.base.seeds[0], search.sampler
        with _storage_errors(optuna, f"cannot use the storage {shown_url(url)}", BadValue):
            arguments = {"connect_args": {"timeout": WAIT_SECONDS}} if url.startswith("sqlite") else {}
            try:
                self._storage = optuna.storages.RDBStorage(url, engine_kwargs={"pool_pre_ping": True, **arguments})
            except ImportError as error:
                raise MissingExtra(f"the storage {shown_url(url)} needs a database driver: {error}") from None
            self._study = optuna.create_study(
                storage=self._storage,
                study_name=name,
                direction="maximize",
                pruner=_pruner(optuna, search),
                load_if_exists=True,
            )
            self._study_id = self._storage.get_study_id_from_name(name)
            self._check_facts(search, name)

    def _check_facts(self, search: Search, name: str) -> None:
        """Raises RunFolderError if the storage contains a different search under this name."""
        facts, known = search.facts(), self._study.user_attrs.get(FACTS)
        if known is None:
            if self._study.trials:
                raise RunFolderError(f"the storage has a study {name!r} that gemrl did not create; choose another --study-name")
            self._study.set_user_attr(FACTS, facts)
        elif changes := changed_values(known, facts):
            raise RunFolderError(f"the study {name!r} is a different search: {changes[0]}. Choose another --study-name and --out")

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turns errors of the storage into one line."""
        with _storage_errors(self._optuna, "the storage failed; the same command continues", RunBroken):
            yield

    def count(self) -> int:
        """The number of trials, in any state and on any machine."""
        return int(self._storage.get_n_trials(self._study_id))

    def start(self) -> StartedTrial:
        """Creates the next trial and chooses its settings."""
        trials = self._optuna.trial
        template = trials.create_trial(state=trials.TrialState.RUNNING, user_attrs={OWNER: self._owner})
        return self._suggest(self._storage.create_new_trial(self._study_id, template))

    def unfinished(self) -> list[StartedTrial]:
        """The unfinished trials that this search has started, oldest first."""
        running = self._study.get_trials(deepcopy=False, states=(self._optuna.trial.TrialState.RUNNING,))
        return [self._suggest(trial._trial_id) for trial in running if trial.user_attrs.get(OWNER) == self._owner]

    def _suggest(self, trial_id: int) -> StartedTrial:
        """A trial with all its settings: those it has already, and new ones for the rest."""
        known = self._storage.get_trial(trial_id)
        # A sampler per trial: a search that continues must not draw the numbers of its first trials again. A study object per
        # trial: a sampler would see the trials that the object has kept in memory, not those that have ended since.
        sampler = _sampler(self._optuna, self._sampler, self._seed, known.number)
        study = self._optuna.load_study(study_name=self._study.study_name, storage=self._storage, sampler=sampler)
        study.get_trials(deepcopy=False)
        trial = self._optuna.trial.Trial(study, trial_id)
        settings = {name: _suggested(trial, name, values) for name, values in self._space.items()}
        return StartedTrial(trial_id, known.number, settings, frozenset(known.intermediate_values))

    def report(self, trial: StartedTrial, returns: Mapping[int, float]) -> bool:
        """Reports evaluations, each once; returns whether the trial should be pruned."""
        handle = self._optuna.trial.Trial(self._study, trial.id)
        for step, value in sorted(returns.items()):
            handle.report(value, step)
            if handle.should_prune():
                return True
        return False

    def complete(self, trial: StartedTrial, score: float) -> None:
        """Ends a trial with its score."""
        self._study.tell(trial.number, score)

    def prune(self, trial: StartedTrial) -> None:
        """Ends a trial early."""
        self._study.tell(trial.number, state=self._optuna.trial.TrialState.PRUNED)

    def fail(self, trial: StartedTrial, reason: str) -> None:
        """Ends a trial that cannot be run."""
        self._storage.set_trial_user_attr(trial.id, REASON, reason[:1000])
        self._study.tell(trial.number, state=self._optuna.trial.TrialState.FAIL)

    def rows(self) -> list[TrialRow]:
        """All trials, those of other machines included."""
        return [self._row(trial) for trial in self._study.get_trials(deepcopy=False)]

    def _row(self, trial: Any) -> TrialRow:
        states = self._optuna.trial.TrialState
        names = {states.COMPLETE: "complete", states.PRUNED: "pruned", states.FAIL: "failed"}
        value = trial.value if trial.values else None
        settings = {name: _text(trial.params[name]) for name in self._space if name in trial.params}
        return TrialRow(
            trial.number,
            names.get(trial.state, "running"),
            value if value is not None and math.isfinite(value) else None,
            settings,
            max(trial.intermediate_values, default=0),
            str(trial.user_attrs.get(REASON, "")),
        )

    def importance(self) -> dict[str, float]:
        """The importance of each field by PED-ANOVA, largest first; {} if there are too few trials.

        It compares the better half of the trials with all of them. Pruned ones count with their last evaluation: without them,
        a field whose poor values are pruned would seem to have no effect.
        """
        optuna, states = self._optuna, self._optuna.trial.TrialState
        ended = self._study.get_trials(deepcopy=False, states=(states.COMPLETE, states.PRUNED))
        ended = [trial for trial in ended if trial.values]
        if len(ended) < LEAST_TRIALS:
            return {}
        study = optuna.create_study(direction="maximize")
        for trial in ended:
            study.add_trial(optuna.trial.create_trial(params=trial.params, distributions=trial.distributions, value=trial.value))
        evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=GOOD)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that few trials differ
            found = optuna.importance.get_param_importances(study, evaluator=evaluator)
        return {name: float(share) for name, share in found.items() if math.isfinite(share)}


def _sampler(optuna: Any, name: str, seed: int, number: int) -> Any:
    """The sampler of a trial, seeded by the search's seed and the trial's number."""
    drawn = derived_seed(seed, "trials", number)
    if name == "random":
        return optuna.samplers.RandomSampler(seed=drawn)
    return optuna.samplers.TPESampler(seed=drawn, constant_liar=True)


def _pruner(optuna: Any, search: Search) -> Any:
    """The pruner: the median of earlier trials at the same step, from a third of the steps on, or none."""
    if search.pruner == "none":
        return optuna.pruners.NopPruner()
    return optuna.pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS, n_warmup_steps=search.base.steps // 3)


def _suggested(trial: Any, name: str, values: Parameter) -> str:
    """A value that Optuna chooses, as `--set` takes it."""
    if not isinstance(values, Range):
        return _text(trial.suggest_categorical(name, values.texts))
    suggest = trial.suggest_int if values.whole else trial.suggest_float
    return _text(suggest(name, values.low, values.high, log=values.log))


def _text(value: Any) -> str:
    """A value in Optuna's storage as text; choices are texts already."""
    return value if isinstance(value, str) else repr(value)


def default_url(out: Path) -> str:
    """The storage of a search that is given none: a SQLite file in its folder."""
    return f"sqlite:///{out.absolute() / 'tune.db'}"


def shown_url(url: str) -> str:
    """The URL of a storage without its password, to be printed and stored."""
    _imported()
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        raise BadValue("--storage takes a database URL, such as sqlite:///tune.db or postgresql://host/name") from None


@contextmanager
def _storage_errors(optuna: Any, what: str, kind: type[GemrlError]) -> Iterator[None]:
    """Turns errors of the storage into one line that begins with `what`."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        reason = str(error.__cause__ or error).strip().splitlines()[0]
        raise kind(f"{what}: {reason}") from None


def _imported() -> Any:
    """The module `optuna`, without its log lines, or an error that says how to install it."""
    try:
        import optuna
    except ImportError:
        raise MissingExtra("a search needs optuna: pip install 'gemrl[tune]'") from None
    optuna.logging.set_verbosity(logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna
