"""Masks of allowed actions: the entry `action_mask` of a Dict observation, or what an environment puts into its infos.

A mask has one number for each discrete action: 0 if the action is not allowed. It is not part of what networks see, but follows
it in the arrays that agents get, and so it is stored with every row.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Dict, Discrete, MultiBinary
from gymnasium.utils import RecordConstructorArgs

from gemrl.core.exceptions import BadValue, UnsupportedSpace
from gemrl.envs.actions import actions_of, check_actions
from gemrl.envs.flattening import Entry

MASK = "action_mask"
"""The key of a mask."""


def is_mask(entry: Entry) -> bool:
    """Whether an entry is the mask of an observation, if actions are discrete."""
    return entry.path == (MASK,)


def with_mask_last(entries: tuple[Entry, ...], choices: int) -> tuple[Entry, ...]:
    """The entries, the mask of the `choices` discrete actions behind all others. A single numbered state stays a number."""
    masks = [entry for entry in entries if is_mask(entry)]
    if not masks or not choices:
        return entries
    (mask,) = masks
    if mask.size != choices or mask.categories is not None:
        have = f"{mask.size} numbers" if mask.categories is None else f"a {type(mask.space).__name__} space"
        raise UnsupportedSpace(f"{MASK} must be a MultiBinary or Box of {choices}, one number for each action, not {have}")
    others = tuple(entry for entry in entries if not is_mask(entry))
    if not others:
        raise UnsupportedSpace(f"observations must contain something besides {MASK}")
    if len(others) == 1 and isinstance(others[0].space, Discrete):
        others = (others[0]._replace(numbered=True),)
    return (*others, mask)


class ActionMasks(gym.Wrapper, RecordConstructorArgs):
    """Adds the mask in an environment's infos, by default info["action_mask"], to its observations."""

    def __init__(self, env: gym.Env, key: str = MASK) -> None:
        RecordConstructorArgs.__init__(self, key=key)
        super().__init__(env)
        self._key, self._choices = key, actions_of(check_actions(env.action_space)).choices
        if not self._choices:
            raise UnsupportedSpace("ActionMasks is for discrete actions, but those of this environment are continuous")
        inner = env.observation_space
        self._joins = isinstance(inner, Dict)
        entries = dict(inner.spaces) if isinstance(inner, Dict) else {"observation": inner}
        self.observation_space = Dict({**entries, MASK: MultiBinary(self._choices)})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return self._with_mask(observation, info), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._with_mask(observation, info), reward, terminated, truncated, info

    def _with_mask(self, observation: Any, info: dict[str, Any]) -> dict[str, Any]:
        """The observation with the mask in the info. Raises if there is none, or if it has another size."""
        if self._key not in info:
            raise BadValue(f"the info has no {self._key!r}, which ActionMasks needs")
        mask = np.asarray(info[self._key])
        if mask.size != self._choices:
            raise BadValue(f"{self._key!r} in the info has {mask.size} numbers, but there are {self._choices} actions")
        entries = observation if self._joins else {"observation": observation}
        return {**entries, MASK: (mask.reshape(-1) != 0).astype(np.int8)}
