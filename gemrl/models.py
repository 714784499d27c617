"""The Python interface: models that learn, predict, save and load, as users of Stable-Baselines3 know them."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

import gymnasium as gym
import jax
import numpy as np

import gemrl
from gemrl import saving
from gemrl.agents.continuous import ContinuousAgent, init_learner
from gemrl.environments import Scaling, Task, make
from gemrl.errors import BadValue, DeviceError, GemrlError, ModelFileError, check_number
from gemrl.memory import Memory
from gemrl.recipes import Recipe, recipe
from gemrl.training import Moment, Schedule, train

Callback = Callable[[dict[str, Any], dict[str, Any]], bool | None]
"""Called after every step with (locals, globals), as in Stable-Baselines3; False ends the training."""


def find_device(name: str) -> jax.Device:
    """The JAX device of that name: auto, cpu or gpu."""
    if name not in ("auto", "cpu", "gpu", "cuda"):
        raise BadValue(f"device must be auto, cpu or gpu, not {name!r}")
    try:
        return jax.devices(None if name == "auto" else name)[0]
    except RuntimeError:
        raise DeviceError(f"JAX finds no {name} here; the README says how to install its GPU build") from None


class Model:
    """An agent with its environment. Subclasses name a recipe; keywords change its fields."""

    algo: ClassVar[str] = "gem"

    def __init__(
        self,
        policy: str | gym.Env | None = "MlpPolicy",
        env: str | gym.Env | None = None,
        *,
        seed: int | None = None,
        device: str = "auto",
        **fields: Any,
    ) -> None:
        """A new model for an environment or its id. `policy` may be left out; `fields` are the recipe's, by name."""
        if env is None and policy != "MlpPolicy":
            policy, env = "MlpPolicy", policy
        if policy != "MlpPolicy":
            raise BadValue(f"policy must be 'MlpPolicy', not {policy!r}")
        if env is None:
            raise BadValue("a model needs an environment: an id such as 'Pendulum-v1' or a gymnasium.Env")
        env = make(env) if isinstance(env, str) else env
        if not isinstance(env, gym.Env):
            raise BadValue(f"env must be an id or a gymnasium.Env, not {type(env).__name__}")
        env_id = env.spec.id if env.spec else ""
        self._setup(recipe(self.algo).for_environment(env_id).but(**fields), env, seed, device)

    @classmethod
    def from_recipe(cls, chosen: Recipe, env: gym.Env, *, seed: int | None = None, device: str = "auto") -> Self:
        """A new model with exactly this recipe: no preset is applied."""
        model = cls.__new__(cls)
        model._setup(chosen, env, seed, device)
        return model

    def _setup(self, chosen: Recipe, env: gym.Env | Scaling, seed: int | None, device: str) -> None:
        self.recipe = chosen
        self.seed = secrets.randbits(31) if seed is None else seed
        check_number("seed", self.seed, 0, whole=True)
        self.device = find_device(device)
        self.num_timesteps = 0
        self._task = None if isinstance(env, Scaling) else Task(env, self.seed)
        self._scaling = env if isinstance(env, Scaling) else self._tasked().scaling
        sizes = self._scaling.observation_size, self._scaling.action_size
        self.agent = ContinuousAgent(chosen, *sizes, seed=self.seed, device=self.device)

    def _tasked(self) -> Task:
        if self._task is None:
            raise GemrlError("this model has no environment: load it with one, as in load(path, env=...), or call set_env(env)")
        return self._task

    @property
    def observation_space(self) -> gym.spaces.Box:
        """What the environment shows."""
        return self._scaling.observation_space

    @property
    def action_space(self) -> gym.spaces.Box:
        """What the environment takes."""
        return self._scaling.action_space

    @property
    def memory(self) -> Memory:
        """The episodic memory, to look into."""
        return self.agent.memory

    @property
    def env(self) -> gym.Env | None:
        """The environment it trains in."""
        return self._task.env if self._task else None

    def get_env(self) -> gym.Env | None:
        """The environment it trains in."""
        return self.env

    def set_env(self, env: str | gym.Env) -> None:
        """Changes the environment for one with the same spaces."""
        task = Task(make(env) if isinstance(env, str) else env, self.seed)
        for name in ("observation_space", "action_space"):
            if getattr(task.scaling, name).shape != getattr(self, name).shape:
                raise BadValue(f"the environment's {name} is {getattr(task.scaling, name)}, the model's is {getattr(self, name)}")
        self._task = task

    def train(self, steps: int, schedule: Schedule | None = None) -> Iterator[Moment]:
        """Trains until `num_timesteps` is `steps` and yields what happens, step by step."""
        task = self._tasked()
        if self.num_timesteps:
            self.agent.abandon()
        for moment in train(self.agent, task, steps, start=self.num_timesteps, schedule=schedule):
            self.num_timesteps = moment.step
            yield moment

    def learn(
        self,
        total_timesteps: int,
        callback: Callback | None = None,
        *,
        progress_bar: bool = False,
        reset_num_timesteps: bool = True,
    ) -> Self:
        """Trains for `total_timesteps` steps; counts on from the last call unless `reset_num_timesteps`."""
        check_number("total_timesteps", total_timesteps, 1, whole=True)
        if reset_num_timesteps and self.num_timesteps:
            self.agent.abandon()
            self.num_timesteps = 0
        steps = self.num_timesteps + total_timesteps
        moments = self.train(steps)
        if progress_bar:
            from gemrl.console import with_progress

            moments = with_progress(moments, steps, self.algo)
        for moment in moments:
            if callback and not moment.compiling and callback({"self": self, "moment": moment}, globals()) is False:
                break
        return self

    def predict(
        self,
        observation: np.ndarray,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, Any]:
        """The policy's action for one observation or a batch, in the environment's scale, and `state` as it came.

        The policy is deterministic, so `deterministic` changes nothing: exploration noise belongs to training alone.
        """
        shape, given = self.observation_space.shape, np.asarray(observation)
        if given.shape[-len(shape) :] != shape or given.ndim - len(shape) not in (0, 1):
            raise BadValue(f"an observation must have shape {shape} or (n, {', '.join(map(str, shape))}), not {given.shape}")
        batch = given.reshape(-1, self._scaling.observation_size).astype(np.float32)
        action = self._scaling.unscaled(self.agent.act(batch))
        return (action if given.ndim > len(shape) else action[0]), state

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the policy and all that learns to `path`.safetensors and `path`.json."""
        header = {
            "gemrl": gemrl.__version__,
            "algo": self.algo,
            "recipe": self.recipe.as_dict(),
            "seed": self.seed,
            "num_timesteps": self.num_timesteps,
            "observation_space": saving.space_to_dict(self.observation_space),
            "action_space": saving.space_to_dict(self.action_space),
        }
        saving.save_model(path, self.agent.learner, header)

    @classmethod
    def load(cls, path: str | os.PathLike[str], env: str | gym.Env | None = None, *, device: str = "auto") -> Self:
        """The model that `save` wrote, with an environment to go on in, if one is given."""
        header = saving.load_header(path)
        if header.get("algo") != cls.algo:
            raise ModelFileError(f"{path} holds {header.get('algo')!r}, not {cls.algo!r}: gemrl.load(path) loads any model")
        model = cls.__new__(cls)
        try:
            chosen = Recipe.from_dict(header["recipe"])
            seed, steps = int(header["seed"]), int(header["num_timesteps"])
            spaces = [saving.space_from_dict(header[name]) for name in ("observation_space", "action_space")]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ModelFileError(f"the JSON of {path} is damaged: {error}") from None
        model._setup(chosen, Scaling(*spaces), seed, device)
        sizes = model._scaling.observation_size, model._scaling.action_size
        model.agent.restore(saving.load_arrays(path, init_learner(chosen, *sizes, seed)))
        model.num_timesteps = steps
        if env is not None:
            model.set_env(env)
        return model


class GEM(Model):
    """Generalizable Episodic Memory (Hu et al., ICML 2021)."""

    algo = "gem"


class GEMPaper(Model):
    """GEM as the paper has it, wherever it speaks."""

    algo = "gem-paper"


class GEMReleased(Model):
    """GEM with the quirks of the authors' released code."""

    algo = "gem-released"


MODELS: dict[str, type[Model]] = {model.algo: model for model in (GEM, GEMPaper, GEMReleased)}
"""The class of each algorithm."""
