"""`gemrl study`: run what is not done yet of a study, and continue what was interrupted."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gemrl.cli.arguments import Subcommands, count
from gemrl.core.exceptions import BadValue, RunFolderError
from gemrl.core.exit_codes import DONE, FAILED, INTERRUPTED
from gemrl.core.processes import ENV_TIMEOUT
from gemrl.experiments.executors.base import Executor, ExecutorOptions
from gemrl.experiments.executors.registry import EXECUTORS
from gemrl.experiments.studies.study import STUDIES, Study, TheoryStudy, study

if TYPE_CHECKING:
    from gemrl.experiments.studies.folder import Keep, PlannedRun
    from gemrl.experiments.studies.runner import StudyRunner


def add(commands: Subcommands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "study",
        help="run a study of the paper, or your own: recipes x environments x seeds",
        description="Run what is left of a study. It can be stopped at any time: the same command continues it.",
        epilog="Without a name, all studies are listed. docs/studies.md has more.",
        allow_abbrev=False,
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help=f"{', '.join(STUDIES)}, or a TOML file with a study of your own")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the study's folder (default: studies/<name>)")
    parser.add_argument(
        "--workers", type=count, metavar="N", help="runs at a time, one thread each (default: one per core; with Ray: all)"
    )
    parser.add_argument("--executor", choices=tuple(EXECUTORS), default="local", help="where runs execute (default: local)")
    parser.add_argument("--address", metavar="HOST:PORT", help="of the Ray cluster (default: the one this machine is part of)")
    parser.add_argument("--gpus-per-run", type=_gpus, default=0.0, metavar="F", help="with Ray: GPUs of a run, such as 0.25")
    parser.add_argument("--steps", type=count, metavar="N", help="steps of every run")
    parser.add_argument("--seeds", type=count, metavar="N", help="how many seeds: 0 to N-1")
    parser.add_argument("--env", nargs="+", metavar="ENV", help="only these environments, or others")
    parser.add_argument("--algo", nargs="+", metavar="NAME", help="only these recipes, or others; 'gem depth=20' changes a field")
    parser.add_argument(
        "--set", nargs="+", action="extend", metavar="FIELD=VALUE", dest="settings", help="fields to change in every recipe"
    )
    parser.add_argument("--eval-every", type=count, metavar="N", help="steps between evaluations")
    parser.add_argument("--eval-episodes", type=count, metavar="K", help="episodes of an evaluation")
    parser.add_argument(
        "--checkpoint-every",
        type=count,
        metavar="N",
        help="steps between checkpoints of runs that are not begun yet (default: one a minute)",
    )
    parser.add_argument(
        "--env-timeout",
        type=count,
        metavar="S",
        help=f"seconds an environment may take to answer (default: {ENV_TIMEOUT})",
    )
    kept = parser.add_mutually_exclusive_group()
    kept.add_argument("--keep-checkpoints", action="store_true", help="keep checkpoints of finished runs; gigabytes, maybe")
    kept.add_argument("--results-only", action="store_true", help="keep only CSV and JSON of finished runs, no models")
    parser.add_argument("--dry-run", action="store_true", help="only say what is to be done and how long it may take")
    parser.set_defaults(command=run_study)


def _gpus(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 64:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of GPUs")
    return number


def run_study(options: argparse.Namespace) -> int:
    """Runs a study; the exit code."""
    if options.name is None:
        return _list_studies()
    chosen = study(options.name)
    out = options.out or Path("studies", chosen.name)
    if isinstance(chosen, TheoryStudy):
        return _check(options, out)
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
    from rich import box
    from rich.table import Table

    from gemrl.cli.console import show

    table = Table("study", "what it is", "recipes", "environments", "seeds", "steps", box=box.SIMPLE_HEAD)
    for name, one in STUDIES.items():
        sizes = (len(one.algos), len(one.envs), len(one.seeds), one.steps) if isinstance(one, Study) else ()
        table.add_row(name, one.title, *(f"{size:,}" for size in sizes))
    show(table)
    return DONE


NOT_OF_TRAINING = ("name", "out", "dry_run", "executor", "command")


def _check(options: argparse.Namespace, out: Path) -> int:
    """The theorems, as `gemrl theory` checks them."""
    if options.executor != "local":
        raise BadValue(f"the study {options.name} trains nothing, so it needs no --executor; see `gemrl theory`")
    for name, value in vars(options).items():
        if name not in NOT_OF_TRAINING and value not in (None, False, 0.0):
            option = {"settings": "set"}.get(name, name.replace("_", "-"))
            raise BadValue(f"the study {options.name} trains nothing, so it has no --{option}; see `gemrl theory`")
    from gemrl.cli.theory import show_theory

    if options.dry_run:
        print(f"the experiments of `gemrl theory`, into {out}: a minute or two")
        return DONE
    return show_theory(out)


def _train_all(chosen: Study, out: Path, options: argparse.Namespace) -> int:
    from gemrl.core.locking import exclusive
    from gemrl.experiments.studies.folder import Keep, planned, write_study

    given = {"--checkpoint-every": options.checkpoint_every, "--env-timeout": options.env_timeout}
    extra = [word for name, value in given.items() if value is not None for word in (name, str(value))]
    out = out.absolute() if options.executor == "ray" else out
    if out.exists() and not out.is_dir():
        raise RunFolderError(f"{out} is a file; a study needs a folder")
    plans = planned(chosen, out, extra)
    executor = EXECUTORS[options.executor](ExecutorOptions(options.workers, options.address, options.gpus_per_run))
    try:
        _say_what_is_to_do(chosen, plans, executor.at_once, out)
        if options.dry_run:
            return DONE
        with exclusive(out):
            asked = Keep.RESULTS if options.results_only else Keep.ALL if options.keep_checkpoints else None
            keep = write_study(chosen, plans, out, asked)
            return _conduct(chosen.name, plans, executor, out, keep)
    finally:
        executor.close()


def _say_what_is_to_do(chosen: Study, plans: list[PlannedRun], workers: int, out: Path) -> None:
    from gemrl.experiments.run_folder import describe
    from gemrl.experiments.studies.estimates import Estimate, duration_text, makespan, run_progress
    from gemrl.experiments.versions import other_source

    done = [plan for plan in plans if plan.done]
    rest = [plan for plan in plans if plan not in done]
    begun = sum((plan.job.folder / "run.json").exists() for plan in rest)
    print(f"{chosen.name}: {chosen.title}")
    sizes = f"{len(chosen.algos)} recipes x {len(chosen.envs)} environments x {len(chosen.seeds)} seeds, {chosen.steps:,} steps"
    print(f"{sizes}; in {out}: {len(done)} done, {begun} begun, {len(rest) - begun} to start")
    idle = sorted({plan.run.entry.label for plan in rest if chosen.steps <= plan.facts["recipe"]["learning_starts"]})
    if idle:
        print(f"warning: nothing is learnt in {chosen.steps:,} steps by {', '.join(idle)}: set a smaller learning_starts")
    others = sum(bool(other_source(describe(plan.job.folder))) for plan in plans if (plan.job.folder / "run.json").exists())
    if others:
        print(f"note: gemrl's code has changed since {others} of these runs began (`source` in their run.json)")
    if rest:
        estimate = Estimate(plans)
        seconds = makespan([estimate.left(plan, run_progress(plan.job.folder)) for plan in rest], workers)
        print(f"about {duration_text(seconds)} with {workers} at a time, {estimate.source}", flush=True)


def _conduct(name: str, plans: list[PlannedRun], executor: Executor, out: Path, keep: Keep) -> int:
    from gemrl.cli.study_table import Show
    from gemrl.core.processes import Interrupts, end_now
    from gemrl.experiments.studies.runner import StudyRunner

    def on_second() -> None:
        conductor.kill()
        end_now(f"stopped at once; runs in {out} keep their last checkpoints", INTERRUPTED)

    show = Show(executor.at_once)
    conductor = show.conductor = StudyRunner(plans, executor, keep, show.tell)
    try:
        with Interrupts(on_second) as interrupts, show:
            conductor.go(interrupts, show)
    finally:
        conductor.kill()
    return _closing_words(conductor, name, out, partial(show.console.print, highlight=False, markup=False, soft_wrap=True))


def _closing_words(conductor: StudyRunner, name: str, out: Path, say: Callable[[str], None]) -> int:
    from gemrl.experiments.studies.runner import State

    done, failed, stopped = (len(conductor.in_state(state)) for state in (State.DONE, State.FAILED, State.STOPPED))
    if stopped:
        rest = "the others keep their checkpoints; the same command continues"
        say(f"interrupted: {done} of {len(conductor.all)} runs are done, {rest}")
        return INTERRUPTED
    for tracked in conductor.in_state(State.FAILED):
        say(f"failed: {tracked.plan.run}: {tracked.reason} ({tracked.plan.job.log})")
    if failed:
        say(f"{done} of {len(conductor.all)} runs are done, {failed} failed; the same command tries these again")
        return FAILED
    say(f"all {done} runs are done: {out}")
    say(f"next: gemrl report {out}")
    say(f"      gemrl figure {name} --runs {out}")
    return DONE
