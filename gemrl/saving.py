"""A trained model on disk: arrays as safetensors, the rest as JSON beside them. Loading never runs code."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import jax
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from gemrl.errors import ModelFileError

FORMAT = 1
"""Version of the files' layout."""

ENDINGS = {".safetensors", ".json", ".zip"}
"""Stripped from a path; .zip is what Stable-Baselines3's callbacks add."""


def stem(path: str | os.PathLike[str]) -> Path:
    """The path of a model without the ending of either file."""
    path = Path(path)
    return path.with_suffix("") if path.suffix in ENDINGS else path


def save_model(path: str | os.PathLike[str], learner: Any, header: dict[str, Any]) -> None:
    """Writes `path`.safetensors and `path`.json, each complete or not at all."""
    base = stem(path)
    base.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(base.with_name(base.name + ".safetensors"), save(named_arrays(learner)))
    write_json(base.with_name(base.name + ".json"), {"format": FORMAT, **header})


def load_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The JSON of a saved model."""
    base = stem(path)
    file = base.with_name(base.name + ".json")
    try:
        header = json.loads(file.read_text())
    except OSError as error:
        raise ModelFileError(f"no model at {base}: {error.strerror or error}") from None
    except ValueError:
        raise ModelFileError(f"{file} is damaged: not JSON") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ModelFileError(f"{file} is not a model of format {FORMAT}")
    return header


def load_arrays(path: str | os.PathLike[str], template: Any) -> Any:
    """`template` with every array replaced by the saved one of its name; names, shapes and types must agree."""
    base = stem(path)
    file = base.with_name(base.name + ".safetensors")
    try:
        arrays = load(file.read_bytes())
    except OSError as error:
        raise ModelFileError(f"cannot read {file}: {error.strerror or error}") from None
    except (SafetensorError, ValueError) as error:
        raise ModelFileError(f"{file} is damaged: {error}") from None
    expected = named_arrays(template)
    for name in expected.keys() | arrays.keys():
        if name not in arrays or name not in expected:
            raise ModelFileError(f"{file} does not fit its recipe: array {name} is {'absent' if name in expected else 'unknown'}")
        if arrays[name].shape != expected[name].shape or arrays[name].dtype != expected[name].dtype:
            raise ModelFileError(f"{file} does not fit its recipe: array {name} has shape {arrays[name].shape}")
    leaves, structure = jax.tree.flatten(template)
    fresh = [_like(leaf, arrays[name]) for leaf, name in zip(leaves, expected, strict=True)]
    return jax.tree.unflatten(structure, fresh)


def named_arrays(tree: Any) -> dict[str, np.ndarray]:
    """Every array of a pytree under the path that leads to it."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): _plain(leaf) for path, leaf in leaves}


def _plain(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _like(leaf: Any, array: np.ndarray) -> Any:
    return jax.random.wrap_key_data(jax.numpy.array(array)) if _is_key(leaf) else jax.numpy.array(array)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def write_bytes(path: Path, data: bytes) -> None:
    """Replaces a file atomically."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Replaces a JSON file atomically."""
    write_bytes(path, (json.dumps(content, indent=2) + "\n").encode())


def space_to_dict(space: gym.spaces.Box) -> dict[str, Any]:
    """A Box as JSON values; bounds as strings, which keep infinities."""
    low, high = ([str(bound) for bound in np.ravel(side).tolist()] for side in (space.low, space.high))
    return {"shape": list(space.shape), "dtype": str(space.dtype), "low": low, "high": high}


def space_from_dict(values: Any) -> gym.spaces.Box:
    """The Box that `space_to_dict` wrote."""
    try:
        shape, dtype = tuple(int(n) for n in values["shape"]), np.dtype(values["dtype"])
        low, high = (np.array([float(x) for x in values[side]]).reshape(shape).astype(dtype) for side in ("low", "high"))
        return gym.spaces.Box(low, high, shape, dtype.type)
    except (KeyError, TypeError, ValueError, AssertionError) as error:
        raise ModelFileError(f"a space in the model's JSON is damaged: {error}") from None
