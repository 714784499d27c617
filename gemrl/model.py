"""What every model does: learn, predict, save and load, as users of Stable-Baselines3 know them."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar, NoReturn, Self

import gymnasium as gym
import numpy as np

import gemrl
from gemrl import saving
from gemrl.agents import continuous, soft
from gemrl.agents.host import Family, OffPolicyAgent
from gemrl.callbacks import AnyCallback, Logger, Watchers
from gemrl.device import find_device
from gemrl.environments import EnvironmentMaker, Scaling
from gemrl.errors import BadValue, GemrlError, ModelFileError, check_number
from gemrl.memory import Memory
from gemrl.progress import Progress
from gemrl.recipes import AnyRecipe, Recipe, SoftRecipe, recipe
from gemrl.seeding import stream
from gemrl.snapshot import Snapshot
from gemrl.task import Task
from gemrl.training import Moment, Schedule, scheduled, train
from gemrl.vector import AnyTask, Tasks, VecEnvTask, as_task, made, name_of
from gemrl.watchdog import Interrupts

MOST_LANES = 4096
"""More environments than a saved model may speak of."""

FAMILIES: dict[type[AnyRecipe], Family] = {Recipe: continuous.FAMILY, SoftRecipe: soft.FAMILY}


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
        self,
        chosen: AnyRecipe,
        env: Any,
        seed: int | None,
        device: str,
        verbose: int = 0,
        log: str | None = None,
        lanes: int = 1,
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
        self._saved: Snapshot | None = None
        self._predictions = stream(self.seed, "predictions")
        self.agent = OffPolicyAgent(
            FAMILIES[type(chosen)],
            chosen,
            self._scaling.observation_size,
            self._scaling.action_size,
            lanes=self._task.lanes if self._task else lanes,
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
        task.scaling.check_fits(self._scaling)
        if task.lanes != self.agent.lanes:
            raise BadValue(f"the model's memory is for {self.agent.lanes} environments, not {task.lanes}")
        self._task = task

    def train(self, steps: int, schedule: Schedule | None = None, observation: np.ndarray | None = None) -> Iterator[Moment]:
        """Trains until `num_timesteps` is `steps` and yields what happens, step by step.

        It begins a new episode, unless it is given the `observation` [E, D] of a running one (see `replay`).
        """
        task = self._own_task()
        if observation is None and len(self.memory):
            self.agent.abandon()
        for moment in train(self.agent, task, steps, start=self.num_timesteps, schedule=schedule, observation=observation):
            self.num_timesteps = moment.step
            yield moment

    def replay(self) -> np.ndarray | None:
        """Plays the episodes again that ran when this model was saved with its memory; the observations to go on from [E, D].

        None if there was none, or if the environment, given the same seed and actions, answered differently.
        """
        return self._own_task().replay(self._saved.part("task")) if self._saved else None

    def _own_task(self) -> AnyTask:
        if self._task is None:
            raise GemrlError("this model has no environment: load it with one, as in load(path, env=...), or call set_env(env)")
        return self._task

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
        schedule = None if eval_env is None else scheduled(eval_env, eval_every, eval_episodes, self.seed)
        moments = self.train(steps, schedule)
        if progress_bar:
            from gemrl.console import with_progress

            moments = with_progress(moments, steps, self.algo)
        progress = Progress(self.recipe)
        watchers.start()
        with Interrupts(_interrupt) as interrupts:
            for moment in moments:
                self.logger.tell(progress, moment, log_interval, self.verbose)
                if not watchers.go_on(moment):
                    break
                if interrupts.asked:  # only here, where learner and memory are whole
                    _interrupt()
        watchers.end()
        self.logger.close()
        if schedule:
            schedule.evaluator.close()
        return self

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

    def save(self, path: str | os.PathLike[str], *, memory: bool = False) -> None:
        """Writes the policy and all that learns to `path`.safetensors and `path`.json.

        With `memory`, all else that decides its future too, so that learning goes on after `load` as if it had not stopped.
        """
        header = {
            "gemrl": gemrl.__version__,
            "algo": self.algo,
            "recipe": self.recipe.as_dict(),
            "seed": self.seed,
            "num_timesteps": self.num_timesteps,
            "n_envs": self.agent.lanes,
            "observation_space": saving.space_to_dict(self.observation_space),
            "action_space": saving.space_to_dict(self.action_space),
        }
        files = saving.ModelFiles(path)
        files.write(self.agent.learner, header, self._snapshot() if memory else None)

    def _snapshot(self) -> Snapshot:
        own = {"predictions": self._predictions.bit_generator.state}
        return Snapshot.of(model=Snapshot(own, {}), task=self._own_task().snapshot(), learning=self.agent.snapshot())

    def _recall(self, saved: Snapshot) -> None:
        self._predictions.bit_generator.state = saved.part("model").facts["predictions"]
        self.agent.recall(saved.part("learning"))
        if self._task:
            self._task.recall(saved.part("task"))
        self._saved = saved

    @classmethod
    def load(cls, path: str | os.PathLike[str], env: Any = None, *, device: str = "auto") -> Self:
        """The model that `save` wrote, with an environment to go on in, if one is given."""
        files = saving.ModelFiles(path)
        header = files.read_header()
        if header.get("algo") != cls.algo:
            raise ModelFileError(f"{path} holds {header.get('algo')!r}, not {cls.algo!r}: gemrl.load(path) loads any model")
        try:
            return cls._from_files(files, header, env, device)
        except saving.DAMAGED as error:
            if isinstance(error, GemrlError):
                raise
            raise ModelFileError(f"{files.header} is damaged: {type(error).__name__}: {error}") from None

    @classmethod
    def _from_files(cls, files: saving.ModelFiles, header: dict[str, Any], env: Any, device: str) -> Self:
        chosen = type(recipe(cls.algo)).from_dict(header["recipe"])
        scaling = Scaling(*(saving.space_from_dict(header[name]) for name in ("observation_space", "action_space")))
        files.check_size(chosen, scaling.observation_size)
        lanes = header["n_envs"]
        check_number("n_envs", lanes, 1, MOST_LANES, whole=True)
        model = cls.__new__(cls)
        model._setup(chosen, scaling if env is None else made(env, lanes), int(header["seed"]), device, lanes=lanes)
        model._scaling.check_fits(scaling)
        model.agent.restore(files.read_learner(header, model.agent.learner))
        model.num_timesteps = int(header["num_timesteps"])
        saved = files.read_memory(header)
        if saved:
            model._recall(saved)
        return model


def _interrupt() -> NoReturn:
    raise KeyboardInterrupt


def _itself(env: gym.Env) -> gym.Env:
    return env


def _tensorboard(folder: str) -> Any:
    from gemrl.session import tensorboard

    return tensorboard(folder)
