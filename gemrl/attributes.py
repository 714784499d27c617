"""What people, and other libraries, look up in a model."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from gemrl.agents import LearningAgent
from gemrl.peers import as_vec_env, vec_normalize
from gemrl.recipes import AnyRecipe
from gemrl.spaces import Spaces
from gemrl.vector import AnyTask


class Attributes:
    """Names that users of Stable-Baselines3 know, and the memory."""

    recipe: AnyRecipe
    agent: LearningAgent
    spaces: Spaces
    _task: AnyTask | None

    @property
    def observation_space(self) -> gym.spaces.Box | gym.spaces.Discrete:
        """What an environment shows."""
        return self.spaces.observation_space

    @property
    def action_space(self) -> gym.spaces.Box | gym.spaces.Discrete:
        """What an environment takes."""
        return self.spaces.action_space

    @property
    def memory(self) -> Any:
        """The episodic memory, to look into; rows that wait on the host enter it first."""
        return self.agent.memory

    @property
    def gamma(self) -> float:
        """The discount factor."""
        return self.recipe.gamma

    @property
    def n_envs(self) -> int:
        """Environments stepped together."""
        return self._task.lanes if self._task else 1

    @property
    def env(self) -> Any:
        """The environment it trains in."""
        return self._task.env if self._task else None

    def get_env(self) -> Any:
        """The environment it trains in; where Stable-Baselines3 is in use, as a VecEnv, which its callbacks ask for."""
        return as_vec_env(self._task)

    def get_vec_normalize_env(self) -> Any:
        """The VecNormalize of Stable-Baselines3 around its environment, if there is one."""
        return vec_normalize(self._task)
