"""TD3, SAC and DQN of three libraries behind one small protocol: gemrl, Stable-Baselines3 (PyTorch) and SBX (JAX)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import FrameStackObservation

from benchmarks.timing import seconds
from gemrl.algorithms.registry import NetworkRecipe, recipe

ENV, EPISODE = "HalfCheetah-v5", 1000
OBSERVATION, ACTION, STACK, CHOICES = 17, 6, (4, 84, 84), 9


class Screens(gym.Env):
    """Random images and nine actions, like an Atari game; only learning is timed."""

    observation_space = gym.spaces.Box(0, 255, STACK[1:], np.uint8)
    action_space = gym.spaces.Discrete(CHOICES)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        return self.np_random.integers(0, 256, STACK[1:], dtype=np.uint8), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return self.np_random.integers(0, 256, STACK[1:], dtype=np.uint8), 0.0, False, False, {}


@dataclass(frozen=True)
class Contest:
    """The setting in which an algorithm is timed: the size of its buffer, and the rows that fill it before timing starts."""

    buffer: int = 100_000
    filled: int = 20_000
    images: bool = False

    def env(self) -> gym.Env:
        """The environment of the models."""
        from gemrl.envs.making import make

        return FrameStackObservation(Screens(), STACK[0]) if self.images else make(ENV)

    def rows(self) -> list[np.ndarray]:
        """The content of the buffer: observations, actions, rewards and next observations."""
        rng = np.random.default_rng(0)
        if self.images:
            screens = rng.integers(0, 256, (self.filled + STACK[0], *STACK[1:]), dtype=np.uint8)
            stacks = np.moveaxis(np.lib.stride_tricks.sliding_window_view(screens, STACK[0], axis=0), -1, 1)
            return [stacks[:-1], rng.integers(CHOICES, size=(self.filled, 1)), rng.normal(size=self.filled), stacks[1:]]
        states, rewards = rng.normal(size=(2, self.filled, OBSERVATION)), rng.normal(size=self.filled)
        return [states[0], rng.uniform(-1, 1, (self.filled, ACTION)), rewards, states[1]]


CONTESTS = {"td3": Contest(), "sac": Contest(), "dqn": Contest(buffer=2_000, filled=1_000, images=True)}


class Contestant(Protocol):
    """The operations that are timed, on a model with a filled buffer. Each call returns when all its work is done."""

    def gradient_steps(self, per_call: int, calls: int) -> None:
        """Calls the training function of the library `calls` times, with `per_call` gradient steps each."""

    def environment_steps(self, count: int) -> None:
        """Runs the whole training loop, with one gradient step after each environment step."""


class Ours:
    """gemrl: a round of compiled gradient steps on a memory that lives on the device."""

    def __init__(self, algo: str, threads: int) -> None:
        # `threads` is not needed: XLA uses the processors that this process may use.
        self._algo = algo
        self._models: dict[int, Any] = {}
        self._learned = 0

    def _model(self, gradient_steps: int) -> Any:
        """The model with this number of gradient steps per round; a round is compiled for it, so each number has a model."""
        if gradient_steps not in self._models:
            from gemrl.training.models import MODELS

            contest = CONTESTS[self._algo]
            fields: dict[str, Any] = {"buffer_size": contest.buffer, "learning_starts": 0, "gradient_steps": gradient_steps}
            model = MODELS[self._algo](contest.env(), seed=0, device="cpu", **fields)
            _fill(model.agent, contest)
            self._models[gradient_steps] = model
        return self._models[gradient_steps]

    def gradient_steps(self, per_call: int, calls: int) -> None:
        agent = self._model(per_call).agent
        for _ in range(calls):
            self._learned += 1
            agent.learn(self._learned)

    def environment_steps(self, count: int) -> None:
        self._model(1).learn(count, reset_num_timesteps=False)


def _fill(agent: Any, contest: Contest) -> None:
    """Fills our memory with random rows, in episodes cut off by a time limit."""
    from gemrl.core.steps import Transition

    no, yes = np.zeros(1, bool), np.ones(1, bool)
    for number, (state, action, reward, following) in enumerate(zip(*contest.rows(), strict=True)):
        cut = yes if number % EPISODE == EPISODE - 1 else no
        agent.observe(Transition(state[None], action[None], reward[None], no, cut, following[None], yes))


class Theirs:
    """Stable-Baselines3 or SBX, which share an interface, with the hyperparameters of our recipe."""

    def __init__(self, library: str, algo: str, threads: int) -> None:
        import importlib

        import torch
        from stable_baselines3.common.logger import Logger
        from stable_baselines3.common.noise import NormalActionNoise

        from gemrl.envs.spaces import Spaces

        torch.set_num_threads(threads)
        contest = CONTESTS[algo]
        env = contest.env()
        ours = recipe(algo).for_environment("", Spaces.of(env).layout)
        assert isinstance(ours, NetworkRecipe)
        shared = ("learning_rate", "batch_size", "gamma", *(() if contest.images else ("tau",)))
        fields: dict[str, Any] = {name: getattr(ours, name) for name in shared}
        fields |= {"train_freq": 1, "gradient_steps": 1, "learning_starts": 0, "buffer_size": contest.buffer}
        fields |= {
            "seed": 0,
            "device": "cpu",
            "policy_kwargs": {} if contest.images else {"net_arch": list(ours.settable()["net_arch"])},
        }
        if algo == "td3":
            fields |= {"action_noise": NormalActionNoise(np.zeros(ACTION), 0.1 * np.ones(ACTION)), "policy_delay": 2}
        kind = getattr(importlib.import_module(library), algo.upper())
        self._model = kind("CnnPolicy" if contest.images else "MlpPolicy", env, **fields)
        self._model.set_logger(Logger(None, []))
        self._batch = ours.batch_size
        no, yes = np.zeros(1, bool), np.ones(1, bool)
        for number, (state, action, reward, following) in enumerate(zip(*contest.rows(), strict=True)):
            cut = number % EPISODE == EPISODE - 1
            info = [{"TimeLimit.truncated": cut}]
            self._model.replay_buffer.add(state[None], following[None], action[None], reward[None], yes if cut else no, info)

    def gradient_steps(self, per_call: int, calls: int) -> None:
        for _ in range(calls):
            self._model.train(per_call, self._batch)

    def environment_steps(self, count: int) -> None:
        self._model.learn(count, reset_num_timesteps=False)


CONTESTANTS: dict[str, Callable[[str, int], Contestant]] = {
    "gemrl": Ours,
    "Stable-Baselines3": partial(Theirs, "stable_baselines3"),
    "SBX": partial(Theirs, "sbx"),
}

_here: list[Contestant] = []
"""The only contestant of this process."""


def build(name: str, algo: str, threads: int) -> None:
    """Builds the contestant of this process."""
    _here[:] = [CONTESTANTS[name](algo, threads)]


def timed(task: str, *numbers: int) -> float:
    """The seconds that the contestant of this process takes for a task."""
    return seconds(partial(getattr(_here[0], task), *numbers))
