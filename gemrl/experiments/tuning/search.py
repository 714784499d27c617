"""A hyperparameter search as data: what is trained, which fields are varied, and how its trials are scored.

OUT/tune.json               what is searched: environment, algorithm, space, seeds, steps, versions
OUT/tune.db                 Optuna's storage, unless another one is given
OUT/trials.json             all trials with their settings and scores, and the importance of each field
OUT/trials/<number>/<seed>/ the run folder of a trial's seed, as `gemrl train --run` creates it
OUT/logs/                   the output of runs that are not finished
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from gemrl.algorithms.registry import AnyRecipe, algorithm_for, recipe_for
from gemrl.algorithms.search_spaces import SearchSpace, check_space, default_space, without
from gemrl.core.exceptions import BadValue
from gemrl.core.layout import Layout
from gemrl.core.literals import split_setting
from gemrl.experiments.run_logs import SCORED
from gemrl.experiments.studies.folder import PlannedRun, check_same_run, env_args, layout_of, plan_run
from gemrl.experiments.studies.study import Entry, Study
from gemrl.experiments.tuning.files import TRIALS

SAMPLERS, PRUNERS = ("tpe", "random"), ("median", "none")


class TrialRun(NamedTuple):
    """One run of a trial: the trial's settings with one seed."""

    number: int
    entry: Entry
    env: str
    seed: int

    @property
    def subfolder(self) -> Path:
        """The run folder, relative to the search's folder."""
        return Path(TRIALS, str(self.number), str(self.seed))

    def __str__(self) -> str:
        return f"trial {self.number}, seed {self.seed}"


@dataclass(frozen=True)
class Search:
    """What is searched. `base` is a study of one recipe on one environment, and every trial changes its settings."""

    base: Study
    algo: str
    layout: Layout
    space: SearchSpace
    sampler: str
    pruner: str

    @staticmethod
    def of(base: Study, sampler: str, pruner: str, own_space: SearchSpace | None = None) -> Search:
        """The search over a space, by default that of the recipe's family. Fields in the settings of `base` are not searched."""
        layout = layout_of(base, base.envs[0])
        algo = algorithm_for(base.entries[0].algo, layout)
        recipe = recipe_for(algo, base.envs[0], layout, base.settings)
        chosen = default_space(recipe) if own_space is None else own_space
        check_space(recipe, chosen)
        space = without(chosen, (split_setting(setting)[0] for setting in base.settings))
        if not space:
            why = (
                f"{algo} has no search space of its own; give one with --space" if not chosen else "--set fixes all of its fields"
            )
            raise BadValue(f"there is nothing to search: {why}")
        _check_warm_up(recipe, space, base.steps)
        return Search(base, algo, layout, space, sampler, pruner)

    @property
    def env(self) -> str:
        """The id of the environment."""
        return self.base.envs[0]

    def facts(self) -> dict[str, Any]:
        """Everything that determines the trials, as JSON values."""
        base = self.base
        return {
            "algo": self.algo,
            "env": self.env,
            "env_args": env_args(base, self.env),
            "settings": list(base.settings),
            "steps": base.steps,
            "eval_every": base.eval_every,
            "eval_episodes": base.eval_episodes,
            "seeds": list(base.seeds),
            "sampler": self.sampler,
            "pruner": self.pruner,
            "space": {name: values.as_dict() for name, values in self.space.items()},
        }

    def plans(self, number: int, settings: Mapping[str, str], out: Path, extra: Sequence[str] = ()) -> list[PlannedRun]:
        """The runs of a trial with these settings, one per seed. Raises a GemrlError if they do not make a valid recipe."""
        entry = Entry(self.algo, tuple(f"{name}={text}" for name, text in settings.items()))
        names = [TrialRun(number, entry, self.env, seed) for seed in self.base.seeds]
        plans = [plan_run(self.base, name, self.layout, out, tuple(extra)) for name in names]
        for plan in plans:
            check_same_run(plan, out)
        return plans


def _check_warm_up(recipe: AnyRecipe, space: SearchSpace, steps: int) -> None:
    """Raises BadValue if a trial may end before anything is learned."""
    starts = [(("learning_starts", text),) for text in space["learning_starts"].texts] if "learning_starts" in space else [()]
    for changes in starts:
        for warning in recipe.but_from_text(changes).warnings(steps, 1):
            raise BadValue(f"{warning} (such as --set learning_starts={max(1, steps // 10)})")


def score(returns: Sequence[Mapping[int, float]]) -> float:
    """The score of a trial: the mean over its runs of the mean of the last three returns, or of fewer if there are fewer."""
    return fmean(fmean([values[step] for step in sorted(values)[-SCORED:]]) for values in returns)
