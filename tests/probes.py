"""Probe environments: each tests one ability of an agent, and its values are known in closed form."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np


class Probe(gym.Env):
    """One observation in [-1, 1] and one action in [-2, 2]; subclasses define what a step does."""

    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Box(-2, 2, (1,))
    metadata = {"render_modes": []}  # noqa: RUF012, as gymnasium declares it

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        self.seen = self.first()
        return self.seen, {}

    def first(self) -> np.ndarray:
        return np.zeros(1, np.float32)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.time += 1
        return self.answer(float(action[0]))

    def answer(self, action: float) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        raise NotImplementedError


class Constant(Probe):
    """Reward 1, then termination: Q = 1."""

    def answer(self, action: float) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return self.seen, 1.0, True, False, {}


class ObservationDependent(Probe):
    """Reward is the observation, +1 or -1: Q(s) = s."""

    def first(self) -> np.ndarray:
        return self.np_random.choice([-1.0, 1.0], 1).astype(np.float32)

    def answer(self, action: float) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return self.seen, float(self.seen[0]), True, False, {}


class Delayed(Probe):
    """Two steps, reward 1 on the second: Q(0) = gamma, Q(1) = 1."""

    def answer(self, action: float) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return np.ones(1, np.float32), float(self.time == 2), self.time == 2, False, {}


class ActionDependent(Probe):
    """Reward -(action - 1)^2: the best action is 1, half of the bound, with Q = 0."""

    def answer(self, action: float) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return self.seen, -((action - 1.0) ** 2), True, False, {}


class Truncated(Probe):
    """Reward 1 forever, but each episode is truncated after 3 steps: Q = 1 / (1 - gamma)."""

    def answer(self, action: float) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return self.seen, 1.0, False, self.time == 3, {}


class Terminated(Probe):
    """Reward 1, termination after 3 steps; the observation shows how many are left: Q = 1, 1 + gamma, 1 + gamma + gamma^2."""

    def first(self) -> np.ndarray:
        return np.ones(1, np.float32)

    def answer(self, action: float) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return np.array([1 - self.time], np.float32), 1.0, self.time == 3, False, {}


class Poisoned(Probe):
    """Returns an invalid observation or reward at step 150."""

    def __init__(self, observation: Any = None, reward: Any = 0.0) -> None:
        self.bad, self.total = (observation, reward), 0

    def answer(self, action: float) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.total += 1
        observation, reward = self.bad if self.total == 150 else (None, 0.0)
        return self.seen if observation is None else observation, reward, False, self.time == 20, {}


class Raising(Probe):
    """Raises at step 150."""

    total = 0

    def answer(self, action: float) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.total += 1
        if self.total == 150:
            raise ZeroDivisionError("the motor is off")
        return self.seen, 0.0, False, self.time == 20, {}


class Endless(Probe):
    """Reward 1 forever; episodes never end."""

    def answer(self, action: float) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return self.seen, 1.0, False, False, {}


class Varied(gym.ObservationWrapper):
    """A probe with a second observation, which is random and means nothing: BatchNorm needs minibatches that vary."""

    def __init__(self, env: Probe) -> None:
        super().__init__(env)
        self.observation_space = gym.spaces.Box(-1, 1, (2,))

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return np.append(observation, self.np_random.uniform(-1, 1)).astype(np.float32)


class Choices(gym.ActionWrapper):
    """A probe with three discrete actions: -1, 1 and 0."""

    VALUES = (-1.0, 1.0, 0.0)

    def __init__(self, env: Probe) -> None:
        super().__init__(env)
        self.action_space = gym.spaces.Discrete(3)

    def action(self, action: int) -> np.ndarray:
        return np.array([self.VALUES[action]], np.float32)
