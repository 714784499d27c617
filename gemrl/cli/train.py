"""`gemrl train`: train an agent in a new run's folder."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from gemrl.algorithms.registry import recipe
from gemrl.cli.arguments import Subcommands, add_device, add_env_args, add_env_timeout, count, fraction, whole
from gemrl.core.exit_codes import DONE, INTERRUPTED
from gemrl.core.processes import ENV_TIMEOUT
from gemrl.envs.arguments import parse_env_args, with_sticky
from gemrl.training.trackers import TRACKERS

if TYPE_CHECKING:
    from gemrl.cli.console import Terminal
    from gemrl.experiments.run import Outcome


def add(commands: Subcommands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "train",
        help="train an agent on an environment",
        description="Train an agent on a gymnasium environment: vectors with continuous or discrete actions, images and discrete "
        "states with discrete actions.",
        epilog="All fields that --set reaches: gemrl algos --fields",
        allow_abbrev=False,
    )
    parser.add_argument("env", metavar="ENV", help="a gymnasium id such as HalfCheetah-v5, or package.module:Env-v0")
    add_env_args(parser)
    parser.add_argument(
        "--algo", default="gem", metavar="NAME", help="a recipe of `gemrl algos` (default: gem, of the kind that fits ENV)"
    )
    parser.add_argument("--steps", type=count, default=1_000_000, metavar="N", help="environment steps (default: 1,000,000)")
    parser.add_argument("--seed", type=whole, default=0, metavar="S", help="the seed of everything random (default: 0)")
    parser.add_argument("--run", type=Path, metavar="DIR", help="the run's folder (default: runs/<algo>/<env>/<seed>)")
    parser.add_argument(
        "--set",
        action="extend",
        nargs="+",
        default=[],
        metavar="FIELD=VALUE",
        dest="settings",
        help="change fields of the recipe, such as depth=20 learning_starts=1000",
    )
    parser.add_argument("--eval-every", type=count, metavar="N", help="steps between evaluations (default: 10,000, Atari 50,000)")
    parser.add_argument("--eval-episodes", type=count, metavar="K", help="episodes of an evaluation (default: 10; Atari: 5)")
    parser.add_argument(
        "--sticky", type=fraction, metavar="P", help="Atari: probability of repeating the last action (default: 0)"
    )
    parser.add_argument(
        "--n-envs", type=count, default=1, metavar="N", help="environments, stepped one after the other (default: 1)"
    )
    parser.add_argument(
        "--checkpoint-every", type=count, metavar="N", help="steps between checkpoints (default: about one a minute)"
    )
    parser.add_argument("--threads", type=count, metavar="N", help="threads to compute on (default: one per core)")
    add_env_timeout(parser, ENV_TIMEOUT)
    parser.add_argument("--tensorboard", action="store_true", help="also write TensorBoard logs into the run's folder")
    first = next(iter(TRACKERS))
    parser.add_argument(
        "--track", nargs="?", const=first, choices=tuple(TRACKERS), help=f"also log to a tracking service (default: {first})"
    )
    add_device(parser)
    parser.set_defaults(command=train)


def train(options: argparse.Namespace) -> int:
    """Trains; the exit code."""
    recipe(options.algo)  # a wrong name is reported before anything is imported or made
    env_args = with_sticky(options.env, options.sticky, parse_env_args(options.env_args))
    from gemrl.cli.console import Terminal
    from gemrl.experiments.run import TrainOptions, train_run

    terminal = Terminal()
    chosen = TrainOptions(
        env=options.env,
        env_args=env_args,
        algo=options.algo,
        steps=options.steps,
        seed=options.seed,
        folder=options.run,
        settings=tuple(options.settings),
        eval_every=options.eval_every,
        eval_episodes=options.eval_episodes,
        n_envs=options.n_envs,
        checkpoint_every=options.checkpoint_every,
        env_timeout=options.env_timeout,
        tensorboard=options.tensorboard,
        track=options.track,
        device=options.device,
    )
    return conclude(train_run(chosen, terminal), terminal)


def conclude(outcome: Outcome, terminal: Terminal) -> int:
    """Draws the learning curve, says what came of a run and what to do next; the exit code."""
    from gemrl.analysis.figures.learning_curve import learning_curve
    from gemrl.experiments.run import run_info
    from gemrl.experiments.run_folder import describe
    from gemrl.experiments.run_logs import read_evaluations
    from gemrl.training.trackers import tracker_named

    folder, say = outcome.folder, terminal.say
    picture = learning_curve(folder)
    evaluations = read_evaluations(folder)
    say(f"run folder        {folder}")
    if evaluations["step"].size:
        mean, std = evaluations["return_mean"][-1], evaluations["return_std"][-1]
        which = "final evaluation" if outcome.finished else "last evaluation"
        say(f"{which:16}  return {mean:,.1f} ± {std:,.1f} at step {int(evaluations['step'][-1]):,}")
    if picture:
        say(f"learning curve    {picture}")
    description = describe(folder)
    if track := description.get("track"):
        say(f"tracked           {tracker_named(track['to']).location(run_info(folder, description))}")
    watch = "--video film.mp4" if outcome.can_be_filmed else "--episodes 100"
    say(f"next              gemrl {f'evaluate {folder} {watch}' if outcome.finished else f'resume {folder}'}")
    return DONE if outcome.finished else INTERRUPTED
