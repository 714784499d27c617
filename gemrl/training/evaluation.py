"""Evaluates a policy on separate environments: its returns, and the estimation error of its values."""

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

MAX_UNVALUED = 1023
"""Steps of an episode whose observations are kept before their values are computed."""


@dataclass(frozen=True)
class Evaluation:
    """The results of several evaluation episodes."""

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    capped: int
    """Number of episodes that were cut off at the cap."""
    estimation_error: float
    """Mean of Q(s, a) minus the observed discounted return, over all steps."""

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
            raise BadValue("the function that makes evaluation environments must return a new one each time")
        self._seeds = _seeds(seed, episodes)
        self.spaces = Spaces.of(self._envs[0])
        self._cap = cap

    def __call__(self, agent: Agent) -> Evaluation:
        """Returns and estimation error of the deterministic policy."""
        episodes = [_Episode(env, seed, self.spaces, agent) for env, seed in zip(self._envs, self._seeds, strict=True)]
        return _summary(episodes, _play(agent, episodes, stream(self._seeds[0], "evaluation actions"), self._cap))

    def close(self) -> None:
        """Closes the environments."""
        for env in self._envs:
            env.close()


def evaluate_in(env: gym.Env, agent: Agent, *, episodes: int, seed: int, cap: int = EPISODE_CAP) -> Evaluation:
    """The same as by an Evaluator, but with one environment, which plays the episodes one after the other."""
    seeds, spaces, played, capped = _seeds(seed, episodes), Spaces.of(env), list[_Episode](), 0
    rng = stream(seeds[0], "evaluation actions")
    for number in seeds:
        played.append(_Episode(env, number, spaces, agent))
        capped += _play(agent, played[-1:], rng, cap)
    return _summary(played, capped)


def _seeds(seed: int, episodes: int) -> list[int]:
    """The seeds of evaluation episodes."""
    return [derived_seed(seed, "evaluation episode", number) for number in range(episodes)]


def _play(agent: Agent, episodes: list[_Episode], rng: np.random.Generator, cap: int) -> int:
    """Plays episodes to their ends, all as one batch; returns how many were cut off after `cap` steps."""
    running, layout = episodes, episodes[0].spaces.layout
    for _ in range(cap):
        observation = np.stack([episode.observations[-1] for episode in running])
        actions = agent.act(observation)
        if agent.recipe.evaluation_eps:
            random = rng.random((len(actions), 1)) < agent.recipe.evaluation_eps
            drawn = layout.random_actions(len(actions), rng, layout.split(observation)[1])
            actions = np.where(random, drawn, actions)
        for episode, action in zip(running, actions, strict=True):
            episode.step(action)
        running = [episode for episode in running if not episode.over]
        if not running:
            break
    return len(running)


def _summary(episodes: list[_Episode], capped: int) -> Evaluation:
    """The results of episodes, of which some were cut off at the cap."""
    errors = np.concatenate([episode.estimation_errors() for episode in episodes])
    return Evaluation(
        tuple(float(sum(episode.rewards)) for episode in episodes),
        tuple(len(episode.rewards) for episode in episodes),
        capped,
        float(errors.mean()),
    )


class _Episode:
    """One evaluation episode with its observations, actions and rewards."""

    def __init__(self, env: gym.Env, seed: int, spaces: Spaces, agent: Agent) -> None:
        self._env, self.spaces, self._agent = env, spaces, agent
        self.observations = [checked_reset(env, seed, spaces, "reset for an evaluation")]
        self.actions: list[np.ndarray] = []
        self.rewards: list[float] = []
        self._values: list[np.ndarray] = []  # of the steps that are no longer kept
        self.terminated = self.over = False

    def step(self, action: np.ndarray) -> None:
        """Takes one action [A]."""
        outcome = checked_step(self._env, action, self.spaces, f"step {len(self.rewards) + 1} of an evaluation")
        self.observations.append(outcome.observation)
        self.actions.append(action)
        self.rewards.append(outcome.reward)
        self.terminated, self.over = outcome.terminated, outcome.terminated or outcome.truncated
        if len(self.actions) == MAX_UNVALUED:
            self._compute_values()

    def _compute_values(self) -> None:
        """Computes values of the kept steps, then keeps only the newest observation: episodes may be long and images large."""
        self._values.append(self._agent.values(np.stack(self.observations[: len(self.actions)]), np.stack(self.actions)))
        self.observations, self.actions = self.observations[-1:], []

    def estimation_errors(self) -> np.ndarray:
        """Q(s_t, a_t) - G_t for each visited t [T]; a time limit or the cap adds gamma^(T-t) Q(s_T, pi(s_T)) to G_t."""
        self.actions.append(self._agent.act(self.observations[-1][None])[0])
        self._compute_values()
        q = np.concatenate(self._values)
        bootstrap = 0.0 if self.terminated else float(q[-1])
        bound = self._agent.recipe.reward_bound  # values are of clipped rewards if training clips them
        return q[:-1] - discounted_returns(np.clip(self.rewards, -bound, bound), self._agent.gamma, bootstrap)
