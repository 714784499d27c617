"""What every model does: learn, predict, save and load, as users of Stable-Baselines3 know them."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar, Self

import gymnasium as gym
import jax
import numpy as np

import gemrl
from gemrl import saving
from gemrl.agents import continuous, soft
from gemrl.agents.host import Family, OffPolicyAgent
from gemrl.callbacks import AnyCallback, Logger, Watchers
from gemrl.environments import EnvironmentMaker, Scaling, Task, make
from gemrl.errors import BadValue, DeviceError, GemrlError, ModelFileError, check_number
from gemrl.evaluation import Evaluator
from gemrl.memory import Memory
from gemrl.progress import Progress
from gemrl.recipes import AnyRecipe, Recipe, SoftRecipe, recipe
from gemrl.seeding import stream
from gemrl.training import Moment, Schedule, train
from gemrl.vector import AnyTask, Tasks, VecEnvTask, as_task, name_of

FAMILIES: dict[type[AnyRecipe], Family] = {Recipe: continuous.FAMILY, SoftRecipe: soft.FAMILY}


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
        policy: Any = "MlpPolicy",
        env: Any = None,
        *,
        seed: int | None = None,
        device: str = "auto",
        n_envs: int = 1,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        **fields: Any,
    ) -> None:
        """A new model for an environment: an id, a gymnasium.Env, a VectorEnv or a VecEnv. `policy` may be left out.

        `fields` are the recipe's, by name. `n_envs` makes several environments of an id, stepped together.
        """
        if env is None and not (isinstance(policy, str) and policy.endswith("Policy")):
            policy, env = "MlpPolicy", policy
        if policy != "MlpPolicy":
            raise BadValue(f"policy must be 'MlpPolicy', not {policy!r}")
        if env is None:
            raise BadValue("a model needs an environment: an id such as 'Pendulum-v1' or a gymnasium.Env")
        check_number("n_envs", n_envs, 1, whole=True)
        if n_envs > 1 and not isinstance(env, str):
            raise BadValue("n_envs makes several environments of an id; pass a VectorEnv for your own")
        env_id = env if isinstance(env, str) else name_of(env)
        chosen = recipe(self.algo).for_environment(env_id).but(**fields)
        self._setup(chosen, made(env, n_envs), seed, device, verbose, tensorboard_log)

    @classmethod
    def from_recipe(cls, chosen: AnyRecipe, env: Any, *, seed: int | None = None, device: str = "auto") -> Self:
        """A new model with exactly this recipe: no preset is applied."""
        model = cls.__new__(cls)
        model._setup(chosen, env, seed, device)
        return model

    def _setup(
        self, chosen: AnyRecipe, env: Any, seed: int | None, device: str, verbose: int = 0, log: str | None = None
    ) -> None:
        self.recipe = chosen
        self.seed = secrets.randbits(31) if seed is None else seed
        check_number("seed", self.seed, 0, 2**32 - 1, whole=True)
        self.device = find_device(device)
        self.num_timesteps = 0
        self.verbose = verbose
        self.logger = Logger(_tensorboard(log) if log else None)
        self._task: AnyTask | None = None if isinstance(env, Scaling) else as_task(env, self.seed)
        self._scaling: Scaling = env if self._task is None else self._task.scaling
        self._predictions = stream(self.seed, "predictions")
        self.agent = OffPolicyAgent(
            FAMILIES[type(chosen)],
            chosen,
            self._scaling.observation_size,
            self._scaling.action_size,
            lanes=self._task.lanes if self._task else 1,
            seed=self.seed,
            device=self.device,
        )

    @property
    def observation_space(self) -> gym.spaces.Box:
        """What an environment shows."""
        return self._scaling.observation_space

    @property
    def action_space(self) -> gym.spaces.Box:
        """What an environment takes."""
        return self._scaling.action_space

    @property
    def memory(self) -> Memory:
        """The episodic memory, to look into."""
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
        if isinstance(self._task, (Task, Tasks)) and "stable_baselines3" in sys.modules:
            from stable_baselines3.common.vec_env import DummyVecEnv

            envs = self.env if isinstance(self.env, list) else [self.env]
            return DummyVecEnv([partial(_itself, env) for env in envs])
        return self.env

    def get_vec_normalize_env(self) -> Any:
        """The VecNormalize of Stable-Baselines3 around its environment, if there is one."""
        if not isinstance(self._task, VecEnvTask):
            return None
        from stable_baselines3.common.vec_env import unwrap_vec_normalize

        return unwrap_vec_normalize(self.env)

    def set_env(self, env: Any) -> None:
        """Changes the environment for one, or as many, with the same spaces."""
        task = as_task(made(env), self.seed)
        _check_same_spaces(task.scaling, self._scaling)
        if task.lanes != self.agent.lanes:
            raise BadValue(f"the model's memory is for {self.agent.lanes} environments, not {task.lanes}")
        self._task = task

    def train(self, steps: int, schedule: Schedule | None = None) -> Iterator[Moment]:
        """Trains until `num_timesteps` is `steps` and yields what happens, step by step."""
        if self._task is None:
            raise GemrlError("this model has no environment: load it with one, as in load(path, env=...), or call set_env(env)")
        if len(self.memory):
            self.agent.abandon()
        for moment in train(self.agent, self._task, steps, start=self.num_timesteps, schedule=schedule):
            self.num_timesteps = moment.step
            yield moment

    def learn(
        self,
        total_timesteps: int,
        callback: AnyCallback | None = None,
        log_interval: int | None = 4,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
        *,
        eval_env: str | EnvironmentMaker | None = None,
        eval_every: int = 10_000,
        eval_episodes: int = 10,
    ) -> Self:
        """Trains for `total_timesteps` steps; counts on from the last call unless `reset_num_timesteps`.

        `eval_env`, an id or a function that makes an environment, is evaluated on every `eval_every` steps; callbacks are told.
        """
        check_number("total_timesteps", total_timesteps, 1, whole=True)
        self.num_timesteps = 0 if reset_num_timesteps else self.num_timesteps
        steps = self.num_timesteps + total_timesteps
        watchers = Watchers(self, callback, steps)
        schedule = None if eval_env is None else self._schedule(eval_env, eval_every, eval_episodes)
        moments = self.train(steps, schedule)
        if progress_bar:
            from gemrl.console import with_progress

            moments = with_progress(moments, steps, self.algo)
        progress = Progress(self.recipe)
        watchers.start()
        for moment in moments:
            self._log(progress, moment, log_interval)
            if not watchers.go_on(moment):
                break
        watchers.end()
        self.logger.close()
        if schedule:
            schedule.evaluator.close()
        return self

    def _schedule(self, env: str | EnvironmentMaker, every: int, episodes: int) -> Schedule:
        check_number("eval_every", every, 1, whole=True)
        check_number("eval_episodes", episodes, 1, whole=True)
        if not (isinstance(env, str) or callable(env)):
            raise BadValue(f"eval_env must be an id or a function that makes an environment, not {type(env).__name__}")
        maker = partial(make, env) if isinstance(env, str) else env
        return Schedule(Evaluator(maker, episodes=episodes, seed=self.seed), every)

    def _log(self, progress: Progress, moment: Moment, interval: int | None) -> None:
        """Every `interval` episodes and at evaluations: tells the logger how training goes, and prints it if verbose."""
        before = progress.episodes
        progress.note(moment)
        if moment.evaluation or (interval and progress.episodes // interval > before // interval):
            for name, value in progress.line(moment.step, moment.evaluation).items():
                self.logger.record(name, value)
            if self.verbose:
                print(", ".join(f"{name} {value:,.6g}" for name, value in self.logger.name_to_value.items()))
            self.logger.dump(moment.step)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, Any]:
        """The policy's action for one observation or a batch, in the environment's scale, and `state` as it came.

        A deterministic policy (all but sac's) answers the same either way: exploration noise belongs to training alone.
        """
        shape, given = self.observation_space.shape, np.asarray(observation)
        if given.shape[given.ndim - len(shape) :] != shape or given.ndim - len(shape) not in (0, 1):
            raise BadValue(f"an observation must have shape {shape} or (n, {', '.join(map(str, shape))}), not {given.shape}")
        batch = given.reshape(-1, self._scaling.observation_size).astype(np.float32)
        unit = self.agent.act(batch) if deterministic else self.agent.sample(batch, self._predictions)
        action = self._scaling.unscaled(unit)
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
    def load(cls, path: str | os.PathLike[str], env: Any = None, *, device: str = "auto") -> Self:
        """The model that `save` wrote, with an environment to go on in, if one is given."""
        header = saving.load_header(path)
        if header.get("algo") != cls.algo:
            raise ModelFileError(f"{path} holds {header.get('algo')!r}, not {cls.algo!r}: gemrl.load(path) loads any model")
        try:
            chosen = type(recipe(cls.algo)).from_dict(header["recipe"])
            seed, steps = int(header["seed"]), int(header["num_timesteps"])
            scaling = Scaling(*(saving.space_from_dict(header[name]) for name in ("observation_space", "action_space")))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ModelFileError(f"the JSON of {path} is damaged: {error}") from None
        task_env = scaling if env is None else made(env)
        model = cls.from_recipe(chosen, task_env, seed=seed, device=device)
        _check_same_spaces(model._scaling, scaling)
        model.agent.restore(saving.load_arrays(path, model.agent.learner))
        model.num_timesteps = steps
        return model


def _check_same_spaces(environment: Scaling, model: Scaling) -> None:
    """Raises unless an environment fits a model; bounds of observations do not matter, those of actions do."""
    if environment.observation_space.shape != model.observation_space.shape:
        shapes = environment.observation_space.shape, model.observation_space.shape
        raise BadValue(f"the environment's observation_space has shape {shapes[0]}, the model's {shapes[1]}")
    if environment.action_space != model.action_space:
        raise BadValue(f"the environment's action_space is {environment.action_space}, the model's {model.action_space}")


def made(env: Any, n_envs: int = 1) -> Any:
    """The environment itself, or what its id names: one, or a list of several."""
    if not isinstance(env, str):
        return env
    return make(env) if n_envs == 1 else [make(env) for _ in range(n_envs)]


def _itself(env: gym.Env) -> gym.Env:
    return env


def _tensorboard(folder: str) -> Any:
    from gemrl.session import tensorboard

    return tensorboard(folder)
