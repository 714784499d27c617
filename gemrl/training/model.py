"""The base class of all models, with Stable-Baselines3's interface: learn, predict, save and load."""

from __future__ import annotations

import os
import secrets
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing, nullcontext
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np
from gymnasium.spaces import Dict

from gemrl.agents.device import find_device
from gemrl.agents.making import make_agent
from gemrl.algorithms.registry import AnyRecipe, algorithm_for, recipe
from gemrl.core.exceptions import BadValue, GemrlError
from gemrl.core.extras import check_installed
from gemrl.core.processes import Interrupts
from gemrl.core.seeding import stream
from gemrl.core.snapshot import Snapshot
from gemrl.core.steps import Trajectory
from gemrl.core.validation import MAX_ENVS, check_number, check_seed
from gemrl.envs.making import EnvironmentMaker
from gemrl.envs.spaces import Spaces
from gemrl.envs.vector import MAX_LANES, AnyTask, as_task, check_lanes, make_envs, name_of, spaces_of
from gemrl.training import judging, saving
from gemrl.training.attributes import Attributes
from gemrl.training.callbacks import AnyCallback, CallbackRunner
from gemrl.training.display import displayed
from gemrl.training.evaluation import Evaluation
from gemrl.training.export.exporting import export_policy
from gemrl.training.logger import Logger, log
from gemrl.training.loop import Event, Schedule, scheduled, train, train_offline
from gemrl.training.metrics import Metrics
from gemrl.training.remembering import as_trajectories
from gemrl.training.trackers import opened
from gemrl.training.trackers.base import RunInfo, Tracker
from gemrl.training.trackers.tensorboard import TensorBoard, numbered

POLICIES = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy")
"""Stable-Baselines3's names of policies for vectors, images and Dict observations."""


class _Training(NamedTuple):
    """One call of `learn` or `learn_offline`."""

    events: Callable[[int, Schedule | None], Generator[Event]]
    start: int
    steps: int
    log_interval: int | None
    logged: Callable[[], int]
    """What `log_interval` counts."""
    warnings: Sequence[str] = ()


class Model(Attributes):
    """An agent with its environment. A subclass names a recipe; keyword arguments change its fields."""

    algo: str = "gem"
    """The name of the recipe. An instance has the variant that fits its environment, such as gem-discrete."""

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

        `fields` are fields of the recipe. With `n_envs`, that many environments of an id are stepped together.
        """
        if env is None and not (isinstance(policy, str) and policy.endswith("Policy")):
            policy, env = "MlpPolicy", policy
        if policy not in POLICIES:
            raise BadValue(
                f"policy must be one of {', '.join(POLICIES)}, not {policy!r}; the observation space determines the network"
            )
        if env is None:
            raise BadValue("a model needs an environment: an id such as 'Pendulum-v1' or a gymnasium.Env")
        check_number("n_envs", n_envs, 1, MAX_ENVS, whole=True)
        if n_envs > 1 and not isinstance(env, str):
            raise BadValue("n_envs needs an environment id; to use several of your own environments, pass a VectorEnv")
        env_id, env = env if isinstance(env, str) else name_of(env), make_envs(env, n_envs)
        spaces = spaces_of(env)
        if policy == "MultiInputPolicy" and not isinstance(spaces.observation_space, Dict):
            raise BadValue("MultiInputPolicy is for Dict observations, which this environment does not have; leave it out")
        layout = spaces.layout
        if policy == "CnnPolicy" and not layout.is_image:
            raise BadValue("CnnPolicy is for images, but these observations are not images; leave it out")
        chosen = recipe(algorithm_for(self.algo, layout)).for_environment(env_id, layout).but(**fields)
        self._setup(chosen, env, seed, device, verbose, tensorboard_log)

    @classmethod
    def from_recipe(cls, chosen: AnyRecipe, env: Any, *, seed: int | None = None, device: str = "auto", n_envs: int = 1) -> Self:
        """A new model with exactly this recipe, without presets. `env` may also be Spaces, for a model that only predicts."""
        model = cls.__new__(cls)
        model._setup(chosen, make_envs(env, n_envs), seed, device, lanes=n_envs)
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
        """Sets all attributes; `log` is the folder for TensorBoard, `lanes` the number of environments if `env` is Spaces."""
        if log:
            check_installed("tensorboardX", "tensorboard")
        self.recipe = chosen
        self.seed = secrets.randbits(31) if seed is None else seed
        check_seed("seed", self.seed)
        self.seed = int(self.seed)  # a numpy integer cannot be saved as JSON
        self.device = find_device(device)
        self.num_timesteps = 0
        self.verbose = verbose
        self.logger: Any = Logger()
        self._log, self._metrics = log, Metrics(chosen)
        self._task: AnyTask | None = None if isinstance(env, Spaces) else as_task(env, self.seed)
        self.spaces: Spaces = env if self._task is None else self._task.spaces
        self.algo = algorithm_for(self.algo, self.spaces.layout)
        if not isinstance(chosen, type(recipe(self.algo))):
            raise BadValue(f"a {type(chosen).__name__} cannot be used for {self.algo}, the algorithm that fits this environment")
        self._saved_episodes: tuple[str | None, Snapshot] | None = None  # class of the task and its snapshot, of a loaded model
        self._predictions = stream(self.seed, "predictions")
        lanes = self._task.lanes if self._task else lanes
        check_number("n_envs", lanes, 1, MAX_LANES, whole=True)  # what can be saved can be loaded
        self.agent = make_agent(chosen, self.spaces.layout, lanes=lanes, seed=self.seed, device=self.device)

    def set_env(self, env: Any, force_reset: bool = True) -> None:
        """Replaces the environment by one with the same spaces and number of lanes, where a loaded model continues its episodes.

        `force_reset` has no effect: `learn` always begins new episodes.
        """
        task = as_task(make_envs(env, self.agent.lanes), self.seed)
        task.spaces.check_fits(self.spaces)
        check_lanes(self.agent.lanes, task.lanes)
        if self._task is None:
            self._continue_episodes(task)
        self._task = task

    def close(self) -> None:
        """Closes the environment."""
        if self._task:
            self._task.close()

    def training(self, steps: int, schedule: Schedule | None = None, observation: np.ndarray | None = None) -> Generator[Event]:
        """Trains until `num_timesteps` reaches `steps` and yields an event for each step.

        It begins new episodes, or continues running ones given their `observation` [E, D] (see `replay`).
        """
        task = self._require_task()
        if observation is None and len(self.memory):
            self.agent.abandon()
        for event in train(self.agent, task, steps, start=self.num_timesteps, schedule=schedule, observation=observation):
            self.num_timesteps = event.step
            yield event

    def training_offline(self, steps: int, schedule: Schedule | None = None, *, resumed: bool = False) -> Generator[Event]:
        """Takes gradient steps on the memory as it is until `num_timesteps` reaches `steps`; yields an event for each round.

        `resumed` continues exactly where a model was that has been saved with its memory.
        """
        if not resumed:
            self.agent.abandon()
        for event in train_offline(self.agent, steps, start=self.num_timesteps, schedule=schedule):
            self.num_timesteps = event.step
            yield event

    def replay(self) -> np.ndarray | None:
        """Replays the episodes that were running when the model was saved with its memory; returns their observations [E, D].

        Returns None if there are none, or if the environment behaves differently given the same seed and actions.
        """
        task = self._require_task()
        saved = self._episodes_for(task)
        return task.replay(saved) if saved else None

    def _require_task(self) -> AnyTask:
        """The task. Raises if the model has no environment."""
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
        trackers: Sequence[str | Tracker] = (),
    ) -> Self:
        """Trains for `total_timesteps` steps. The step count continues from the last call if `reset_num_timesteps` is False.

        The policy is evaluated on `eval_env`, an id or a function that makes an environment, every `eval_every` steps. `trackers`
        receive all metrics; they are names such as "wandb" or objects such as CSVFile("log.csv").
        """
        check_number("total_timesteps", total_timesteps, 1, whole=True)
        start = 0 if reset_num_timesteps else self.num_timesteps
        steps = start + total_timesteps
        schedule = None if eval_env is None else scheduled(eval_env, eval_every, eval_episodes, self.seed)
        found = self.recipe.warnings(steps, self.n_envs)
        plan = _Training(self.training, start, steps, log_interval, lambda: self._metrics.episodes, found)
        return self._train(plan, callback, tb_log_name, reset_num_timesteps, progress_bar, schedule, trackers)

    def learn_offline(
        self,
        gradient_steps: int,
        callback: AnyCallback | None = None,
        log_interval: int | None = 1000,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
        *,
        eval_env: str | EnvironmentMaker | None = None,
        eval_every: int = 10_000,
        eval_episodes: int = 10,
        trackers: Sequence[str | Tracker] = (),
    ) -> Self:
        """Trains on what is in the memory, without a step of the environment: call `remember` before it.

        It takes whole rounds of the recipe until there are at least `gradient_steps` of them; `num_timesteps` counts them, and so
        do `log_interval` and `eval_every`. All other arguments are those of `learn`.
        """
        check_number("gradient_steps", gradient_steps, 1, whole=True)
        if problem := self.recipe.offline_problem:
            raise BadValue(f"{self.algo} cannot train on recorded data alone: it {problem}")
        if not len(self.memory):
            raise BadValue("the memory is empty, so there is nothing to learn from: call remember before learn_offline")
        start = 0 if reset_num_timesteps else self.num_timesteps
        schedule = None if eval_env is None else scheduled(eval_env, eval_every, eval_episodes, self.seed)
        plan = _Training(self.training_offline, start, start + gradient_steps, log_interval, lambda: self._metrics.updates)
        return self._train(plan, callback, tb_log_name, reset_num_timesteps, progress_bar, schedule, trackers)

    def _train(
        self,
        plan: _Training,
        callback: AnyCallback | None,
        log_name: str | None,
        reset: bool,
        progress_bar: bool,
        schedule: Schedule | None,
        trackers: Sequence[str | Tracker],
    ) -> Self:
        """One call of `learn` or `learn_offline`."""
        with closing(schedule.evaluator) if schedule else nullcontext():
            if trackers and not isinstance(self.logger, Logger):
                raise BadValue("trackers need gemrl's own logger, which set_logger has replaced")
            callbacks = CallbackRunner(self, callback, plan.steps)
            if schedule:
                schedule.evaluator.spaces.check_fits(self.spaces, for_memory=False)
            for warning in plan.warnings:
                warnings.warn(warning, stacklevel=3)
            self._start_at(plan.start, reset)  # only after all arguments have been checked
            if self._log:
                trackers = [TensorBoard(numbered(self._log, log_name or self.algo, new=reset)), *trackers]
            events = plan.events(plan.steps, schedule)
            if progress_bar:
                events = displayed(events, plan.steps, self.algo)
            with opened(trackers, self._run_info()) as open_trackers:
                if isinstance(self.logger, Logger):
                    self.logger = Logger(open_trackers)
                self._run(events, callbacks, plan)
        return self

    def remember(self, episodes: Iterable[Mapping[str, Any] | Trajectory], *, keep: bool = False) -> None:
        """Adds recorded episodes to the memory, where they are planned and trained on like the agent's own.

        Each is a dict of arrays: observations [T + 1, ...] (or observations and next_observations), actions in the environment's
        units, rewards, terminated and truncated; or use `gemrl.read_data`. With `keep`, new rows never overwrite them.
        """
        self.agent.remember(as_trajectories(episodes, self.spaces), keep=keep)

    def _start_at(self, step: int, reset: bool) -> None:
        """Sets the step count, and begins or continues the metrics."""
        self.num_timesteps = step
        self._metrics = Metrics(self.recipe) if reset else self._metrics
        self._metrics.start_at(step)

    def _run_info(self) -> RunInfo:
        """The description of this call of `learn` for trackers."""
        group = f"{self.algo} on {name_of(self.env) or 'an environment'}" if self.env is not None else self.algo
        config = {"algo": self.algo, "seed": self.seed, "recipe": self.recipe.as_dict()}
        return RunInfo(f"{group}, seed {self.seed}", group, secrets.token_hex(4), config=config)

    def _run(self, events: Generator[Event], callbacks: CallbackRunner, plan: _Training) -> None:
        """Trains until a callback stops it or all steps are done. Ctrl-C takes effect between two steps."""
        callbacks.start()
        compiling = False
        with Interrupts(_interrupt) as interrupts, closing(events):
            for event in events:
                interrupts.finished_step(typical=not compiling)
                compiling = event.compiling
                if event.announces:  # the round belongs to the next event
                    continue
                before = plan.logged()
                self._metrics.update(event)
                if event.evaluation or (plan.log_interval and plan.logged() // plan.log_interval > before // plan.log_interval):
                    self.dump_logs(event.evaluation)
                if not callbacks.on_event(event):
                    break
                if interrupts.asked:
                    _interrupt()
        callbacks.end()

    def dump_logs(self, evaluation: Evaluation | None = None) -> None:
        """Writes the current metrics to the logger."""
        log(self.logger, self._metrics.row(self.num_timesteps, evaluation), self.num_timesteps, self.verbose)

    def set_logger(self, logger: Any) -> None:
        """Replaces the logger, for example by one from Stable-Baselines3's `configure`."""
        self.logger = logger

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, Any]:
        """The policy's action for one observation or a batch, in the environment's action space, and `state` unchanged.

        Without `deterministic`, policies that are distributions (sac, crossq-512, gem2) draw their action. For all others it
        makes no difference, since only training adds noise.
        """
        batch, several = self.spaces.batch(observation)
        chosen = self.agent.act(batch) if deterministic else self.agent.sample(batch, self._predictions)
        action = self.spaces.env_action(chosen)
        return (action if several else action[0]), state

    def evaluate(self, env: Any = None, episodes: int = 10, *, seed: int | None = None) -> Evaluation:
        """Plays `episodes` episodes with the deterministic policy: their returns and lengths, and the critics' estimation error.

        `env` is an id, a function that makes an environment, or a gymnasium.Env; by default, new ones like the model's own. The
        episodes are those of the model's evaluations in training, unless another `seed` is given.
        """
        return judging.evaluate(self, env, episodes, seed)

    def q_values(self, observation: Any, action: Any = None) -> np.ndarray:
        """The mean Q(s, a) of the critics, for one observation [] or a batch [B]; actions are those of the environment.

        Without `action`: of every discrete action [A] or [B, A], or of the policy's action if actions are continuous.
        """
        return judging.q_values(self, observation, action)

    def save(self, path: str | os.PathLike[str], *, memory: bool = False) -> None:
        """Writes networks and optimizers to `path`.safetensors and everything else that `load` needs to `path`.json.

        With `memory`, it also saves the memory and all other state, so that training continues after `load` as if uninterrupted.
        """
        saving.save(self, path, self.snapshot() if memory else None)

    def export(self, folder: str | os.PathLike[str], format: str = "numpy") -> None:
        """Writes the deterministic policy to a folder, to run it without gemrl: as `numpy`, `onnx` or `torch` files."""
        export_policy(self, folder, format)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], env: Any = None, device: str = "auto", *, force_reset: bool = True, **fields: Any
    ) -> Self:
        """The model that `save` wrote, optionally with an environment to train in and with changed fields of its recipe.

        `force_reset` has no effect: `learn` always begins new episodes.
        """
        return saving.load(cls, path, env, device, fields)

    def snapshot(self) -> Snapshot:
        """Everything that training depends on except networks and optimizers."""
        task = self._require_task()
        own = {"predictions": self._predictions.bit_generator.state, "task": type(task).__name__}
        return Snapshot.of(model=Snapshot(own, {}), task=task.snapshot(), learning=self.agent.snapshot())

    def restore(self, saved: Snapshot) -> None:
        """Restores a snapshot."""
        own = saved.part("model").facts
        self._predictions.bit_generator.state = own["predictions"]
        self.agent.restore(saved.part("learning"))
        self._saved_episodes = own.get("task"), saved.part("task")  # not all of the snapshot: a memory is large
        if self._task:
            self._continue_episodes(self._task)

    def _continue_episodes(self, task: AnyTask) -> None:
        """Makes a task continue with the episodes that were saved with this model."""
        saved = self._episodes_for(task)
        if saved:
            task.restore(saved)

    def _episodes_for(self, task: AnyTask) -> Snapshot | None:
        """The saved episodes, if they are of the same kind of task. Older models do not say which kind they had."""
        kind, saved = self._saved_episodes or (None, None)
        return saved if kind in (None, type(task).__name__) else None


def _interrupt() -> NoReturn:
    raise KeyboardInterrupt
