"""What `gemrl train` and `gemrl evaluate` do once their arguments are known to be good."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from gemrl import runs
from gemrl.cli import DONE, INTERRUPTED
from gemrl.environments import check_spaces, make
from gemrl.errors import MissingExtra
from gemrl.recipes import AnyRecipe, Recipe

if TYPE_CHECKING:
    from gemrl.model import Model


def train_run(options: argparse.Namespace, chosen: AnyRecipe, folder: Path) -> int:
    """Trains in a new run's folder and says what came of it."""
    runs.check_free(folder)
    env = make(options.env)
    check_spaces(env.observation_space, env.action_space)
    console = Console()
    with console.status("starting JAX") if console.is_terminal else nullcontext():
        from gemrl.models import MODELS

        model = MODELS[options.algo].from_recipe(chosen, env, seed=options.seed, device=options.device)
    description = {
        "algo": options.algo,
        "env": options.env,
        "seed": options.seed,
        "steps": options.steps,
        "eval_every": options.eval_every,
        "eval_episodes": options.eval_episodes,
        "recipe": chosen.as_dict(),
        "device": str(model.device),
        "versions": runs.versions(),
    }
    board = tensorboard(folder / "tensorboard") if options.tensorboard else None
    runs.create(folder, description)
    depth = f", depth {chosen.planner.rollout_cap}" if isinstance(chosen, Recipe) else ""
    say = partial(console.print, highlight=False, soft_wrap=True)
    say(f"{options.algo} on {options.env}, seed {options.seed}, {options.steps:,} steps{depth}")
    try:
        finished = _train_loop(options, model, folder, board)
    finally:  # whatever ends a run, what it has learnt is kept
        model.save(folder / "model")
    _closing_words(folder, say, "final" if finished else "last")
    return DONE if finished else INTERRUPTED


def _train_loop(options: argparse.Namespace, model: Model, folder: Path, board: Any) -> bool:
    """Trains, shows and records; False if interrupted."""
    from gemrl.console import with_progress
    from gemrl.evaluation import Evaluator
    from gemrl.training import Schedule

    evaluator = Evaluator(partial(make, options.env), episodes=options.eval_episodes, seed=options.seed)
    recorder = runs.Recorder(folder, model.recipe)
    moments = model.train(options.steps, Schedule(evaluator, options.eval_every))
    try:
        for moment in with_progress(moments, options.steps, options.algo):
            line = recorder(moment)
            if board and line:
                for name, value in line.items():
                    board.add_scalar(name, value, moment.step)
    except KeyboardInterrupt:
        print(f"interrupted at step {model.num_timesteps:,}; saving the model")
        return False
    finally:
        recorder.close()
        evaluator.close()
        if board:
            board.close()
    return True


def _closing_words(folder: Path, say: Any, which: str) -> None:
    from gemrl.figures import learning_curve

    picture = learning_curve(folder)
    data = runs.read_evaluations(folder)
    say(f"run folder        {folder}")
    if data["step"].size:
        mean, std = data["return_mean"][-1], data["return_std"][-1]
        say(f"{which + ' evaluation':16}  return {mean:,.1f} ± {std:,.1f} at step {int(data['step'][-1]):,}")
    if picture:
        say(f"learning curve    {picture}")
    say(f"next              gemrl evaluate {folder} --video film.mp4")


def tensorboard(folder: str | Path) -> Any:
    """A writer of TensorBoard's files."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise MissingExtra("TensorBoard logs need what is not installed: pip install 'gemrl[tensorboard]'") from None
    return SummaryWriter(str(folder))


def evaluate_run(options: argparse.Namespace) -> int:
    """Scores a run's model, films it or shows it."""
    run = runs.describe(options.run)
    if options.video or options.render:
        from gemrl.video import check_film, check_mode, check_screen

        if options.video:
            check_film(options.video, run["env"])
        if options.render:
            check_screen()
            check_mode(run["env"], "human")
    make(run["env"]).close()
    from gemrl.console import evaluation_line
    from gemrl.evaluation import Evaluator

    model = runs.load(options.run, device=options.device)
    if options.video or options.render:
        from gemrl.video import film, watch

        if options.video:
            frames = film(model, run["env"], run["seed"], options.video)
            print(f"filmed {frames} frames into {options.video}")
        if options.render:
            watch(model, run["env"], run["seed"])
    evaluator = Evaluator(partial(make, run["env"]), episodes=options.episodes, seed=run["seed"])
    result = evaluator(model.agent)
    evaluator.close()
    print(f"{run['algo']} on {run['env']}, seed {run['seed']}, {options.episodes} episodes")
    print(evaluation_line(model.num_timesteps, result))
    return DONE
