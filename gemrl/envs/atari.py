"""Atari and MinAtar: creating their environments, and saving the state of an Atari game.

Atari has the usual preprocessing: 84 x 84 greyscale, a frame skip of four with the maximum over the last two frames, stacks of
four frames, and 1 to 30 random no-ops at the start. Losing a life does not end an episode. The cap of 108,000 frames is a time
limit (truncation), not a terminal state. Rewards are not clipped here; recipes clip them for training.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
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
"""Frames per observation."""

RESTORABLE = (StickyAction, TimeLimit, OrderEnforcing, PassiveEnvChecker)
"""Wrappers between the game and its preprocessing whose state can be saved; the last two have none."""


def make_atari(env_id: str, **kwargs: Any) -> gym.Env:
    """An Atari game. Actions are sticky only if `repeat_action_probability` is given.

    A wrapper makes them sticky, frame by frame, and not the emulator, whose saved state lacks the action to repeat.
    """
    import ale_py

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    probability = kwargs.pop(STICKY, 0.0)
    arguments: dict[str, Any] = {STICKY: 0.0, "frameskip": 1, "obs_type": "grayscale"} | kwargs
    env = gym.make(env_id, disable_env_checker=True, **arguments)
    env = StickyAction(env, probability) if probability else env
    return FrameStackObservation(AtariPreprocessing(env), STACK)


def make_minatar(env_id: str, **kwargs: Any) -> gym.Env:
    """A MinAtar game, with an id such as MinAtar/Breakout-v1."""
    return _ProperReset(gym.make(env_id, disable_env_checker=True, **kwargs))


class _ProperReset(gym.Wrapper, RecordConstructorArgs):
    """What MinAtar's reset leaves out: it keeps the last action, which its sticky actions would repeat, and `np_random`."""

    def __init__(self, env: gym.Env) -> None:
        RecordConstructorArgs.__init__(self)  # so that gymnasium can make such an environment from its spec
        super().__init__(env)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.unwrapped.game.last_action = 0  # type: ignore[attr-defined]
        gym.Env.reset(self.unwrapped, seed=seed)  # seeds np_random, as gymnasium's check_env demands; the games do not use it
        return self.env.reset(seed=seed, options=options)


class AtariState:
    """Saves and restores the complete state of a game, so that its episode need not be replayed from the start.

    A game is seeded only once: seeding it for every episode would reload its ROM each time.
    """

    def __init__(self, env: FrameStackObservation) -> None:
        assert isinstance(env.env, AtariPreprocessing)
        self._stack, self._screen, self._game = env, env.env, env.unwrapped
        self._sticky = [wrapper for wrapper in _wrappers(env.env.env) if isinstance(wrapper, StickyAction)]
        self._limits = [wrapper for wrapper in _wrappers(env.env.env) if isinstance(wrapper, TimeLimit)]

    def snapshot(self) -> Snapshot:
        """The game, its random generators, and the frames that wrappers hold."""
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
        """Restores a snapshot into a game that has been reset."""
        import ale_py

        arrays = saved.arrays
        for name, current in self.snapshot().arrays.items():
            fit(name, arrays[name], arrays[name].shape if name == "game" else current.shape, np.uint8)
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
    """The AtariState of an Atari game that is preprocessed and stacked as in `make_atari`; otherwise None."""
    if not (isinstance(env, FrameStackObservation) and isinstance(env.env, AtariPreprocessing)):
        return None
    known = all(isinstance(wrapper, RESTORABLE) for wrapper in _wrappers(env.env.env))
    return AtariState(env) if known and hasattr(env.unwrapped, "clone_state") else None


def _wrappers(env: gym.Env) -> Iterator[gym.Wrapper]:
    """The wrappers around a game, from the outermost inwards."""
    while isinstance(env, gym.Wrapper):
        yield env
        env = env.env
