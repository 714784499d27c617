"""A study's folder: what the study is, which of its runs are done, and what is kept of them.

OUT/study.json              recipes with all fields, environments, seeds, steps, settings, versions
OUT/<algo>/<env>/<seed>/    a run's folder, as `gemrl train --run` makes it
OUT/logs/                   what runs that are not finished have said
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from gemrl.algorithms.registry import algorithm_for, recipe, recipe_for
from gemrl.core.exceptions import GemrlError, ModelFileError, RunFolderError, UnknownName
from gemrl.core.files import read_json, write_json
from gemrl.core.layout import Layout
from gemrl.core.text import short
from gemrl.envs.arguments import parse_env_args, with_sticky
from gemrl.envs.making import make
from gemrl.envs.spaces import Spaces
from gemrl.experiments import checkpoints, run_folder
from gemrl.experiments.executors.base import Job
from gemrl.experiments.studies.study import Study, Trial
from gemrl.experiments.versions import versions

FORMAT = 1
"""Version of study.json."""


class Keep(Enum):
    """What stays of a finished run."""

    ALL = "everything, checkpoints too"
    MODELS = "all but checkpoints"
    RESULTS = "CSV and JSON"


class PlannedRun(NamedTuple):
    """A run of the study with all that decides it, as its run.json has it."""

    run: Trial
    job: Job
    facts: dict[str, Any]

    @property
    def done(self) -> bool:
        """Whether it came to its end."""
        return (self.job.folder / "run.json").exists() and run_folder.finished(self.job.folder, self.facts["steps"])


def planned(study: Study, out: Path, extra: Iterable[str] = ()) -> list[PlannedRun]:
    """All runs of the study, checked before any of them starts: names, fields, and whatever is in their folders."""
    for entry in study.entries:
        try:
            recipe(entry.algo)
        except UnknownName as error:
            raise UnknownName(f"the study {study.name} cannot be started here: {error}") from None
    layouts: dict[str, Layout] = {}
    for env in study.envs:
        made = make(env, **_arguments(study, env))
        layouts[env] = Spaces.of(made).layout
        made.close()
    plans = [_plan(study, run, layouts[run.env], out, tuple(extra)) for run in study.runs]
    for plan in plans:
        check_same(plan)
    return plans


def _plan(study: Study, run: Trial, layout: Layout, out: Path, extra: tuple[str, ...]) -> PlannedRun:
    settings = [*study.settings, *run.entry.settings]
    algo = algorithm_for(run.entry.algo, layout)
    chosen = recipe_for(algo, run.env, layout, settings)
    facts = {
        "algo": algo,
        "env": run.env,
        "seed": run.seed,
        "steps": study.steps,
        "eval_every": study.eval_every,
        "eval_episodes": study.eval_episodes,
        "n_envs": 1,
        "env_args": _arguments(study, run.env),
        "recipe": run_folder.as_json(chosen),
    }
    numbers = ("steps", "seed", "eval_every", "eval_episodes")
    words = [word for name in numbers for word in (f"--{name.replace('_', '-')}", str(facts[name]))]
    folder = out / run.place
    words += ["--env-args", *study.env_args] if study.env_args else []
    words = ["train", run.env, "--algo", algo, "--run", str(folder), "--threads", "1", *words, *extra]
    log = out / "logs" / ("-".join(run.place.parts) + ".txt")
    return PlannedRun(run, Job(folder, (*words, *(["--set", *settings] if settings else [])), log), facts)


def _arguments(study: Study, env: str) -> dict[str, Any]:
    """What an environment of the study is made with."""
    return with_sticky(env, None, parse_env_args(study.env_args))


def check_same(plan: PlannedRun) -> None:
    """Raises if the folder holds a run that is not this one, or one that cannot be gone on with."""
    folder = plan.job.folder
    if not (folder / "run.json").exists():
        return
    there = {"env_args": {}} | run_folder.describe(folder)  # runs of old have none
    there["recipe"] = run_folder.recipe_fields(there)  # nor fields that are newer than they are
    differences = [f"{name} is {short(old)} there and {short(new)} here" for name, old, new in _differences(there, plan.facts)]
    if differences:
        raise RunFolderError(f"{folder} holds another run: {'; '.join(differences)}. Choose another --out, or remove it")
    if not plan.done:
        run_folder.check_resumable(folder, there, other_versions=False)


def _differences(there: dict[str, Any], here: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Names with both values; fields of recipes one by one."""
    found = []
    for name, new in here.items():
        old = there.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            found += _differences(old, {**dict.fromkeys(old), **new})
        elif old != new:
            found.append((name, old, new))
    return found


def write_study(study: Study, plans: list[PlannedRun], out: Path, asked: Keep | None = None) -> Keep:
    """Writes study.json. Recipes, environments and seeds that an earlier start in this folder had stay in it.

    What is kept of finished runs is what was asked for, now or at an earlier start.
    """
    before = _read(out)
    keep = asked or next((one for one in Keep if one.name.lower() == before.get("keep")), Keep.MODELS)
    recipes: dict[str, Any] = before.get("recipes", {})
    for plan in plans:
        recipes.setdefault(plan.run.entry.label, {})[plan.run.env] = plan.facts["recipe"]
    algos = {entry.label: {"algo": entry.algo, "settings": list(entry.settings)} for entry in study.entries}
    content = {
        "format": FORMAT,
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
    for name in ("name", "steps", "eval_every", "eval_episodes", "settings", "env_args"):
        if before and before.get(name, []) != content[name]:
            told = f"{name} is {short(before.get(name, []))} there and {short(content[name])} here"
            raise RunFolderError(f"{out} holds another study: {told}. Choose another --out, or remove it")
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / "study.json", content)
    except OSError as error:
        raise RunFolderError(f"cannot write to {out}: {error.strerror or error}") from None
    return keep


def _read(out: Path) -> dict[str, Any]:
    """The study.json that is there, or nothing."""
    file = out / "study.json"
    if not file.exists():
        return {}
    try:
        content = read_json(file)
        kinds = {"name": str, "algos": dict, "envs": list, "seeds": list, "steps": int, "settings": list, "recipes": dict}
        kinds |= {"eval_every": int, "eval_episodes": int}
        if content.get("format") != FORMAT or not all(isinstance(content.get(name), kind) for name, kind in kinds.items()):
            raise ModelFileError("")
        if not all(isinstance(value, dict) for value in content["recipes"].values()):
            raise ModelFileError("")
    except GemrlError:
        raise RunFolderError(f"{file} is damaged: it does not describe a study; remove it, runs beside it are kept") from None
    return content


def tidy(folder: Path, keep: Keep) -> None:
    """Removes from a finished run what is not to be kept. It may be killed at any moment and be called again."""
    if keep is Keep.RESULTS:
        run_folder.seal_results(folder)
        for name in ("model.safetensors", "model.json", "learning_curve.png"):
            (folder / name).unlink(missing_ok=True)
    if keep is not Keep.ALL:
        shutil.rmtree(checkpoints.place(folder), ignore_errors=True)
