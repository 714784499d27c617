"""Attributes of a model that users and other libraries read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from gemrl.agents.protocol import LearningAgent
from gemrl.algorithms.registry import AnyRecipe
from gemrl.core.exceptions import BadValue
from gemrl.core.suggestions import unknown
from gemrl.envs.actions import ActionSpace
from gemrl.envs.spaces import Spaces
from gemrl.envs.vector import AnyTask
from gemrl.training.metrics import Metrics
from gemrl.training.pytrees import named_arrays, refilled
from gemrl.training.sb3 import as_vec_env, vec_normalize


class Attributes:
    """Attributes with the names that Stable-Baselines3 uses, and the memory."""

    recipe: AnyRecipe
    agent: LearningAgent
    spaces: Spaces
    num_timesteps: int
    _metrics: Metrics
    _task: AnyTask | None

    if not TYPE_CHECKING:  # a type checker would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            """A field of the recipe, such as `batch_size`."""
            if name not in self._fields():
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            return self._fields()[name]

        def __setattr__(self, name: str, value: Any) -> None:
            """Sets an attribute; not a field of the recipe, which would have no effect."""
            if name not in vars(self) and name in self._fields():  # the first test is fast: num_timesteps is set at every step
                raise AttributeError(f"{name} cannot be changed in a model; load(path, {name}=...) changes it in a saved one")
            super().__setattr__(name, value)

    def _fields(self) -> dict[str, Any]:
        """The fields of the recipe; none before it is set."""
        return self.recipe.settable() if "recipe" in vars(self) else {}

    @property
    def observation_space(self) -> gym.Space:
        """The environment's observation space."""
        return self.spaces.observation_space

    @property
    def action_space(self) -> ActionSpace:
        """The environment's action space."""
        return self.spaces.action_space

    @property
    def memory(self) -> Any:
        """The episodic memory. Transitions that are staged on the host are written to it first."""
        return self.agent.memory

    @property
    def gamma(self) -> float:
        """The discount factor."""
        return self.recipe.gamma

    @property
    def learning_rate(self) -> float:
        """The learning rate of Adam; 0 for tabular agents, which do not use Adam."""
        return self.recipe.learning_rate

    @property
    def exploration_rate(self) -> float:
        """The probability of a random action (epsilon); 0 if actions are continuous."""
        return self._metrics.row(self.num_timesteps, None).get("rollout/exploration_rate", 0.0)

    @property
    def ep_info_buffer(self) -> list[dict[str, float]]:
        """Return and length of the last hundred episodes, with the keys of Stable-Baselines3's Monitor."""
        return [{"r": episode.total, "l": episode.length} for episode in self._metrics.finished]

    def get_parameters(self) -> dict[str, np.ndarray]:
        """Every array that training changes (networks and optimizers), by name."""
        return named_arrays(self.agent.learner)

    def set_parameters(self, parameters: Mapping[str, Any], exact_match: bool = True) -> None:
        """Sets arrays by name. All of them must be given unless `exact_match` is False."""
        current = self.get_parameters()
        for name in parameters:
            if name not in current:
                raise unknown("parameter", name, current)
        missing = [name for name in current if name not in parameters]
        if exact_match and missing:
            raise BadValue(f"parameters do not contain {missing[0]}; exact_match=False keeps the current value")
        given = {name: np.asarray(array, current[name].dtype) for name, array in parameters.items()}
        self.agent.set_learner(refilled(self.agent.learner, current | given))

    @property
    def _n_updates(self) -> int:
        return self._metrics.updates

    @property
    def _episode_num(self) -> int:
        return self._metrics.episodes

    @property
    def n_envs(self) -> int:
        """Number of environments that are stepped together."""
        return self.agent.lanes

    @property
    def env(self) -> Any:
        """The environment that the model trains in, if it has one."""
        return self._task.env if self._task else None

    def get_env(self) -> Any:
        """The environment; as a VecEnv if Stable-Baselines3 is imported, since its callbacks expect one."""
        return as_vec_env(self._task)

    def get_vec_normalize_env(self) -> Any:
        """Stable-Baselines3's VecNormalize around the environment, if there is one."""
        return vec_normalize(self._task)
