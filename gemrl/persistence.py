"""A model to disk and back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import gemrl
from gemrl.errors import DAMAGED, GemrlError, ModelFileError, UnsupportedSpace, check_number
from gemrl.recipes import RECIPES, AnyRecipe, recipe, suited
from gemrl.saving import ModelFiles
from gemrl.snapshot import Snapshot
from gemrl.spaces import Layout, Spaces, space_from_dict, space_to_dict
from gemrl.vector import check_lanes, made

if TYPE_CHECKING:
    from gemrl.model import Model

MOST_LANES = 4096
"""More environments than a saved model may speak of."""

AnyModel = TypeVar("AnyModel", bound="Model")


def save(model: Model, path: str | os.PathLike[str], snapshot: Snapshot | None) -> None:
    """Writes a model, with the snapshot if there is one."""
    header = {
        "gemrl": gemrl.__version__,
        "algo": model.algo,
        "recipe": model.recipe.as_dict(),
        "seed": model.seed,
        "num_timesteps": model.num_timesteps,
        "n_envs": model.agent.lanes,
        "observation_space": space_to_dict(model.observation_space),
        "action_space": space_to_dict(model.action_space),
        "frames": model.spaces.layout.frames,
    }
    ModelFiles(path).write(model.agent.learner, header, snapshot)


def load(
    kind: type[AnyModel], path: str | os.PathLike[str], env: Any, device: str, fields: Mapping[str, Any] = MappingProxyType({})
) -> AnyModel:
    """The model of this kind that `save` wrote, with an environment to go on in, if one is given, and fields changed."""
    files = ModelFiles(path)
    header = files.read_header()
    algo = header.get("algo")
    try:
        observation, action = (space_from_dict(header[name]) for name in ("observation_space", "action_space"))
        spaces = Spaces(observation, action, header.get("frames", 1))
        if algo not in RECIPES or algo not in (kind.algo, _kin(kind.algo, spaces.layout)):
            raise ModelFileError(f"{path} holds {algo!r}, not {kind.algo!r}: gemrl.load(path) loads any model")
        chosen: AnyRecipe = type(recipe(algo)).from_dict(header["recipe"])
        model = _from_files(kind, files, header, chosen.but(**fields), spaces, env, device)
        model.algo = algo
    except DAMAGED as error:
        if isinstance(error, GemrlError):
            raise
        raise ModelFileError(f"{files.header} is damaged: {type(error).__name__}: {error}") from None
    return model


def _from_files(
    kind: type[AnyModel], files: ModelFiles, header: dict[str, Any], chosen: AnyRecipe, spaces: Spaces, env: Any, device: str
) -> AnyModel:
    files.check_size(chosen, spaces.layout)
    lanes = header["n_envs"]
    check_number("n_envs", lanes, 1, MOST_LANES, whole=True)
    place = spaces if env is None else made(env, lanes)
    model = kind.from_recipe(chosen, place, seed=int(header["seed"]), device=device, n_envs=lanes)
    saved = files.read_memory(header)
    model.spaces.check_fits(spaces, to_remember=saved is not None)
    model.agent.restore(files.read_learner(header, model.agent.learner))
    model.num_timesteps = int(header["num_timesteps"])
    if saved:
        check_lanes(lanes, model.agent.lanes)
        model.recall(saved)
    return model


def _kin(algo: str, layout: Layout) -> str | None:
    """What an algorithm is called where such observations and actions are; None if it cannot live there."""
    try:
        return suited(algo, layout)
    except UnsupportedSpace:
        return None
