"""Between an environment's own spaces and the arrays that agents see."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete

from gemrl.core.exceptions import DAMAGED, BadValue, ModelFileError, UnsupportedSpace
from gemrl.core.layout import LARGE_IMAGE, SMALLEST_IMAGE, Layout


class Spaces:
    """The spaces of an environment, and how they turn into a layout and back."""

    def __init__(self, observation: gym.Space, action: gym.Space, frames: int = 1) -> None:
        check_spaces(observation, action)
        assert isinstance(observation, (Box, Discrete))
        assert isinstance(action, (Box, Discrete))
        self.observation_space: Box | Discrete = observation
        self.action_space: Box | Discrete = action
        self.layout = _layout(observation, action, frames)
        self._bounds = (action.low.astype(float), action.high.astype(float)) if isinstance(action, Box) else (0.0, 0.0)

    @staticmethod
    def of(env: gym.Env) -> Spaces:
        """The spaces of an environment; whoever stacks frames in its outermost wrapper is known for it."""
        stacks = isinstance(env, gym.wrappers.FrameStackObservation) and getattr(env, "padding_type", "") == "reset"
        return Spaces(env.observation_space, env.action_space, (env.observation_space.shape or (1,))[0] if stacks else 1)

    def check_fits(self, model: Spaces, *, to_remember: bool = True) -> None:
        """Raises unless an environment of these spaces fits a model: bounds of actions matter, those of observations do not.

        If its steps are `to_remember` in the model's memory, it must stack images, or not, as the model's own does.
        """
        mine, other = self.layout, model.layout
        if to_remember and mine.frames != other.frames and mine.observation == other.observation:
            stacks = "must not have" if mine.frames > 1 else "must have"
            raise BadValue(f"the environment {stacks} FrameStackObservation as its outermost wrapper, as the model's")
        if (mine.observation, mine.dtype, mine.states) != (other.observation, other.dtype, other.states):
            kinds = self.observation_space, model.observation_space
            if kinds[0].shape != kinds[1].shape:
                raise BadValue(f"the environment's observation_space has shape {kinds[0].shape}, the model's {kinds[1].shape}")
            raise BadValue(f"the environment's observation_space is {kinds[0]}, the model's {kinds[1]}")
        if self.action_space != model.action_space:
            raise BadValue(f"the environment's action_space is {self.action_space}, the model's {model.action_space}")

    def seen(self, observation: Any) -> np.ndarray:
        """An observation as agents see it: a copy, since an environment may write the next one into the same array."""
        if isinstance(self.observation_space, Discrete):
            observation = np.asarray(observation) - self.observation_space.start
        return np.array(observation, dtype=self.layout.dtype).reshape(self.layout.observation)

    def batch(self, observation: Any) -> tuple[np.ndarray, bool]:
        """One observation, or several, as agents see them [B, *O]; and whether there were several."""
        if isinstance(observation, tuple) and isinstance(observation[-1], dict):
            raise BadValue("this is an observation with its info, as env.reset() returns them: the observation is the first")
        shape, given = self.observation_space.shape or (), np.asarray(observation)
        if given.shape[given.ndim - len(shape) :] != shape or given.ndim - len(shape) not in (0, 1):
            raise BadValue(f"an observation must have shape {shape} or (n, {', '.join(map(str, shape))}), not {given.shape}")
        return np.stack([self.seen(one) for one in given.reshape(-1, *shape)]), given.ndim > len(shape)

    def taken(self, action: np.ndarray) -> Any:
        """An agent's actions [*B, A] as the environment's own [*B, *shape]."""
        space = self.action_space
        if isinstance(space, Discrete):
            return action[..., 0].astype(np.int64) + space.start
        low, high = self._bounds
        unit = (np.clip(action, -1, 1).astype(np.float64).reshape((*action.shape[:-1], *space.shape)) + 1) / 2
        scaled = low + unit * (high - low)
        if space.dtype.kind in "iu":
            scaled = np.rint(scaled)
        return np.asarray(np.clip(scaled.astype(space.dtype), space.low, space.high))  # rounding may step out of the bounds


def _layout(observation: Box | Discrete, action: Box | Discrete, frames: int) -> Layout:
    choices, components = (int(action.n), 1) if isinstance(action, Discrete) else (0, int(np.prod(action.shape)))
    if isinstance(observation, Discrete):
        return Layout((1,), components, choices, "int32", int(observation.n))
    # Images stay what they are for agents that look at them; whoever has continuous actions sees a vector.
    shape = observation.shape
    if len(shape) == 2 and min(shape) >= LARGE_IMAGE:  # a screen of one channel
        shape = (*shape, 1)
    if choices and len(shape) == 3:
        bytes_or_bits = observation.dtype in (np.uint8, np.bool_)
        image = Layout(shape, components, choices, str(observation.dtype) if bytes_or_bits else "float32", frames=frames)
        # A small box of real numbers may be a table of anything; and a convolution needs room.
        if image.large_image or (bytes_or_bits and min(image.image[:2]) >= SMALLEST_IMAGE):
            return image
    return Layout((int(np.prod(observation.shape)),), components, choices)


def check_spaces(observation: gym.Space, action: gym.Space) -> None:
    """Raises unless some agent could live there: observations are a Box or Discrete, actions a bounded Box or Discrete."""
    if not isinstance(observation, (Box, Discrete)):
        raise UnsupportedSpace(f"observations must be a Box or Discrete, not {_kind(observation)}{_flatten_hint(observation)}")
    if not isinstance(action, (Box, Discrete)):
        hint = "; number all combinations in one Discrete" if isinstance(action, (MultiDiscrete, MultiBinary)) else ""
        raise UnsupportedSpace(f"actions must be a Box or Discrete, not {_kind(action)}{hint}")
    for what, space in (("observations", observation), ("actions", action)):
        if isinstance(space, Box) and 0 in space.shape:
            raise UnsupportedSpace(f"{what} must hold at least one number, and this Box has shape {space.shape}")
    if isinstance(action, Box) and not (np.isfinite(action.low).all() and np.isfinite(action.high).all()):
        raise UnsupportedSpace(f"action bounds must be finite, not {action}: give the environment's action_space low and high")


def _kind(space: gym.Space) -> str:
    return type(space).__name__


def _flatten_hint(space: gym.Space) -> str:
    flattens = isinstance(space, (gym.spaces.Dict, gym.spaces.Tuple, gym.spaces.MultiDiscrete, gym.spaces.MultiBinary))
    return ": wrap the environment in gymnasium.wrappers.FlattenObservation" if flattens else ""


def space_to_dict(space: Box | Discrete) -> dict[str, Any]:
    """A space as JSON values; bounds of a Box as strings, which keep infinities."""
    if isinstance(space, Discrete):
        return {"n": int(space.n), "start": int(space.start)}
    low, high = ([str(bound) for bound in np.ravel(side).tolist()] for side in (space.low, space.high))
    return {"shape": list(space.shape), "dtype": str(space.dtype), "low": low, "high": high}


def space_from_dict(values: Any) -> Box | Discrete:
    """The space that `space_to_dict` wrote."""
    try:
        if "n" in values:
            return Discrete(values["n"], start=values["start"])
        shape, dtype = tuple(int(n) for n in values["shape"]), np.dtype(str(values["dtype"]))
        if dtype.kind not in "fiub":
            raise BadValue(f"type {dtype}")
        with np.errstate(over="ignore"):  # a bound too large for a float is infinite, for an integer damage
            low, high = (np.array([_bound(x, dtype) for x in values[side]], dtype).reshape(shape) for side in ("low", "high"))
        return Box(low, high, shape, dtype.type)
    except (*DAMAGED, AssertionError) as error:
        raise ModelFileError(f"a space in the model's JSON is damaged: {error}") from None


def _bound(text: Any, dtype: np.dtype) -> float:
    if dtype.kind == "b":
        return {"False": False, "True": True}[text]
    return int(text) if dtype.kind in "iu" else float(text)  # a float cannot hold the greatest integers
