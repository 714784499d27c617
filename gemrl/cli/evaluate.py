"""`gemrl evaluate`: evaluates the trained model of a run, records a video of it or shows it."""

from __future__ import annotations

import argparse
from contextlib import closing

from gemrl.analysis.video import check_mode, check_screen, check_video, record, watch
from gemrl.cli.arguments import add_device, count, path, whole
from gemrl.cli.text import echo
from gemrl.core.exit_codes import DONE
from gemrl.core.text import counted
from gemrl.experiments.best_model import best_path
from gemrl.experiments.description import env_title, environment_of
from gemrl.experiments.run_folder import describe
from gemrl.training.display import evaluation_line
from gemrl.training.evaluation import Evaluator


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command to its parser."""
    parser.description = "Evaluate the trained model of a run, or its best one, with the deterministic policy."
    parser.epilog = "Videos of MuJoCo tasks are rendered off-screen with EGL (on Debian: apt install libegl1)."
    parser.add_argument("run", type=path, metavar="RUN", help="the run folder")
    parser.add_argument("--episodes", type=count, default=10, metavar="K", help="number of episodes (default: 10)")
    parser.add_argument(
        "--seed",
        type=whole,
        metavar="S",
        help="seed of the episodes (default: the run's seed, which gives the episodes of its own evaluations)",
    )
    parser.add_argument("--best", action="store_true", help="evaluate the model of the run's best evaluation, not the last one")
    parser.add_argument("--video", type=path, metavar="FILE", help="record the first episode to FILE (.mp4 or .gif)")
    parser.add_argument("--render", action="store_true", help="show the first episode in a window")
    add_device(parser)
    parser.set_defaults(command=evaluate)


def evaluate(options: argparse.Namespace) -> int:
    """Evaluates the model of a run, records or shows an episode; returns the exit code."""

    run = describe(options.run)
    path = best_path(options.run, run) if options.best else options.run
    environment, seed = environment_of(run), run["seed"] if options.seed is None else options.seed
    if options.video:
        check_video(options.video, environment)
    if options.render:
        check_screen()
        check_mode(environment, "human")
    environment().close()
    from gemrl.experiments.loading import load  # JAX loads slowly, so errors of the environment are reported first

    model = load(path, device=options.device)
    if options.video:
        frames = record(model, environment, seed, options.video)
        echo(f"recorded {frames} frames to {options.video}")
    if options.render:
        watch(model, environment, seed)
    evaluator = Evaluator(environment, episodes=options.episodes, seed=seed)
    with closing(evaluator):
        result = evaluator(model.agent)
    other = "" if seed == run["seed"] else f" with seed {seed}"
    echo(f"{run['algo']} on {env_title(run)}, seed {run['seed']}, {counted(options.episodes, 'episode')}{other}")
    echo(evaluation_line(model.num_timesteps, result))
    return DONE
