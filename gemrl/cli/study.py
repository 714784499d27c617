"""`gemrl study`: runs a study, or continues one that was interrupted."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from rich import box
from rich.table import Table

from gemrl.cli.arguments import count, path
from gemrl.cli.executor_options import add_executor_options, add_run_options, executor_of, run_arguments
from gemrl.cli.printing import show
from gemrl.cli.study_table import StudyDisplay
from gemrl.cli.text import echo
from gemrl.cli.theory import show_theory
from gemrl.core.exceptions import BadValue, RunFolderError
from gemrl.core.exit_codes import DONE, FAILED, INTERRUPTED
from gemrl.core.locking import exclusive
from gemrl.core.processes import Interrupts, end_now
from gemrl.core.text import counted
from gemrl.experiments.executors.base import Executor
from gemrl.experiments.run_folder import describe, holds_run
from gemrl.experiments.studies.catalog import STUDIES, study
from gemrl.experiments.studies.estimates import Estimate, duration_text, makespan, run_progress
from gemrl.experiments.studies.folder import Keep, PlannedRun, planned, write_study
from gemrl.experiments.studies.runner import State, StudyRunner
from gemrl.experiments.studies.study import Study, TheoryStudy
from gemrl.experiments.versions import other_source


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command to its parser."""
    parser.description = "Run a study. It can be stopped at any time; the same command continues it."
    parser.epilog = "Without NAME, all studies are listed. See also docs/studies.md."
    parser.add_argument("name", metavar="NAME", nargs="?", help=f"{', '.join(STUDIES)}, or a TOML file with your own study")
    parser.add_argument("--out", type=path, metavar="DIR", help="folder of the study (default: studies/<name>)")
    add_executor_options(parser)
    parser.add_argument("--steps", type=count, metavar="N", help="steps per run")
    parser.add_argument("--seeds", type=count, metavar="N", help="number of seeds: 0 to N-1")
    parser.add_argument("--env", nargs="+", metavar="ENV", help="use these environments instead")
    parser.add_argument(
        "--algo", nargs="+", metavar="NAME", help="use these recipes instead; 'gem depth=20' also changes a field"
    )
    parser.add_argument(
        "--set", nargs="+", action="extend", metavar="FIELD=VALUE", dest="settings", help="change fields of every recipe"
    )
    parser.add_argument("--eval-every", type=count, metavar="N", help="steps between evaluations")
    parser.add_argument("--eval-episodes", type=count, metavar="K", help="episodes per evaluation")
    add_run_options(parser)
    kept = parser.add_mutually_exclusive_group()
    kept.add_argument(
        "--keep-checkpoints", action="store_true", help="keep the checkpoints of finished runs (may take gigabytes)"
    )
    kept.add_argument(
        "--results-only", action="store_true", help="keep only the CSV and JSON files of finished runs, not the models"
    )
    parser.add_argument("--dry-run", action="store_true", help="only print what would be run and how long it may take")
    parser.set_defaults(command=run_study)


def run_study(options: argparse.Namespace) -> int:
    """Runs a study; returns the exit code."""
    if options.name is None:
        return _list_studies()
    chosen = study(options.name)
    out = options.out or Path("studies", chosen.name)
    if isinstance(chosen, TheoryStudy):
        return _run_theory(options, out)
    settings = None if options.settings is None else (*chosen.settings, *options.settings)
    scaled = chosen.scaled(
        steps=options.steps,
        seeds=options.seeds,
        envs=options.env and tuple(options.env),
        algos=options.algo and tuple(options.algo),
        settings=settings,
        eval_every=options.eval_every,
        eval_episodes=options.eval_episodes,
    )
    return _train_all(scaled, out, options)


def _list_studies() -> int:
    """Prints a table of all named studies."""

    table = Table("study", "description", "recipes", "environments", "seeds", "steps", box=box.SIMPLE_HEAD)
    for name, known in STUDIES.items():
        sizes = (len(known.algos), len(known.envs), len(known.seeds), known.steps) if isinstance(known, Study) else ()
        table.add_row(name, known.title, *(f"{size:,}" for size in sizes))
    show(table)
    return DONE


ALLOWED_FOR_THEORY = ("name", "out", "dry_run", "executor", "command")
"""Options that make sense without training."""


def _run_theory(options: argparse.Namespace, out: Path) -> int:
    """Checks the theorems, as `gemrl theory` does."""
    if options.executor != "local":
        raise BadValue(f"the study {options.name} does not train, so --executor does not apply; see `gemrl theory`")
    for name, value in vars(options).items():
        if name not in ALLOWED_FOR_THEORY and value not in (None, False, 0.0):
            option = {"settings": "set"}.get(name, name.replace("_", "-"))
            raise BadValue(f"the study {options.name} does not train, so --{option} does not apply; see `gemrl theory`")

    if options.dry_run:
        echo(f"would run the experiments of `gemrl theory` in {out}; takes a minute or two")
        return DONE
    return show_theory(out)


def _train_all(chosen: Study, out: Path, options: argparse.Namespace) -> int:
    """Trains all runs of a study; returns the exit code."""

    out = out.absolute() if options.executor == "ray" else out
    if out.exists() and not out.is_dir():
        raise RunFolderError(f"{out} is a file; a study needs a folder")
    plans = planned(chosen, out, run_arguments(options))
    executor = executor_of(options)
    try:
        _print_plan(chosen, plans, executor.at_once, out)
        if options.dry_run:
            return DONE
        with exclusive(out):
            requested = Keep.RESULTS if options.results_only else Keep.ALL if options.keep_checkpoints else None
            keep = write_study(chosen, plans, out, requested)
            return _run_all(chosen.name, plans, executor, out, keep)
    finally:
        executor.close()


def _print_plan(chosen: Study, plans: list[PlannedRun], workers: int, out: Path) -> None:
    """Prints how many runs there are, warnings about them and an estimate of the time."""

    done = [plan for plan in plans if plan.done]
    rest = [plan for plan in plans if plan not in done]
    started = sum(holds_run(plan.job.folder) for plan in rest)
    echo(f"{chosen.name}: {chosen.title}")
    lists = {"recipe": chosen.algos, "environment": chosen.envs, "seed": chosen.seeds}
    sizes = " x ".join(counted(len(values), noun) for noun, values in lists.items()) + f", {counted(chosen.steps, 'step')}"
    echo(f"{sizes}; in {out}: {len(done)} done, {started} unfinished, {len(rest) - started} not started")
    idle = sorted({plan.trial.entry.label for plan in rest if chosen.steps <= plan.facts["recipe"]["learning_starts"]})
    if idle:
        echo(f"warning: nothing is learned in {counted(chosen.steps, 'step')} of {', '.join(idle)}; lower learning_starts")
    changed = sum(bool(other_source(describe(plan.job.folder))) for plan in plans if holds_run(plan.job.folder))
    if changed:
        echo(f"note: gemrl's code has changed since {changed} of these runs started (see `source` in their run.json)")
    if rest:
        estimate = Estimate(plans)
        seconds = makespan([estimate.left(plan, run_progress(plan.job.folder)) for plan in rest], workers)
        echo(f"about {duration_text(seconds)} with {workers} at a time, {estimate.source}")


def _run_all(name: str, plans: list[PlannedRun], executor: Executor, out: Path, keep: Keep) -> int:
    """Runs everything that is not done, with a live display; returns the exit code."""

    def on_second() -> None:
        runner.kill()
        end_now(f"stopped immediately; the last checkpoints of the runs in {out} are kept", INTERRUPTED)

    display = StudyDisplay(executor.at_once)
    runner = display.runner = StudyRunner(plans, executor, keep, display.notify)
    try:
        with Interrupts(on_second, "stopping; each run writes a checkpoint first") as interrupts, display:
            runner.run(interrupts, display.refresh)
    finally:
        runner.kill()
    return _print_result(runner, name, out, display.say)


def _print_result(runner: StudyRunner, name: str, out: Path, say: Callable[[str], None]) -> int:
    """Prints how the study ended and what to do next; returns the exit code."""

    done, failed, stopped = (len(runner.in_state(state)) for state in (State.DONE, State.FAILED, State.STOPPED))
    if stopped:
        say(f"interrupted: {done} of {counted(len(runner.all), 'run')} done; the same command continues the rest")
        return INTERRUPTED
    for tracked in runner.in_state(State.FAILED):
        say(f"failed: {tracked.plan.trial}: {tracked.reason} ({tracked.plan.job.log})")
    if failed:
        say(f"{done} of {counted(len(runner.all), 'run')} done, {failed} failed; the same command tries again")
        return FAILED
    say(f"{counted(done, 'run')} done: {out}")
    say(f"next: gemrl report {out}")
    say(f"      gemrl figure {name} --runs {out}")
    return DONE
