"""What people, and other libraries, look up in a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from gemrl.agents.protocol import LearningAgent
from gemrl.algorithms.registry import AnyRecipe
from gemrl.core.exceptions import BadValue
from gemrl.core.suggestions import unknown
from gemrl.envs.spaces import Spaces
from gemrl.envs.vector import AnyTask
from gemrl.training.metrics import Metrics
from gemrl.training.pytrees import named_arrays, refilled
from gemrl.training.sb3 import as_vec_env, vec_normalize


class Attributes:
    """Names that users of Stable-Baselines3 know, and the memory."""

    recipe: AnyRecipe
    agent: LearningAgent
    spaces: Spaces
    num_timesteps: int
    _metrics: Metrics
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
    def learning_rate(self) -> float:
        """The step size of Adam; 0 for tables, which have none."""
        return self.recipe.learning_rate

    @property
    def exploration_rate(self) -> float:
        """The share of random actions; 0 where actions are continuous."""
        return self._metrics.row(self.num_timesteps, None).get("rollout/exploration_rate", 0.0)

    @property
    def ep_info_buffer(self) -> list[dict[str, float]]:
        """Return and length of the last hundred episodes, as a Monitor tells them."""
        return [{"r": episode.total, "l": episode.length} for episode in self._metrics.finished]

    def get_parameters(self) -> dict[str, np.ndarray]:
        """Every array that learning changes, networks and optimisers, by name."""
        return named_arrays(self.agent.learner)

    def set_parameters(self, parameters: Mapping[str, Any], exact_match: bool = True) -> None:
        """Takes over arrays by name; all of them are wanted, unless `exact_match` is False."""
        present = self.get_parameters()
        for name in parameters:
            if name not in present:
                raise unknown("parameter", name, present)
        missing = [name for name in present if name not in parameters]
        if exact_match and missing:
            raise BadValue(f"parameters lack {missing[0]}; exact_match=False keeps what is not given")
        given = {name: np.asarray(array, present[name].dtype) for name, array in parameters.items()}
        self.agent.set_learner(refilled(self.agent.learner, present | given))

    @property
    def _n_updates(self) -> int:
        return self._metrics.updates

    @property
    def _episode_num(self) -> int:
        return self._metrics.episodes

    @property
    def n_envs(self) -> int:
        """Environments stepped together."""
        return self.agent.lanes

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
