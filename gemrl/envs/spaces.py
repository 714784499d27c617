"""Converts between an environment's spaces and the arrays that agents see."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete

from gemrl.core.exceptions import BadValue, UnsupportedSpace
from gemrl.core.layout import LARGE_IMAGE, SMALLEST_IMAGE, Layout
from gemrl.core.packing import FLOAT_BYTES, pack
from gemrl.envs.actions import ActionSpace, actions_of, check_actions
from gemrl.envs.flattening import Entry, Flattening, entries_of
from gemrl.envs.masks import is_mask, with_mask_last


class Spaces:
    """The spaces of an environment, their layout, and conversions of observations and actions."""

    def __init__(self, observation: gym.Space, action: gym.Space, frames: int = 1) -> None:
        self.observation_space, self.action_space = observation, check_actions(action)
        self.actions = actions_of(self.action_space)
        self.entries = with_image_first(with_mask_last(entries_of(observation), self.actions.choices))
        self.flattening = Flattening(self.entries) if _are_flattened(self.entries, self.action_space) else None
        """How observations become vectors; None if they are a single array, as in a Box."""
        picture = image_entry(self.entries)
        self.seen: Box | Discrete = _seen(self.entries[0], self.flattening, picture)
        """The space of observations once they are flattened."""
        self.layout = _layout(self.seen, self.actions.choices, self.actions.size, frames)
        if picture:
            size = picture.size + FLOAT_BYTES * (self.seen.shape[0] - picture.size)  # type: ignore[index]
            self.layout = self.layout._replace(observation=(size,), dtype="uint8", picture=picture.shape)
        if self.actions.choices and is_mask(self.entries[-1]):
            self.layout = _masked(self.layout, self.entries[0])

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
        if self._order() != model._order():
            if sorted(self._order()) == sorted(model._order()):
                raise BadValue("the entries of the environment's observation_space are in another order than the model's")
            raise BadValue(
                f"the environment's observation_space is {self.observation_space}, the model's {model.observation_space}"
            )
        if (mine.observation, mine.dtype, mine.states) != (other.observation, other.dtype, other.states):
            own, expected = self.observation_space, model.observation_space
            if own.shape != expected.shape:
                raise BadValue(f"the environment's observation_space has shape {own.shape}, the model's {expected.shape}")
            raise BadValue(f"the environment's observation_space is {own}, the model's {expected}")
        if self.action_space != model.action_space:
            raise BadValue(f"the environment's action_space is {self.action_space}, the model's {model.action_space}")

    def _order(self) -> list[tuple[str, str, int]]:
        """Name, kind and size of each entry of the vector; empty if observations are a single array."""
        entries = self.flattening.entries if self.flattening else ()
        return [(repr(entry.path), type(entry.space).__name__, entry.size) for entry in entries]

    def numbers(self, observation: Any) -> np.ndarray:
        """The numbers of one observation before they are converted: a vector, or the array itself."""
        return self.flattening.one(observation) if self.flattening else self._only(observation)

    def converted(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers of one observation as agents see them [*O]. It is a copy, since environments may reuse their array."""
        if self.layout.picture:
            return pack(numbers, self.layout.pixels)
        if isinstance(self.seen, Discrete):
            numbers = numbers - self.seen.start
        return np.array(numbers, dtype=self.layout.dtype).reshape(self.layout.observation)

    def agent_observation(self, observation: Any) -> np.ndarray:
        """An observation as agents see it [*O]."""
        return self.converted(self.numbers(observation))

    def _only(self, observation: Any) -> np.ndarray:
        """The array of an observation that is a single one, within a Dict or Tuple or not."""
        entry = self.entries[0]
        return entry.value(observation) if entry.path else np.asarray(observation)

    def batch(self, observation: Any) -> tuple[np.ndarray, bool]:
        """One observation or a batch as agents see them [B, *O], and whether it was a batch."""
        if _is_pair(observation, self.observation_space):
            raise BadValue("this is an (observation, info) pair, as returned by env.reset(): pass the observation only")
        if self.flattening:
            given, several = self.flattening.batch(observation)
            return pack(given, self.layout.pixels) if self.layout.picture else given.astype(self.layout.dtype), several
        shape, given = self.seen.shape or (), self._only(observation)
        if given.shape[given.ndim - len(shape) :] != shape or given.ndim - len(shape) not in (0, 1):
            raise BadValue(f"an observation must have shape {shape} or (n, {', '.join(map(str, shape))}), not {given.shape}")
        return np.stack([self.converted(one) for one in given.reshape(-1, *shape)]), given.ndim > len(shape)

    def env_action(self, action: np.ndarray) -> Any:
        """An agent's actions [*B, A], converted to the environment's action space [*B, *shape]."""
        return self.actions.to_env(action)

    def agent_action(self, action: np.ndarray) -> np.ndarray:
        """The environment's actions [B, *shape] as agents see them [B, A]; the inverse of `env_action`."""
        return self.actions.to_agent(action)


def _is_pair(observation: Any, space: gym.Space) -> bool:
    """Whether this is an observation with an info, and not an element of a space of such tuples."""
    if not (isinstance(observation, tuple) and observation and isinstance(observation[-1], dict)):
        return False
    return not (isinstance(space, gym.spaces.Tuple) and isinstance(space.spaces[-1], gym.spaces.Dict))


def _are_flattened(entries: tuple[Entry, ...], action: ActionSpace) -> bool:
    """Whether observations become vectors by flattening. A single Box, or Discrete with discrete actions, stays as it is."""
    space = entries[0].space
    if len(entries) == 1:
        return not isinstance(space, Box) and not (isinstance(space, Discrete) and not isinstance(action, Box))
    return True


def image_entry(entries: tuple[Entry, ...]) -> Entry | None:
    """The image among the entries of an observation that has other entries too. Raises if there are several, or not of bytes."""
    images = [entry for entry in entries if isinstance(entry.space, Box) and _image(entry.space, 1, 1, 1)]
    if len(entries) == 1 or not images:
        return None
    first, *others = images
    names = " and ".join(repr("/".join(map(str, entry.path))) for entry in images)
    hint = "keep one of them with gymnasium.wrappers.FilterObservation, or flatten all with FlattenObservation"
    if others:
        raise UnsupportedSpace(
            f"observations have the images {names}, but only one image beside other entries is supported: {hint}"
        )
    if first.space.dtype != np.uint8:
        raise UnsupportedSpace(f"the image {names} beside other entries holds {first.space.dtype}, but must be of bytes: {hint}")
    return first


def with_image_first(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """The entries, an image before all others."""
    first = image_entry(entries)
    return entries if first is None else (first, *(entry for entry in entries if entry is not first))


def _seen(entry: Entry, flattening: Flattening | None, picture: Entry | None) -> Box | Discrete:
    """The space of observations once they are flattened; the pixels of an image are bytes."""
    if flattening and picture:
        low, high = (np.full(flattening.size, sign * np.inf, np.float32) for sign in (-1, 1))
        low[: picture.size], high[: picture.size] = 0, 255
        return Box(low, high, dtype=np.float32)
    if flattening:
        return Box(-np.inf, np.inf, (flattening.size,), np.float32)
    assert isinstance(entry.space, (Box, Discrete))
    return entry.space


def _layout(observation: Box | Discrete, choices: int, components: int, frames: int) -> Layout:
    """The layout of these observations and actions, with `frames` stacked frames per observation."""
    if isinstance(observation, Discrete):
        return Layout((1,), components, choices, "int32", int(observation.n))
    image = _image(observation, choices, components, frames)
    return image or Layout((int(np.prod(observation.shape)),), components, choices)


def _masked(layout: Layout, first: Entry) -> Layout:
    """The layout of vectors that end with a mask; the first entry may be a numbered state."""
    if first.numbered and isinstance(first.space, Discrete):
        layout = layout._replace(dtype="int32", states=int(first.space.n))
    return layout._replace(masked=True)


def _image(observation: Box, choices: int, components: int, frames: int) -> Layout | None:
    """The layout of these observations if they are images, else None."""
    shape = observation.shape
    if len(shape) == 2 and min(shape) >= LARGE_IMAGE:  # an image with one channel
        shape = (*shape, 1)
    if len(shape) != 3 + (frames > 1 and len(shape) == 4):
        return None
    bytes_or_bits = observation.dtype in (np.uint8, np.bool_)
    image = Layout(shape, components, choices, str(observation.dtype) if bytes_or_bits else "float32", frames=frames)
    # A small Box of floats need not be an image, and a convolution needs a minimum size.
    return image if image.large_image or (bytes_or_bits and min(image.image[:2]) >= SMALLEST_IMAGE) else None
