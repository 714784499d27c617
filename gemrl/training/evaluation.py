"""How good is the policy, and how wrong are its values: deterministic episodes on environments of their own."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium as gym
import numpy as np

from gemrl.agents.protocol import Agent
from gemrl.algorithms.returns import discounted_returns
from gemrl.core.exceptions import BadValue
from gemrl.core.seeding import derived_seed, stream
from gemrl.core.steps import EPISODE_CAP
from gemrl.envs.checking import checked_reset, checked_step
from gemrl.envs.making import EnvironmentMaker
from gemrl.envs.spaces import Spaces

KEPT = 1023
"""Steps of an episode whose observations are kept until they are valued."""


@dataclass(frozen=True)
class Evaluation:
    """The outcome of a number of episodes."""

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    capped: int
    """Episodes that were cut at the cap."""
    estimation_error: float

    @property
    def return_mean(self) -> float:
        return float(np.mean(self.returns))

    @property
    def return_std(self) -> float:
        return float(np.std(self.returns))

    @property
    def length_mean(self) -> float:
        return float(np.mean(self.lengths))


class Evaluator:
    """Evaluates agents on the same `episodes` episodes each time, all stepped together as one batch."""

    def __init__(self, make: EnvironmentMaker, *, episodes: int = 10, seed: int = 0, cap: int = EPISODE_CAP) -> None:
        self._envs = [make() for _ in range(episodes)]
        if len({id(env.unwrapped) for env in self._envs}) < episodes:
            raise BadValue("a function that makes environments for evaluations must make a new one each time")
        self._seeds = [derived_seed(seed, "evaluation episode", number) for number in range(episodes)]
        self.spaces = Spaces.of(self._envs[0])
        self._cap = cap

    def __call__(self, agent: Agent) -> Evaluation:
        """Returns and estimation error of the deterministic policy."""
        episodes = [_Recording(env, seed, self.spaces, agent) for env, seed in zip(self._envs, self._seeds, strict=True)]
        running, luck = episodes, stream(self._seeds[0], "evaluation actions")
        for _ in range(self._cap):
            actions = agent.act(np.stack([episode.observations[-1] for episode in running]))
            if agent.recipe.evaluation_eps:
                random = luck.random((len(actions), 1)) < agent.recipe.evaluation_eps
                actions = np.where(random, self.spaces.layout.random_actions(len(actions), luck), actions)
            for episode, action in zip(running, actions, strict=True):
                episode.step(action)
            running = [episode for episode in running if not episode.over]
            if not running:
                break
        errors = np.concatenate([episode.estimation_errors() for episode in episodes])
        return Evaluation(
            tuple(float(sum(episode.rewards)) for episode in episodes),
            tuple(len(episode.rewards) for episode in episodes),
            len(running),
            float(errors.mean()),
        )

    def close(self) -> None:
        """Closes the environments."""
        for env in self._envs:
            env.close()


class _Recording:
    """One evaluation episode and what was seen in it."""

    def __init__(self, env: gym.Env, seed: int, spaces: Spaces, agent: Agent) -> None:
        self._env, self._spaces, self._agent = env, spaces, agent
        self.observations = [checked_reset(env, seed, spaces, "reset for an evaluation")]
        self.actions: list[np.ndarray] = []
        self.rewards: list[float] = []
        self._values: list[np.ndarray] = []  # of what was seen and is no longer kept
        self.terminated = self.over = False

    def step(self, action: np.ndarray) -> None:
        """Takes one action [A]."""
        outcome = checked_step(self._env, action, self._spaces, f"step {len(self.rewards) + 1} of an evaluation")
        self.observations.append(outcome.observation)
        self.actions.append(action)
        self.rewards.append(outcome.reward)
        self.terminated, self.over = outcome.terminated, outcome.terminated or outcome.truncated
        if len(self.actions) == KEPT:
            self._value()

    def _value(self) -> None:
        """Values what is kept, and forgets all of it but the newest observation: episodes may be long and images large."""
        self._values.append(self._agent.values(np.stack(self.observations[: len(self.actions)]), np.stack(self.actions)))
        self.observations, self.actions = self.observations[-1:], []

    def estimation_errors(self) -> np.ndarray:
        """Q(s_t, a_t) - G_t for each visited t [T]; a time limit or the cap adds gamma^(T-t) Q(s_T, pi(s_T)) to G_t."""
        self.actions.append(self._agent.act(self.observations[-1][None])[0])
        self._value()
        q = np.concatenate(self._values)
        bootstrap = 0.0 if self.terminated else float(q[-1])
        bound = self._agent.recipe.reward_bound  # values are of rewards as they were learnt
        return q[:-1] - discounted_returns(np.clip(self.rewards, -bound, bound), self._agent.gamma, bootstrap)
