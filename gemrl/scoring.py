"""What `gemrl evaluate` does once its arguments are known to be good."""

from __future__ import annotations

import argparse

from gemrl import runs
from gemrl.arguments import env_args, env_maker, env_title
from gemrl.cli import DONE


def evaluate_run(options: argparse.Namespace) -> int:
    """Scores a run's model, films it or shows it."""
    run = runs.describe(options.run)
    maker, arguments = env_maker(run), env_args(run)
    if options.video or options.render:
        from gemrl.video import check_film, check_mode, check_screen

        if options.video:
            check_film(options.video, run["env"], **arguments)
        if options.render:
            check_screen()
            check_mode(run["env"], "human", **arguments)
    maker().close()
    from gemrl.console import evaluation_line
    from gemrl.evaluation import Evaluator

    model = runs.load(options.run, device=options.device)
    if options.video or options.render:
        from gemrl.video import film, watch

        if options.video:
            frames = film(model, run["env"], run["seed"], options.video, **arguments)
            print(f"filmed {frames} frames into {options.video}")
        if options.render:
            watch(model, run["env"], run["seed"], **arguments)
    evaluator = Evaluator(maker, episodes=options.episodes, seed=run["seed"])
    result = evaluator(model.agent)
    evaluator.close()
    print(f"{run['algo']} on {env_title(run)}, seed {run['seed']}, {options.episodes} episodes")
    print(evaluation_line(model.num_timesteps, result))
    return DONE
