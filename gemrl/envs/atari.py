"""Atari and MinAtar: how their environments are made, and how the state of an Atari game is kept.

Atari is preprocessed as the field does it: 84 x 84 grey, every action held for four frames of which the last two are joined by
their maximum, stacks of four, 1 to 30 random no-ops at the start, lives are not episodes, and a cap of 108,000 frames that is a
time limit, not a death. Rewards stay raw here; recipes clip them for learning.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import (
    AtariPreprocessing,
    FrameStackObservation,
    OrderEnforcing,
    PassiveEnvChecker,
    StickyAction,
    TimeLimit,
)

from gemrl.core.env_names import STICKY
from gemrl.core.snapshot import Snapshot, fit

STACK = 4

KEPT = (StickyAction, TimeLimit, OrderEnforcing, PassiveEnvChecker)
"""Wrappers between a game and its preprocessing whose state is kept; the last two have none."""


def make_atari(env_id: str, **kwargs: Any) -> gym.Env:
    """An Atari game; actions are not sticky unless `repeat_action_probability` says so.

    They are made sticky here, frame by frame, and not by the emulator: its own state does not hold the action that it repeats.
    """
    import ale_py

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    chance = kwargs.pop(STICKY, 0.0)
    chosen: dict[str, Any] = {STICKY: 0.0, "frameskip": 1, "obs_type": "grayscale"} | kwargs
    env = gym.make(env_id, disable_env_checker=True, **chosen)
    env = StickyAction(env, chance) if chance else env
    return FrameStackObservation(AtariPreprocessing(env), STACK)


def make_minatar(env_id: str, **kwargs: Any) -> gym.Env:
    """A game of MinAtar, by an id such as MinAtar/Breakout-v1."""
    return _FirstAction(gym.make(env_id, disable_env_checker=True, **kwargs))


class _FirstAction(gym.Wrapper):
    """An episode that does not know the last action of the one before: MinAtar's actions are sticky beyond its ends."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.unwrapped.game.last_action = 0  # type: ignore[attr-defined]
        return self.env.reset(seed=seed, options=options)


class AtariState:
    """The whole state of a game, so that it can go on without being played again from its start.

    A game is seeded once: seeding it anew for every episode would load its cartridge each time.
    """

    def __init__(self, env: FrameStackObservation) -> None:
        assert isinstance(env.env, AtariPreprocessing)
        self._stack, self._screen, self._game = env, env.env, env.unwrapped
        self._sticky = [wrapper for wrapper in _wrappers(env.env.env) if isinstance(wrapper, StickyAction)]
        self._limits = [wrapper for wrapper in _wrappers(env.env.env) if isinstance(wrapper, TimeLimit)]

    def snapshot(self) -> Snapshot:
        """The game, its random generators, and the images that wrappers hold."""
        state = self._game.clone_state(include_rng=True).serialize()  # type: ignore[attr-defined]
        arrays = {
            "game": np.frombuffer(state, np.uint8),
            "screens": np.stack(self._screen.obs_buffer),
            "stack": np.stack(self._stack.obs_queue),
        }
        screen = {"lives": int(self._screen.lives), "game_over": bool(self._screen.game_over)}
        facts: dict[str, Any] = {"noops": self._game.np_random.bit_generator.state, **screen}
        for sticky in self._sticky:
            if sticky.last_action is not None:
                facts["last_action"] = int(sticky.last_action)
        if self._limits:
            facts["elapsed"] = [limit._elapsed_steps for limit in self._limits]
        return Snapshot(facts, arrays)

    def restore(self, saved: Snapshot) -> None:
        """Puts a game that was reset into the state of a snapshot."""
        import ale_py

        arrays = saved.arrays
        for name, now in self.snapshot().arrays.items():
            fit(name, arrays[name], arrays[name].shape if name == "game" else now.shape, np.uint8)
        self._game.restore_state(ale_py.ALEState(arrays["game"].tobytes()))  # type: ignore[attr-defined]
        self._game.np_random.bit_generator.state = saved.facts["noops"]
        for sticky in self._sticky:
            sticky.last_action = saved.facts.get("last_action")
        for limit, elapsed in zip(self._limits, saved.facts.get("elapsed", ()), strict=False):
            limit._elapsed_steps = int(elapsed)  # type: ignore[assignment]
        self._screen.obs_buffer = list(np.array(arrays["screens"]))
        self._screen.lives = int(saved.facts.get("lives", self._screen.lives))
        self._screen.game_over = bool(saved.facts.get("game_over", False))
        self._stack.obs_queue = deque(np.array(arrays["stack"]), maxlen=self._stack.stack_size)


def atari_state(env: gym.Env) -> AtariState | None:
    """The keeper of an Atari game's state, if it is preprocessed and stacked as `make_atari` does it."""
    if not (isinstance(env, FrameStackObservation) and isinstance(env.env, AtariPreprocessing)):
        return None
    known = all(isinstance(wrapper, KEPT) for wrapper in _wrappers(env.env.env))
    return AtariState(env) if known and hasattr(env.unwrapped, "clone_state") else None


def _wrappers(env: gym.Env) -> Iterator[gym.Wrapper]:
    """The wrappers around a game, from the outside."""
    while isinstance(env, gym.Wrapper):
        yield env
        env = env.env
