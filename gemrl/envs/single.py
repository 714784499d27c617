"""One environment to train in. Each episode has its own seed, so that a running episode can be replayed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers.utils import RunningMeanStd

from gemrl.core.exceptions import EnvironmentFault
from gemrl.core.seeding import derived_seed
from gemrl.core.snapshot import Snapshot, fit
from gemrl.core.steps import EpisodeResult, Step, Transition
from gemrl.envs.atari import atari_state
from gemrl.envs.checking import checked_reset, checked_step
from gemrl.envs.spaces import Spaces


class Task:
    """One environment to train in, as a batch of one. Every episode is reset with its own seed."""

    lanes = 1

    def close(self) -> None:
        """Closes the environment."""
        self.env.close()

    def __init__(self, env: gym.Env, seed: int, lane: int = 0) -> None:
        self.env, self.seed = env, seed
        self._stream = f"training episode of lane {lane}" if lane else "training episode"
        self.spaces = Spaces.of(env)
        self.episodes = 0
        self._steps = 0
        self._total, self._length = 0.0, 0  # of the running episode
        self._actions = bytearray()  # of the running episode, compact since it may be long
        self._statistics_before = _statistics(env)  # of wrappers, when the running episode began
        layout = self.spaces.layout
        self._observation = np.zeros(layout.observation, layout.dtype)
        self._game = atari_state(env)

    def reset(self, *, reseed: bool = False) -> np.ndarray:
        """Begins a new episode; returns its first observation [1, *O]. An Atari game is seeded once, or again with `reseed`."""
        self._total, self._length, self._actions, self._statistics_before = 0.0, 0, bytearray(), _statistics(self.env)
        seeded = self._game is None or self.episodes == 0 or reseed
        seed = derived_seed(self.seed, self._stream, self.episodes) if seeded else None
        self.episodes += 1
        self._observation = checked_reset(self.env, seed, self.spaces, "reset")
        return self._observation[None]

    def step(self, observation: np.ndarray, action: np.ndarray) -> Step:
        """Takes one step, and begins a new episode if this one ended."""
        self._steps += 1
        outcome = checked_step(self.env, action[0], self.spaces, f"step {self._steps}")
        self._observation = outcome.observation
        after = outcome.observation[None]
        transition = Transition(
            observation,
            action,
            np.array([outcome.reward], np.float32),
            np.array([outcome.terminated]),
            np.array([outcome.truncated]),
            after,
            np.ones(1, bool),
        )
        self._total += outcome.reward
        self._length += 1
        self._actions += np.asarray(action[0], self.spaces.layout.action_dtype).tobytes()
        if not (outcome.terminated or outcome.truncated):
            return Step(transition, after, [], [outcome.info])
        ended = EpisodeResult(self._total, self._length)
        return Step(transition, self.reset(), [ended], [outcome.info])

    def snapshot(self) -> Snapshot:
        """Counters, and everything needed to replay the running episode."""
        facts = {"episodes": self.episodes, "steps": self._steps, "total": self._total}
        layout = self.spaces.layout
        actions = np.frombuffer(bytes(self._actions), layout.action_dtype).reshape(-1, layout.action)
        now = {f"{key}, now": value for key, value in _statistics(self.env).items()}
        own = Snapshot(facts, {"actions": actions, "observation": self._observation, **self._statistics_before, **now})
        if self._game is None:
            return own
        game = self._game.snapshot()
        return Snapshot(facts | {"game": game.facts}, own.arrays | {f"game.{name}": array for name, array in game.arrays.items()})

    def restore(self, saved: Snapshot) -> None:
        """Continues with the episode after the one that was running in the snapshot."""
        if self._game is not None and "game" in saved.facts:  # its random generators are not seeded for each episode
            self.reset(reseed=True)
            self._game.restore(saved.part("game"))
        self._set_counters(saved)
        now = {key: saved.arrays.get(f"{key}, now") for key in _running_statistics(self.env)}
        _set_statistics(self.env, {key: value for key, value in now.items() if value is not None})

    def _set_counters(self, saved: Snapshot) -> None:
        self.episodes, self._steps = int(saved.facts["episodes"]), int(saved.facts["steps"])

    def replay(self, saved: Snapshot) -> np.ndarray | None:
        """Replays the running episode of a snapshot; returns the observation to act on [1, *O], or None if the replay differs."""
        actions = saved.arrays["actions"]
        layout = self.spaces.layout
        fit("actions", actions, (len(actions), layout.action), layout.action_dtype)
        if saved.arrays.keys() != self.snapshot().arrays.keys() or saved.facts["episodes"] < 1:
            return None
        if self._game is not None:
            self.restore(saved)
            self._total, self._length, self._actions = float(saved.facts["total"]), len(actions), bytearray(actions.tobytes())
            self._observation = fit("observation", saved.arrays["observation"], layout.observation, layout.dtype)
            return self._observation[None]
        self._set_counters(saved)
        self.episodes -= 1
        _set_statistics(self.env, saved.arrays)
        try:
            self.reset()
            for action in actions:
                if self.step(self._observation[None], action[None]).ended:
                    return None
        except EnvironmentFault:
            return None
        self._set_counters(saved)
        same = self._total == saved.facts["total"] and np.array_equal(self._observation, saved.arrays["observation"])
        return self._observation[None] if same else None


def _running_statistics(env: gym.Env) -> dict[str, tuple[Any, str]]:
    """The object and attribute of each running statistic that wrappers keep, such as NormalizeObservation's mean."""
    statistics: dict[str, tuple[Any, str]] = {}
    depth = 0
    while isinstance(env, gym.Wrapper):
        for name, value in sorted(vars(env).items()):
            if isinstance(value, RunningMeanStd):
                statistics |= {f"wrapper {depth}.{name}.{part}": (value, part) for part in ("mean", "var", "count")}
            elif name == "discounted_reward":
                statistics[f"wrapper {depth}.{name}"] = env, name
        env, depth = env.env, depth + 1
    return statistics


def _statistics(env: gym.Env) -> dict[str, np.ndarray]:
    """The running statistics of an environment's wrappers, as arrays."""
    return {key: np.array(getattr(owner, name)) for key, (owner, name) in _running_statistics(env).items()}


def _set_statistics(env: gym.Env, arrays: Mapping[str, np.ndarray]) -> None:
    """Sets the running statistics that these arrays hold."""
    for key, (owner, name) in _running_statistics(env).items():
        if key not in arrays:
            continue
        # A Python float stays one: numpy then computes in the precision of the other operand.
        plain = isinstance(getattr(owner, name), (int, float))
        setattr(owner, name, arrays[key].item() if plain else arrays[key])
