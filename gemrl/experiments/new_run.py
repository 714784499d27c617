"""The description of a new run. It does not import JAX, so that wrong names are reported without delay."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from gemrl.agents.memory.recorded import Room, lanes_for
from gemrl.algorithms.registry import RECIPES, AnyRecipe, algorithm_for, recipe_for
from gemrl.core.exceptions import BadValue
from gemrl.core.extras import check_installed
from gemrl.core.layout import Layout
from gemrl.core.steps import Trajectory
from gemrl.core.threads import kept_flags, thread_count
from gemrl.envs.spaces import Spaces
from gemrl.experiments.data.sources import described, read_source
from gemrl.experiments.description import default_evaluations, environment_of
from gemrl.experiments.run_interface import TrainOptions
from gemrl.experiments.versions import versions
from gemrl.training.trackers import tracker_named


class NewRun(NamedTuple):
    """A run that is about to start."""

    description: dict[str, Any]
    data: list[Trajectory]
    """What is in its memory from the start."""


def new_run(options: TrainOptions, warn: Callable[[str], None]) -> NewRun:
    """The description of a new run and the data it starts with; `warn` gets a line about each damaged checkpoint in the data."""
    chosen = {"env": options.env, "env_args": dict(options.env_args)}
    env = environment_of(chosen)()
    spaces = Spaces.of(env)
    layout = spaces.layout
    env.close()
    algo = algorithm_for(options.algo, layout)
    recipe = recipe_for(algo, options.env, layout, options.settings)
    if options.offline:
        _check_offline(algo, recipe, layout)
    every, episodes = default_evaluations(options.env)
    if options.tensorboard:
        check_installed("tensorboardX", "tensorboard")
    data = [read_source(Path(path), spaces, warn) for path in options.data]
    trajectories = [trajectory for found in data for trajectory in found]
    if options.offline and not any(setting.startswith("buffer_size=") for setting in options.settings):
        recipe = recipe.but(buffer_size=sum(trajectory.steps + 1 for trajectory in trajectories))  # one image more than steps
    _check_room(trajectories, recipe.settable().get("buffer_size"), options)
    description: dict[str, Any] = {
        "algo": algo,
        **chosen,
        "seed": options.seed,
        "steps": options.steps,
        "eval_every": options.eval_every or every,
        "eval_episodes": options.eval_episodes or episodes,
        "n_envs": options.n_envs,
        "checkpoint_every": options.checkpoint_every,
        "env_timeout": options.env_timeout,
        "tensorboard": options.tensorboard,
        "track": _new_track(options.track),
        "keep_best": options.keep_best,
        "device": options.device,
        "recipe": recipe.as_dict(),
        "threads": thread_count(),
        "xla_flags": kept_flags(),
        "versions": versions(),
    }
    if data:
        entries = [described(path, found) for path, found in zip(options.data, data, strict=True)]
        description |= {"data": entries, "keep_data": options.keep_data}
        description |= {"offline": True} if options.offline else {}
    return NewRun(description, trajectories)


def _check_offline(algo: str, recipe: AnyRecipe, layout: Layout) -> None:
    """Raises if an algorithm cannot train on recorded data alone."""
    if problem := recipe.offline_problem:
        others = [name for name, other in RECIPES.items() if other.fits(layout) and not other.offline_problem and name != algo]
        hint = f"; these can: {', '.join(others)}" if others else ""
        raise BadValue(f"{algo} cannot train on recorded data alone: it {problem}{hint}")


def _check_room(trajectories: list[Trajectory], buffer_size: int | None, options: TrainOptions) -> None:
    """Raises if the data has more rows than the memory. The agent checks it too, but only when there is a run folder."""
    if buffer_size is not None:
        lanes, used = options.n_envs + options.keep_data, 1 if options.keep_data else options.n_envs
        lanes_for(trajectories, Room(used, max(1, buffer_size // lanes), None, lanes))


def _new_track(name: str | None) -> dict[str, str] | None:
    """The tracker of a new run, with a random id, or None."""
    if name is None:
        return None
    package = tracker_named(name).package
    check_installed(package, package)
    return {"to": name, "id": secrets.token_hex(4)}
