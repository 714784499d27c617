"""Converts between an environment's spaces and the arrays that agents see."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete

from gemrl.core.exceptions import DAMAGED, BadValue, ModelFileError, UnsupportedSpace
from gemrl.core.layout import LARGE_IMAGE, SMALLEST_IMAGE, Layout


class Spaces:
    """The spaces of an environment, their layout, and conversions of observations and actions."""

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
        """The spaces of an environment. Frame stacking is recognised if it is the outermost wrapper."""
        stacks = isinstance(env, gym.wrappers.FrameStackObservation) and getattr(env, "padding_type", "") == "reset"
        return Spaces(env.observation_space, env.action_space, (env.observation_space.shape or (1,))[0] if stacks else 1)

    def check_fits(self, model: Spaces, *, for_memory: bool = True) -> None:
        """Raises unless an environment with these spaces fits a model. Action bounds must match; observation bounds need not.

        If its steps will be stored in the model's memory (`for_memory`), frame stacking must match too.
        """
        mine, other = self.layout, model.layout
        if for_memory and mine.frames != other.frames and mine.observation == other.observation:
            rule = "must not" if mine.frames > 1 else "must"
            wrapper = "have FrameStackObservation as its outermost wrapper"
            raise BadValue(f"the environment {rule} {wrapper}, to match the one the model was trained in")
        if (mine.observation, mine.dtype, mine.states) != (other.observation, other.dtype, other.states):
            own, expected = self.observation_space, model.observation_space
            if own.shape != expected.shape:
                raise BadValue(f"the environment's observation_space has shape {own.shape}, the model's {expected.shape}")
            raise BadValue(f"the environment's observation_space is {own}, the model's {expected}")
        if self.action_space != model.action_space:
            raise BadValue(f"the environment's action_space is {self.action_space}, the model's {model.action_space}")

    def agent_observation(self, observation: Any) -> np.ndarray:
        """An observation as agents see it [*O]. It is a copy, since environments may reuse their array for the next one."""
        if isinstance(self.observation_space, Discrete):
            observation = np.asarray(observation) - self.observation_space.start
        return np.array(observation, dtype=self.layout.dtype).reshape(self.layout.observation)

    def batch(self, observation: Any) -> tuple[np.ndarray, bool]:
        """One observation or a batch as agents see them [B, *O], and whether it was a batch."""
        if isinstance(observation, tuple) and isinstance(observation[-1], dict):
            raise BadValue("this is an (observation, info) pair, as returned by env.reset(): pass the observation only")
        shape, given = self.observation_space.shape or (), np.asarray(observation)
        if given.shape[given.ndim - len(shape) :] != shape or given.ndim - len(shape) not in (0, 1):
            raise BadValue(f"an observation must have shape {shape} or (n, {', '.join(map(str, shape))}), not {given.shape}")
        return np.stack([self.agent_observation(one) for one in given.reshape(-1, *shape)]), given.ndim > len(shape)

    def env_action(self, action: np.ndarray) -> Any:
        """An agent's actions [*B, A], converted to the environment's action space [*B, *shape]."""
        space = self.action_space
        if isinstance(space, Discrete):
            return action[..., 0].astype(np.int64) + space.start
        low, high = self._bounds
        unit = (np.clip(action, -1, 1).astype(np.float64).reshape((*action.shape[:-1], *space.shape)) + 1) / 2
        scaled = low + unit * (high - low)
        if space.dtype.kind in "iu":
            scaled = np.rint(scaled)
        return np.asarray(np.clip(scaled.astype(space.dtype), space.low, space.high))  # rounding may exceed the bounds

    def agent_action(self, action: np.ndarray) -> np.ndarray:
        """The environment's actions [B, *shape] as agents see them [B, A]; the inverse of `env_action`."""
        if isinstance(self.action_space, Discrete):
            return (action.astype(np.int64).reshape(-1, 1) - self.action_space.start).astype(self.layout.action_dtype)
        low, high = self._bounds
        unit = (np.clip(action.astype(np.float64), low, high) - low) / np.where(high > low, high - low, 1.0)
        return (2 * unit - 1).astype(self.layout.action_dtype).reshape(len(action), -1)


def _layout(observation: Box | Discrete, action: Box | Discrete, frames: int) -> Layout:
    """The layout of these spaces, with `frames` stacked frames per observation."""
    choices, components = (int(action.n), 1) if isinstance(action, Discrete) else (0, int(np.prod(action.shape)))
    if isinstance(observation, Discrete):
        return Layout((1,), components, choices, "int32", int(observation.n))
    # Agents with discrete actions get images as they are; agents with continuous actions get flat vectors.
    shape = observation.shape
    if len(shape) == 2 and min(shape) >= LARGE_IMAGE:  # an image with one channel
        shape = (*shape, 1)
    if choices and len(shape) == 3:
        bytes_or_bits = observation.dtype in (np.uint8, np.bool_)
        image = Layout(shape, components, choices, str(observation.dtype) if bytes_or_bits else "float32", frames=frames)
        # A small Box of floats need not be an image, and a convolution needs a minimum size.
        if image.large_image or (bytes_or_bits and min(image.image[:2]) >= SMALLEST_IMAGE):
            return image
    return Layout((int(np.prod(observation.shape)),), components, choices)


def check_spaces(observation: gym.Space, action: gym.Space) -> None:
    """Raises unless observations are a Box or Discrete and actions are a bounded Box or Discrete."""
    if not isinstance(observation, (Box, Discrete)):
        raise UnsupportedSpace(f"observations must be a Box or Discrete, not {_kind(observation)}{_flatten_hint(observation)}")
    if not isinstance(action, (Box, Discrete)):
        hint = "; enumerate all combinations in one Discrete" if isinstance(action, (MultiDiscrete, MultiBinary)) else ""
        raise UnsupportedSpace(f"actions must be a Box or Discrete, not {_kind(action)}{hint}")
    for what, space in (("observations", observation), ("actions", action)):
        if isinstance(space, Box) and 0 in space.shape:
            raise UnsupportedSpace(f"{what} must contain at least one number, but this Box has shape {space.shape}")
    if isinstance(action, Box) and not (np.isfinite(action.low).all() and np.isfinite(action.high).all()):
        raise UnsupportedSpace(f"action bounds must be finite, not {action}: give the action_space finite low and high")


def _kind(space: gym.Space) -> str:
    return type(space).__name__


def _flatten_hint(space: gym.Space) -> str:
    flattens = isinstance(space, (gym.spaces.Dict, gym.spaces.Tuple, gym.spaces.MultiDiscrete, gym.spaces.MultiBinary))
    return ": wrap the environment in gymnasium.wrappers.FlattenObservation" if flattens else ""


def space_to_dict(space: Box | Discrete) -> dict[str, Any]:
    """A space as JSON values. Bounds of a Box are strings, since JSON has no infinity."""
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
        with np.errstate(over="ignore"):  # a bound that is too large becomes infinite for floats and an error for integers
            low, high = (np.array([_bound(x, dtype) for x in values[side]], dtype).reshape(shape) for side in ("low", "high"))
        return Box(low, high, shape, dtype.type)
    except (*DAMAGED, AssertionError) as error:
        raise ModelFileError(f"a space in the model's JSON is damaged: {error}") from None


def _bound(text: Any, dtype: np.dtype) -> float:
    if dtype.kind == "b":
        return {"False": False, "True": True}[text]
    return int(text) if dtype.kind in "iu" else float(text)  # a float cannot represent the largest integers
