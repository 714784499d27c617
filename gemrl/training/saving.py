"""Saves and loads models."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from gemrl.algorithms.registry import RECIPES, AnyRecipe, algorithm_for, recipe
from gemrl.core.exceptions import DAMAGED, GemrlError, ModelFileError, UnsupportedSpace
from gemrl.core.layout import Layout
from gemrl.core.snapshot import Snapshot
from gemrl.core.version import __version__
from gemrl.envs.space_files import space_from_dict, space_to_dict
from gemrl.envs.spaces import Spaces
from gemrl.envs.vector import check_lanes, make_envs
from gemrl.training.model_files import ModelFiles
from gemrl.training.pytrees import named_arrays, refilled

if TYPE_CHECKING:
    from gemrl.training.model import Model

AnyModel = TypeVar("AnyModel", bound="Model")


def save(model: Model, path: str | os.PathLike[str], snapshot: Snapshot | None) -> None:
    """Writes a model, and the snapshot if one is given."""
    header = {
        "gemrl": __version__,
        "algo": model.algo,
        "recipe": model.recipe.as_dict(),
        "seed": model.seed,
        "num_timesteps": model.num_timesteps,
        "n_envs": model.agent.lanes,
        "observation_space": space_to_dict(model.observation_space),
        "action_space": space_to_dict(model.action_space),
        "frames": model.spaces.layout.frames,
    }
    ModelFiles(path).write(named_arrays(model.agent.learner), header, snapshot)


def load(
    kind: type[AnyModel], path: str | os.PathLike[str], env: Any, device: str, fields: Mapping[str, Any] = MappingProxyType({})
) -> AnyModel:
    """The model of this class that `save` wrote, optionally with an environment to train in and changed fields."""
    files = ModelFiles(path)
    header = files.read_header()
    algo = header.get("algo")
    try:
        observation, action = (space_from_dict(header[name]) for name in ("observation_space", "action_space"))
        spaces = Spaces(observation, action, header.get("frames", 1))
        if algo not in RECIPES or algo not in (kind.algo, _variant(kind.algo, spaces.layout)):
            raise ModelFileError(f"{path} contains a {algo!r} model, not {kind.algo!r}; gemrl.load(path) loads any model")
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
    """A model with this recipe and the arrays in the files."""
    files.check_size(chosen, spaces.layout)
    lanes = header["n_envs"]
    source = spaces if env is None else make_envs(env, lanes)
    model = kind.from_recipe(chosen, source, seed=int(header["seed"]), device=device, n_envs=lanes)
    saved = files.read_memory(header)
    model.spaces.check_fits(spaces, for_memory=saved is not None)
    model.agent.set_learner(_learner(files, header, model.agent.learner))
    model.num_timesteps = int(header["num_timesteps"])
    if saved:
        check_lanes(lanes, model.agent.lanes)
        model.restore(saved)
    return model


def _learner(files: ModelFiles, header: dict[str, Any], template: Any) -> Any:
    """The template with every array replaced by the saved one. Raises unless names, shapes and dtypes match."""
    try:
        return refilled(template, _completed(files.read_learner(header), named_arrays(template)))
    except ModelFileError as error:
        raise ModelFileError(f"{files.learner} does not match its recipe: {error}") from None


def _completed(arrays: dict[str, np.ndarray], template: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The saved arrays. Older files have no `target_normalizer`; their only normalizer takes its place."""
    joined = {f"target_{name}": array for name, array in arrays.items() if name.startswith("normalizer.")}
    return {name: array for name, array in joined.items() if name in template} | arrays


def _variant(algo: str, layout: Layout) -> str | None:
    """The variant of an algorithm for this layout, such as gem-discrete for gem; None if there is none."""
    try:
        return algorithm_for(algo, layout)
    except UnsupportedSpace:
        return None
