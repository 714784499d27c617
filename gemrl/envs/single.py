"""One environment to train in, whose episodes are seeded one by one, so that a running one can be played again."""

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
    """One environment to train in, as a batch of one; every episode is reset with a seed of its own."""

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
        self._actions = bytearray()  # of the running episode, which may never end
        self._before = _statistics(env)  # of wrappers, when the running episode began
        layout = self.spaces.layout
        self._observation = np.zeros(layout.observation, layout.dtype)
        self._game = atari_state(env)

    def reset(self, *, anew: bool = False) -> np.ndarray:
        """Begins a new episode; its first observation [1, *O]. A game that keeps its state is seeded once, or `anew`."""
        self._total, self._length, self._actions, self._before = 0.0, 0, bytearray(), _statistics(self.env)
        seeded = self._game is None or self.episodes == 0 or anew
        seed = derived_seed(self.seed, self._stream, self.episodes) if seeded else None
        self.episodes += 1
        self._observation = checked_reset(self.env, seed, self.spaces, "reset")
        return self._observation[None]

    def step(self, observation: np.ndarray, action: np.ndarray) -> Step:
        """One step, and the beginning of a new episode if this one ended."""
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
        """Counters, and what it takes to play the running episode again."""
        facts = {"episodes": self.episodes, "steps": self._steps, "total": self._total}
        layout = self.spaces.layout
        actions = np.frombuffer(bytes(self._actions), layout.action_dtype).reshape(-1, layout.action)
        now = {f"{place}, now": value for place, value in _statistics(self.env).items()}
        own = Snapshot(facts, {"actions": actions, "observation": self._observation, **self._before, **now})
        if self._game is None:
            return own
        game = self._game.snapshot()
        return Snapshot(facts | {"game": game.facts}, own.arrays | {f"game.{name}": array for name, array in game.arrays.items()})

    def restore(self, saved: Snapshot) -> None:
        """Goes on with the episodes after those of a snapshot."""
        if self._game is not None and "game" in saved.facts:  # its random generators run on from episode to episode
            self.reset(anew=True)
            self._game.restore(saved.part("game"))
        self._count_on(saved)
        now = {place: saved.arrays.get(f"{place}, now") for place in _learnt(self.env)}
        _set_statistics(self.env, {place: value for place, value in now.items() if value is not None})

    def _count_on(self, saved: Snapshot) -> None:
        self.episodes, self._steps = int(saved.facts["episodes"]), int(saved.facts["steps"])

    def replay(self, saved: Snapshot) -> np.ndarray | None:
        """Plays the running episode of a snapshot again; the observation to act on [1, *O], or None if it came out otherwise."""
        actions = saved.arrays["actions"]
        layout = self.spaces.layout
        fit("actions", actions, (len(actions), layout.action), layout.action_dtype)
        if saved.arrays.keys() != self.snapshot().arrays.keys():
            return None
        if self._game is not None:
            self.restore(saved)
            self._total, self._length, self._actions = float(saved.facts["total"]), len(actions), bytearray(actions.tobytes())
            self._observation = fit("observation", saved.arrays["observation"], layout.observation, layout.dtype)
            return self._observation[None]
        self._count_on(saved)
        self.episodes -= 1
        _set_statistics(self.env, saved.arrays)
        try:
            self.reset()
            for action in actions:
                if self.step(self._observation[None], action[None]).ended:
                    return None
        except EnvironmentFault:
            return None
        self._count_on(saved)
        same = self._total == saved.facts["total"] and np.array_equal(self._observation, saved.arrays["observation"])
        return self._observation[None] if same else None


def _learnt(env: gym.Env) -> dict[str, tuple[Any, str]]:
    """Where wrappers keep what they learn over episodes, such as the scale of observations: an owner and its attribute."""
    places: dict[str, tuple[Any, str]] = {}
    depth = 0
    while isinstance(env, gym.Wrapper):
        for name, value in sorted(vars(env).items()):
            if isinstance(value, RunningMeanStd):
                places |= {f"wrapper {depth}.{name}.{part}": (value, part) for part in ("mean", "var", "count")}
            elif name == "discounted_reward":
                places[f"wrapper {depth}.{name}"] = env, name
        env, depth = env.env, depth + 1
    return places


def _statistics(env: gym.Env) -> dict[str, np.ndarray]:
    """All of it, as arrays."""
    return {place: np.array(getattr(owner, name)) for place, (owner, name) in _learnt(env).items()}


def _set_statistics(env: gym.Env, arrays: Mapping[str, np.ndarray]) -> None:
    """Puts back what these arrays hold of it."""
    for place, (owner, name) in _learnt(env).items():
        if place not in arrays:
            continue
        # A Python float stays one: numpy computes with it in the precision of whatever it meets.
        plain = isinstance(getattr(owner, name), (int, float))
        setattr(owner, name, arrays[place].item() if plain else arrays[place])
