"""What `gemrl evaluate` does once its arguments are known to be good."""

from __future__ import annotations

import argparse
from contextlib import closing

from gemrl import runs
from gemrl.env_args import env_title, environment_of
from gemrl.errors import DONE


def evaluate_run(options: argparse.Namespace) -> int:
    """Scores a run's model, films it or shows it."""
    run = runs.describe(options.run)
    place, seed = environment_of(run), run["seed"] if options.seed is None else options.seed
    if options.video or options.render:
        from gemrl.video import check_film, check_mode, check_screen

        if options.video:
            check_film(options.video, place)
        if options.render:
            check_screen()
            check_mode(place, "human")
    place().close()
    from gemrl.console import evaluation_line
    from gemrl.evaluation import Evaluator

    model = runs.load(options.run, device=options.device)
    if options.video or options.render:
        from gemrl.video import film, watch

        if options.video:
            frames = film(model, place, seed, options.video)
            print(f"filmed {frames} frames into {options.video}")
        if options.render:
            watch(model, place, seed)
    evaluator = Evaluator(place, episodes=options.episodes, seed=seed)
    with closing(evaluator):
        result = evaluator(model.agent)
    other = "" if seed == run["seed"] else f" of seed {seed}"
    print(f"{run['algo']} on {env_title(run)}, seed {run['seed']}, {options.episodes} episodes{other}")
    print(evaluation_line(model.num_timesteps, result))
    return DONE
