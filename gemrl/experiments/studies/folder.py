"""A study's folder: its runs, which of them are finished, and which of their files are kept.

OUT/study.json              recipes with all fields, environments, seeds, steps, settings, versions
OUT/<algo>/<env>/<seed>/    a run folder, as `gemrl train --run` creates it
OUT/logs/                   the output of runs that are not finished
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from gemrl.algorithms.registry import algorithm_for, recipe, recipe_for
from gemrl.core.exceptions import RunFolderError, UnknownName
from gemrl.core.layout import Layout
from gemrl.core.links import refuse_links_between
from gemrl.core.mappings import differences
from gemrl.core.text import short
from gemrl.envs.arguments import parse_env_args, with_sticky
from gemrl.envs.making import make
from gemrl.envs.spaces import Spaces
from gemrl.experiments import checkpoints, run_folder
from gemrl.experiments.executors.base import Job
from gemrl.experiments.studies.study import RunName, Study
from gemrl.experiments.studies.study_file import read_study_file, write_study_file
from gemrl.experiments.versions import versions


class Keep(Enum):
    """Which files of a finished run are kept."""

    ALL = "everything, including checkpoints"
    MODELS = "everything except checkpoints"
    RESULTS = "CSV and JSON files"


class PlannedRun(NamedTuple):
    """A run of the study, with everything that determines its result, as in run.json."""

    trial: RunName
    job: Job
    facts: dict[str, Any]

    @property
    def done(self) -> bool:
        """Whether the run is finished."""
        return run_folder.holds_run(self.job.folder) and run_folder.finished(self.job.folder, self.facts["steps"])


def planned(study: Study, out: Path, extra: Iterable[str] = ()) -> list[PlannedRun]:
    """All runs of the study. Names, fields and existing run folders are checked before any run starts."""
    for entry in study.entries:
        try:
            recipe(entry.algo)
        except UnknownName as error:
            raise UnknownName(f"the study {study.name} cannot be started: {error}") from None
    layouts = {env: layout_of(study, env) for env in study.envs}
    plans = [plan_run(study, trial, layouts[trial.env], out, tuple(extra)) for trial in study.trials]
    for plan in plans:
        check_same_run(plan, out)
    return plans


def layout_of(study: Study, env: str) -> Layout:
    """The observations and actions of an environment of the study."""
    made = make(env, **env_args(study, env))
    layout = Spaces.of(made).layout
    made.close()
    return layout


def plan_run(study: Study, trial: RunName, layout: Layout, out: Path, extra: tuple[str, ...]) -> PlannedRun:
    """One run: the arguments of `gemrl train`, and the facts that its run.json will hold."""
    settings = [*study.settings, *trial.entry.settings]
    algo = algorithm_for(trial.entry.algo, layout)
    chosen = recipe_for(algo, trial.env, layout, settings)
    facts = {
        "algo": algo,
        "env": trial.env,
        "seed": trial.seed,
        "steps": study.steps,
        "eval_every": study.eval_every,
        "eval_episodes": study.eval_episodes,
        "n_envs": 1,
        "env_args": env_args(study, trial.env),
        "recipe": run_folder.as_json(chosen),
    }
    folder = out / trial.subfolder
    arguments = ["train", trial.env, "--algo", algo, "--run", str(folder), "--threads", "1"]
    for name in ("steps", "seed", "eval_every", "eval_episodes"):
        arguments += [f"--{name.replace('_', '-')}", str(facts[name])]
    arguments += ["--env-args", *study.env_args] if study.env_args else []
    arguments += [*extra, *(["--set", *settings] if settings else [])]
    log = out / "logs" / ("-".join(trial.subfolder.parts) + ".txt")
    return PlannedRun(trial, Job(folder, tuple(arguments), log), facts)


def env_args(study: Study, env: str) -> dict[str, Any]:
    """The arguments of an environment of the study."""
    return with_sticky(env, None, parse_env_args(study.env_args))


def check_same_run(plan: PlannedRun, out: Path) -> None:
    """Raises RunFolderError if the folder contains a different run, or one that cannot be resumed."""
    folder = plan.job.folder
    refuse_links_between(out, folder)
    if not run_folder.holds_run(folder):
        return
    existing = {"env_args": {}} | run_folder.describe(folder)  # older runs have no env_args
    existing["recipe"] = run_folder.recipe_fields(existing)  # older runs lack newer fields
    changes = changed_values({name: existing.get(name) for name in plan.facts}, plan.facts)
    if changes:
        raise RunFolderError(f"{folder} contains a different run: {'; '.join(changes)}. Choose another --out, or remove it")
    if not plan.done:
        run_folder.check_resumable(folder, existing, other_versions=False)


def changed_values(existing: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """One phrase for each value that differs; the fields of recipes one by one."""
    found = []
    for name, (before, now) in differences(existing, new).items():
        if isinstance(before, dict) and isinstance(now, dict):
            found += changed_values(before, now)
        else:
            found.append(f"{name} is {short(before)} there but {short(now)} here")
    return found


def write_study(study: Study, plans: list[PlannedRun], out: Path, requested: Keep | None = None) -> Keep:
    """Writes study.json and returns which files of finished runs are kept: as requested now, or at an earlier start.

    Recipes, environments and seeds of earlier starts in this folder stay in the file.
    """
    before = read_study_file(out, strict=True)
    keep = requested or next((option for option in Keep if option.name.lower() == before.get("keep")), Keep.MODELS)
    content = _content(study, plans, keep, before)
    if before:
        fixed = ("name", "steps", "eval_every", "eval_episodes", "settings", "env_args")
        changes = changed_values({name: before.get(name, []) for name in fixed}, {name: content[name] for name in fixed})
        if changes:
            raise RunFolderError(f"{out} contains a different study: {changes[0]}. Choose another --out, or remove it")
    write_study_file(out, content)
    return keep


def _content(study: Study, plans: list[PlannedRun], keep: Keep, before: Mapping[str, Any]) -> dict[str, Any]:
    """The content of study.json: this study, together with what the file held before."""
    recipes: dict[str, Any] = {label: dict(by_env) for label, by_env in before.get("recipes", {}).items()}
    for plan in plans:
        recipes.setdefault(plan.trial.entry.label, {})[plan.trial.env] = plan.facts["recipe"]
    algos = {entry.label: {"algo": entry.algo, "settings": list(entry.settings)} for entry in study.entries}
    return {
        "name": study.name,
        "title": study.title,
        "algos": before.get("algos", {}) | algos,
        "envs": list(dict.fromkeys([*before.get("envs", []), *study.envs])),
        "seeds": sorted({*before.get("seeds", []), *study.seeds}),
        "steps": study.steps,
        "eval_every": study.eval_every,
        "eval_episodes": study.eval_episodes,
        "settings": list(study.settings),
        "env_args": list(study.env_args),
        "keep": keep.name.lower(),
        "recipes": recipes,
        "versions": versions(),
    }


def tidy(folder: Path, keep: Keep) -> None:
    """Removes the files of a finished run that are not to be kept. Safe to interrupt and to repeat."""
    if keep is Keep.RESULTS:
        run_folder.seal_results(folder)
        remove_model(folder)
    if keep is not Keep.ALL:
        shutil.rmtree(checkpoints.folder_of(folder), ignore_errors=True)


def tidy_abandoned(folder: Path) -> None:
    """Removes everything but the results of a run that was ended early for good."""
    remove_model(folder)
    shutil.rmtree(checkpoints.folder_of(folder), ignore_errors=True)


def remove_model(folder: Path) -> None:
    """Removes the model of a run and the figure of its learning curve."""
    for name in (*run_folder.MODELS, "learning_curve.png"):
        (folder / name).unlink(missing_ok=True)
