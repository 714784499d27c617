"""`gemrl train`: trains an agent in a new run folder."""

from __future__ import annotations

import argparse
from contextlib import nullcontext

from gemrl.algorithms.registry import algo_names, recipe
from gemrl.analysis.figures.learning_curve import learning_curve
from gemrl.cli.arguments import add_device, add_env_args, add_env_timeout, add_settings, count, fraction, path, whole
from gemrl.cli.console import Terminal
from gemrl.core.exit_codes import DONE, INTERRUPTED
from gemrl.core.processes import ENV_TIMEOUT
from gemrl.core.validation import MAX_THREADS, check_number
from gemrl.envs.arguments import parse_env_args, with_sticky, with_wrappers
from gemrl.experiments.best_model import BEST
from gemrl.experiments.new_run import new_run
from gemrl.experiments.run_folder import describe
from gemrl.experiments.run_interface import Outcome, TrainOptions, run_info
from gemrl.experiments.run_logs import read_evaluations
from gemrl.experiments.tuning.files import tuned
from gemrl.training.trackers import TRACKERS, tracker_named


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command to its parser."""
    parser.description = (
        "Train an agent on a Gymnasium environment. Vectors, and Dict and Tuple observations, work with continuous and discrete "
        "actions; images and numbered states with discrete actions."
    )
    parser.epilog = "To list all fields for --set: gemrl algos --fields"
    parser.add_argument("env", metavar="ENV", help="environment id such as HalfCheetah-v5, or package.module:Env-v0")
    add_env_args(parser)
    parser.add_argument(
        "--algo", metavar="NAME", help="algorithm, see `gemrl algos` (default: gem, in the variant that fits ENV)"
    )
    parser.add_argument(
        "--from-tune",
        type=path,
        metavar="DIR",
        help="use algorithm and settings of the best trial of `gemrl tune`; --set is added",
    )
    steps = "number of environment steps; with --offline, of gradient steps (default: 1,000,000)"
    parser.add_argument("--steps", type=count, default=1_000_000, metavar="N", help=steps)
    parser.add_argument("--seed", type=whole, default=0, metavar="S", help="random seed (default: 0)")
    parser.add_argument("--run", type=path, metavar="DIR", help="run folder (default: runs/<algo>/<env>/<seed>)")
    add_settings(parser, "change hyperparameters, such as depth=20 learning_starts=1000")
    _add_data(parser)
    _add_evaluations(parser)
    _add_resources(parser)
    parser.set_defaults(command=train)


def _add_data(parser: argparse.ArgumentParser) -> None:
    """Adds the options for recorded trajectories."""
    parser.add_argument(
        "--data",
        type=path,
        action="extend",
        nargs="+",
        default=[],
        metavar="PATH",
        help="start with recorded trajectories in the memory: .npz files, Minari datasets, runs (see docs/data.md)",
    )
    parser.add_argument(
        "--offline", action="store_true", help="train on --data alone: --steps counts gradient steps (see docs/offline.md)"
    )
    parser.add_argument("--keep-data", action="store_true", help="never overwrite the rows of --data")


def _add_evaluations(parser: argparse.ArgumentParser) -> None:
    """Adds the options of evaluations, and of the models that are kept."""
    parser.add_argument(
        "--eval-every", type=count, metavar="N", help="steps between evaluations (default: 10,000; Atari: 50,000)"
    )
    parser.add_argument("--eval-episodes", type=count, metavar="K", help="episodes per evaluation (default: 10; Atari: 5)")
    parser.add_argument(
        "--checkpoint-every", type=count, metavar="N", help="steps between checkpoints (default: about one per minute)"
    )
    parser.add_argument(
        "--no-keep-best",
        action="store_false",
        dest="keep_best",
        help="do not keep the model of the best evaluation (best.safetensors and best.json in the run folder)",
    )


def _add_resources(parser: argparse.ArgumentParser) -> None:
    """Adds the options of environments, threads, logs and devices."""
    parser.add_argument(
        "--sticky", type=fraction, metavar="P", help="Atari: probability of repeating the last action (default: 0)"
    )
    parser.add_argument(
        "--n-envs", type=count, default=1, metavar="N", help="number of environments, stepped in turn (default: 1)"
    )
    parser.add_argument("--threads", type=count, metavar="N", help="number of CPU threads (default: one per core)")
    add_env_timeout(parser, ENV_TIMEOUT)
    parser.add_argument("--tensorboard", action="store_true", help="also write TensorBoard logs to the run folder")
    first = next(iter(TRACKERS))
    parser.add_argument(
        "--track", nargs="?", const=first, choices=tuple(TRACKERS), help=f"also log to an experiment tracker (default: {first})"
    )
    add_device(parser)


def train(options: argparse.Namespace) -> int:
    """Trains an agent; returns the exit code."""
    if ":" not in options.env:  # else the module of the environment may register the algorithm
        recipe(options.algo or "gem")  # reports a wrong name before anything slow is imported
    if options.threads:
        check_number("threads", options.threads, 1, MAX_THREADS, whole=True)
    env_args = with_sticky(options.env, options.sticky, with_wrappers(parse_env_args(options.env_args), options.wrap))
    algo, settings = options.algo or "gem", tuple(options.settings)
    if options.from_tune:
        given = env_args if options.env_args or options.wrap or options.sticky is not None else {}
        best = tuned(options.from_tune, options.env, given, algo_names(options.algo) if options.algo else ())
        algo, settings, env_args = best.algo, (*best.settings, *settings), best.env_args
    chosen = TrainOptions(
        env=options.env,
        env_args=env_args,
        algo=algo,
        steps=options.steps,
        seed=options.seed,
        settings=settings,
        eval_every=options.eval_every,
        eval_episodes=options.eval_episodes,
        n_envs=options.n_envs,
        checkpoint_every=options.checkpoint_every,
        env_timeout=options.env_timeout,
        tensorboard=options.tensorboard,
        track=options.track,
        device=options.device,
        data=tuple(map(str, options.data)),
        keep_data=options.keep_data,
        offline=options.offline,
        keep_best=options.keep_best,
    )
    terminal = Terminal()
    with terminal.working("reading the data") if options.data else nullcontext():
        new = new_run(chosen, terminal.say)
    from gemrl.experiments.run import train_run  # JAX loads slowly, so errors of the environment are reported first

    if options.from_tune:
        terminal.say(f"trial {best.trial.number} of {options.from_tune}: {' '.join(settings)}")
    return summarize(train_run(new.description, options.run, terminal, new.data), terminal)


def summarize(outcome: Outcome, terminal: Terminal) -> int:
    """Draws the learning curve, prints the result of a run and the next command; returns the exit code."""
    folder, say = outcome.folder, terminal.say
    figure = learning_curve(folder)
    evaluations = read_evaluations(folder)
    say(f"run folder        {folder}")
    if evaluations["step"].size:
        mean, std = evaluations["return_mean"][-1], evaluations["return_std"][-1]
        which = "final evaluation" if outcome.finished else "last evaluation"
        say(f"{which:16}  return {mean:,.1f} ± {std:,.1f} at step {int(evaluations['step'][-1]):,}")
    description = describe(folder)
    if description.get("keep_best") and evaluations["step"].size:
        best = int(evaluations["return_mean"].argmax())
        score, step = evaluations["return_mean"][best], int(evaluations["step"][best])
        say(f"best evaluation   return {score:,.1f} at step {step:,} (its model: {folder / BEST})")
    if figure:
        say(f"learning curve    {figure}")
    if track := description.get("track"):
        say(f"tracked           {tracker_named(track['to']).location(run_info(folder, description))}")
    option = "--video video.mp4" if outcome.can_render else "--episodes 100"
    say(f"next              gemrl {f'evaluate {folder} {option}' if outcome.finished else f'resume {folder}'}")
    return DONE if outcome.finished else INTERRUPTED
