"""`gemrl tune`: searches for good hyperparameters, or continues a search that was interrupted."""

from __future__ import annotations

import argparse
import secrets
from pathlib import Path
from typing import Any

from gemrl.algorithms.registry import recipe
from gemrl.algorithms.search_spaces import default_space
from gemrl.cli.arguments import add_env_args, add_settings, count, path, whole
from gemrl.cli.executor_options import add_executor_options, add_run_options, executor_of, run_arguments
from gemrl.cli.printing import show
from gemrl.cli.study_table import Running, StudyDisplay
from gemrl.cli.text import echo
from gemrl.cli.tune_tables import best_table, family_tables, space_table
from gemrl.core.exceptions import BadValue, RunFolderError
from gemrl.core.exit_codes import DONE, FAILED, INTERRUPTED
from gemrl.core.links import refuse_links_between
from gemrl.core.locking import exclusive
from gemrl.core.processes import Interrupts, end_now
from gemrl.core.text import counted, score_text
from gemrl.envs.arguments import wrap_argument
from gemrl.experiments.description import default_evaluations, env_folder
from gemrl.experiments.executors.base import Executor
from gemrl.experiments.studies.estimates import Estimate, RunProgress, duration_text, makespan
from gemrl.experiments.studies.folder import PlannedRun, changed_values
from gemrl.experiments.studies.runner import State, TrackedRun
from gemrl.experiments.studies.study import Study
from gemrl.experiments.tuning.files import ranked, read_description, write_description
from gemrl.experiments.tuning.runner import SearchRunner
from gemrl.experiments.tuning.search import PRUNERS, SAMPLERS, Search
from gemrl.experiments.tuning.space_file import read_space
from gemrl.experiments.tuning.store import TrialStore, default_url, shown_url
from gemrl.experiments.versions import versions


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command to its parser."""
    parser.description = (
        "Search for good hyperparameters with Optuna. It can be stopped at any time; the same command continues it. "
        "The score of a trial is the mean of its last three evaluations, averaged over its seeds."
    )
    parser.epilog = "Then train with the best settings: gemrl train ENV --from-tune DIR. See also docs/tuning.md."
    parser.add_argument("env", metavar="ENV", nargs="?", help="environment id, as in `gemrl train`")
    add_env_args(parser)
    parser.add_argument(
        "--algo", metavar="NAME", help="algorithm, see `gemrl algos` (default: gem, in the variant that fits ENV)"
    )
    parser.add_argument("--trials", type=count, default=50, metavar="N", help="number of trials in total (default: 50)")
    parser.add_argument("--steps", type=count, default=50_000, metavar="N", help="steps of each run (default: 50,000)")
    parser.add_argument("--seeds", type=count, default=1, metavar="K", help="runs per trial, each with its own seed (default: 1)")
    parser.add_argument(
        "--seed", type=whole, default=0, metavar="S", help="first seed of each trial, and seed of the sampler (default: 0)"
    )
    add_settings(parser, "fix hyperparameters, which are then not searched")
    parser.add_argument("--space", type=path, metavar="FILE", help="TOML file with a search space of your own")
    parser.add_argument("--spaces", action="store_true", help="only print the search spaces; with --algo, the one of NAME")
    parser.add_argument("--sampler", choices=SAMPLERS, default="tpe", help="how settings are chosen (default: tpe)")
    parser.add_argument("--pruner", choices=PRUNERS, default="median", help="how poor trials are ended early (default: median)")
    parser.add_argument("--eval-every", type=count, metavar="N", help="steps between evaluations (default: a tenth of --steps)")
    parser.add_argument("--eval-episodes", type=count, metavar="K", help="episodes per evaluation (default: 10; Atari: 5)")
    add_executor_options(parser)
    add_run_options(parser)
    parser.add_argument("--out", type=path, metavar="DIR", help="folder of the search (default: tunes/<algo>/<env>)")
    parser.add_argument(
        "--storage", metavar="URL", help="database to share a search between machines (default: the file tune.db in DIR)"
    )
    parser.add_argument("--study-name", metavar="NAME", help="name of the search in the storage (default: <algo> on <env>)")
    parser.add_argument("--dry-run", action="store_true", help="only print what would be searched and how long it may take")
    parser.set_defaults(command=tune)


def tune(options: argparse.Namespace) -> int:
    """Runs a search; returns the exit code."""
    if options.spaces:
        return _print_spaces(options.algo)
    if options.env is None:
        raise BadValue("ENV is missing: name the environment to search on, or use --spaces; see `gemrl tune --help`")
    if ":" not in options.env:  # else the module of the environment may register the algorithm
        recipe(options.algo or "gem")
    search = Search.of(_base(options), options.sampler, options.pruner, options.space and read_space(options.space))
    out = options.out or Path("tunes", search.algo, env_folder(search.facts()))
    out = out.absolute() if options.executor == "ray" else out
    if out.exists() and not out.is_dir():
        raise RunFolderError(f"{out} is a file; a search needs a folder")
    executor = executor_of(options)
    try:
        _print_plan(search, options.trials, executor.at_once, out)
        if options.dry_run:
            show(space_table("", search.space))
            return DONE
        with exclusive(out):
            return _run(search, out, executor, options)
    finally:
        executor.close()


def _base(options: argparse.Namespace) -> Study:
    """What every trial has in common, as a study of one recipe on one environment."""
    return Study(
        name="search",
        title="search",
        algos=(options.algo or "gem",),
        envs=(options.env,),
        seeds=tuple(range(options.seed, options.seed + options.seeds)),
        steps=options.steps,
        settings=tuple(options.settings),
        eval_every=options.eval_every or max(1, options.steps // 10),
        eval_episodes=options.eval_episodes or default_evaluations(options.env)[1],
        env_args=(*options.env_args, *wrap_argument(options.wrap)),
    )


def _print_spaces(algo: str | None) -> int:
    """Prints the search space of an algorithm, or those of all families."""
    if algo is None:
        show(*family_tables())
        echo("A recipe is searched without the fields that it does not have or that define it; --algo NAME prints what is left")
    else:
        show(space_table(algo, default_space(recipe(algo))))
    return DONE


def _print_plan(search: Search, trials: int, workers: int, out: Path) -> None:
    """Prints what is searched, and an estimate of the time."""
    base = search.base
    echo(f"{search.algo} on {search.env}: {counted(trials, 'trial')} of {counted(base.steps, 'step')}, in {out}")
    seeds = f", {len(base.seeds)} seeds each" if len(base.seeds) > 1 else ""
    pruner = "" if search.pruner == "none" else f", {search.pruner} pruner"
    echo(f"searched{seeds} ({search.sampler}{pruner}): {', '.join(search.space)}")
    plan = search.plans(0, {}, Path(out, "estimate"))[0]
    seconds = makespan([Estimate([]).left(plan, RunProgress())] * (trials * len(base.seeds)), workers)
    echo(f"at most about {duration_text(seconds)} with {workers} at a time, estimated from speeds on another machine")


def _run(search: Search, out: Path, executor: Executor, options: argparse.Namespace) -> int:
    """Runs the search with a live display; returns the exit code."""
    url = options.storage or default_url(out)
    name = options.study_name or f"{search.algo} on {search.env}"
    refuse_links_between(out, out / "tune.db")
    description = _description(search, out, shown_url(url) if options.storage else "tune.db", name)
    store = TrialStore(search, url, name, description["owner"])
    write_description(out, description | {"trials": options.trials, "versions": versions()})
    display = StudyDisplay(executor.at_once, lambda running: _summary(runner, running, options.trials, executor.at_once))

    def notify(tracked: TrackedRun, message: str) -> None:
        if tracked.state is not State.DONE:  # the line of its trial says so
            display.notify(tracked, message)

    def on_second() -> None:
        runner.runs.kill()
        end_now(f"stopped immediately; the last checkpoints of the trials in {out} are kept", INTERRUPTED)

    with store.errors():
        runner = SearchRunner(search, out, store, executor, options.trials, notify, display.say, run_arguments(options))
        display.runner = runner.runs
        try:
            with Interrupts(on_second, "stopping; each run writes a checkpoint first") as interrupts, display:
                runner.run(interrupts, display.refresh)
        finally:
            runner.runs.kill()
    return _print_result(runner, search, out, options.trials)


def _description(search: Search, out: Path, storage: str, name: str) -> dict[str, Any]:
    """What tune.json says of a search. Raises RunFolderError if the folder contains a different one."""
    content = {"study_name": name, "storage": storage, **search.facts()}
    before = read_description(out)
    if before and (changes := changed_values({key: before[key] for key in content}, content)):
        raise RunFolderError(f"{out} contains a different search: {changes[0]}. Choose another --out, or remove it")
    return content | {"owner": before["owner"] if before else secrets.token_hex(8)}


def _summary(runner: SearchRunner, running: Running, trials: int, workers: int) -> str:
    """How many trials have ended, the best score, and an estimate of the time left."""
    ended = [row for row in runner.rows if row.state != "running"]
    pruned = sum(row.state == "pruned" for row in ended)
    summary = f"{len(ended)} of {counted(trials, 'trial')} done" + (f" ({pruned} pruned)" if pruned else "")
    if best := ranked(runner.rows):
        summary += f", best {score_text(best[0].score or 0.0)} in trial {best[0].number}"
    plans: list[PlannedRun] = [tracked.plan for tracked in runner.runs.all]
    if not plans:
        return summary
    estimate = Estimate(tracked.plan for tracked in runner.runs.in_state(State.DONE))
    left = [estimate.left(tracked.plan, progress) for tracked, progress in running]
    seeds = len(runner.live[0].runs) if runner.live else 1
    left += [estimate.left(plans[-1], RunProgress())] * (max(0, trials - len(runner.rows)) * seeds)
    return f"{summary}, at most about {duration_text(makespan(left, workers))} left" if left else summary


def _print_result(runner: SearchRunner, search: Search, out: Path, trials: int) -> int:
    """Prints how the search ended, the best trials and what to do next; returns the exit code."""
    states = [row.state for row in runner.rows]
    counts = ", ".join(f"{number} {state}" for state in ("complete", "pruned", "failed") if (number := states.count(state)))
    best = ranked(runner.rows)
    if best:
        show(best_table(best, list(search.space)))
    echo(f"{counted(len(states), 'trial')}: {counts or 'none has ended'}; in {out}")
    if runner.broken:
        echo(f"stopped, because {counted(runner.failed, 'trial')} failed and none ended well: {runner.broken}")
        return FAILED
    if runner.live:
        echo(
            f"interrupted: {len(states) - states.count('running')} of {counted(trials, 'trial')} done; the same command continues"
        )
        return INTERRUPTED
    if not best:
        echo("no trial is complete; raise --trials to go on")
        return FAILED
    echo(f"next: gemrl train {search.env} --from-tune {out}")
    echo(f"      gemrl report {out}")
    return DONE
