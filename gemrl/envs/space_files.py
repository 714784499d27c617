"""Spaces as JSON values, as they are saved with a model."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from gemrl.core.exceptions import DAMAGED, BadValue, ModelFileError


def space_to_dict(space: gym.Space) -> dict[str, Any]:
    """A space as JSON values. Bounds of a Box are strings, since JSON has no infinity; entries of a Dict keep their order."""
    match space:
        case Discrete():
            return {"n": int(space.n), "start": int(space.start)}
        case MultiBinary():
            return {"binary": space.n if isinstance(space.n, int) else list(space.shape)}
        case MultiDiscrete():
            counts, start = (side.reshape(-1).tolist() for side in (space.nvec, space.start))
            return {"counts": counts, "starts": start, "shape": list(space.shape), "dtype": str(space.dtype)}
        case Dict():
            return {"dict": [[key, space_to_dict(inner)] for key, inner in space.spaces.items()]}
        case Tuple():
            return {"tuple": [space_to_dict(inner) for inner in space.spaces]}
        case Box():
            low, high = ([str(bound) for bound in np.ravel(side).tolist()] for side in (space.low, space.high))
            return {"shape": list(space.shape), "dtype": str(space.dtype), "low": low, "high": high}
    raise BadValue(f"a {type(space).__name__} space cannot be saved")


def space_from_dict(values: Any) -> gym.Space:
    """The space that `space_to_dict` wrote."""
    try:
        return _space(values)
    except (*DAMAGED, AssertionError) as error:
        raise ModelFileError(f"a space in the model's JSON is damaged: {error}") from None


def _space(values: Any) -> gym.Space:
    if "dict" in values:
        return Dict([(_key(key), _space(inner)) for key, inner in values["dict"]])
    if "tuple" in values:
        return Tuple([_space(inner) for inner in values["tuple"]])
    if "n" in values:
        return Discrete(values["n"], start=values["start"])
    if "binary" in values:
        count = values["binary"]  # gymnasium tells MultiBinary(3) and MultiBinary([3]) apart
        return MultiBinary([int(n) for n in count] if isinstance(count, list) else int(count))
    shape, dtype = tuple(int(n) for n in values["shape"]), np.dtype(str(values["dtype"]))
    if dtype.kind not in "fiub":
        raise BadValue(f"type {dtype}")
    if "counts" in values:
        counts, start = (np.array(values[side], dtype).reshape(shape) for side in ("counts", "starts"))
        return MultiDiscrete(counts, dtype.type, start=start)
    with np.errstate(over="ignore"):  # a bound that is too large becomes infinite for floats and an error for integers
        low, high = (np.array([_bound(x, dtype) for x in values[side]], dtype).reshape(shape) for side in ("low", "high"))
    return Box(low, high, shape, dtype.type)


def _key(key: Any) -> Any:
    if type(key) not in (str, int):
        raise BadValue(f"{key!r} as a key")
    return key


def _bound(text: Any, dtype: np.dtype) -> float:
    if dtype.kind == "b":
        return {"False": False, "True": True}[text]
    return int(text) if dtype.kind in "iu" else float(text)  # a float cannot represent the largest integers
