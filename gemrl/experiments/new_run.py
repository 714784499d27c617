"""The description of a new run. It does not import JAX, so that wrong names are reported without delay."""

from __future__ import annotations

import secrets
from typing import Any

from gemrl.algorithms.registry import algorithm_for, recipe_for
from gemrl.core.extras import check_installed
from gemrl.core.threads import kept_flags, thread_count
from gemrl.envs.spaces import Spaces
from gemrl.experiments.description import default_evaluations, environment_of
from gemrl.experiments.run_interface import TrainOptions
from gemrl.experiments.versions import versions
from gemrl.training.trackers import tracker_named


def new_description(options: TrainOptions) -> dict[str, Any]:
    """The description of a new run."""
    chosen = {"env": options.env, "env_args": dict(options.env_args)}
    env = environment_of(chosen)()
    layout = Spaces.of(env).layout
    env.close()
    algo = algorithm_for(options.algo, layout)
    recipe = recipe_for(algo, options.env, layout, options.settings)
    every, episodes = default_evaluations(options.env)
    if options.tensorboard:
        check_installed("tensorboardX", "tensorboard")
    return {
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
        "device": options.device,
        "recipe": recipe.as_dict(),
        "threads": thread_count(),
        "xla_flags": kept_flags(),
        "versions": versions(),
    }


def _new_track(name: str | None) -> dict[str, str] | None:
    """The tracker of a new run, with a random id, or None."""
    if name is None:
        return None
    package = tracker_named(name).package
    check_installed(package, package)
    return {"to": name, "id": secrets.token_hex(4)}
