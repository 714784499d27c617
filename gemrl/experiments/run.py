"""A run from start to end: what `gemrl train` and `gemrl resume` do. Both continue from the last checkpoint, if there is one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from gemrl.algorithms.registry import AnyRecipe, algorithm_for, recipe_for
from gemrl.core.exceptions import GemrlError, RunBroken, RunFolderError
from gemrl.core.exit_codes import INTERRUPTED
from gemrl.core.locking import exclusive
from gemrl.core.processes import ENV_TIMEOUT, Interrupts, end_now, env_call, limit_env_calls
from gemrl.core.threads import thread_count
from gemrl.envs.spaces import Spaces
from gemrl.envs.vector import make_envs
from gemrl.experiments import checkpoints, run_folder
from gemrl.experiments.description import default_evaluations, env_args, env_folder, env_title, environment_of
from gemrl.experiments.loading import load
from gemrl.experiments.run_logs import Recorder
from gemrl.experiments.versions import other_source, versions
from gemrl.training.logger import Logger, log
from gemrl.training.loop import Event, scheduled
from gemrl.training.model import Model
from gemrl.training.models import model_class
from gemrl.training.trackers import opened, tracker_named
from gemrl.training.trackers.base import RunInfo, Tracker, check_installed
from gemrl.training.trackers.tensorboard import TensorBoard


@dataclass(frozen=True)
class TrainOptions:
    """What a new run is asked to do. Empty values mean the usual ones for the environment."""

    env: str
    env_args: Mapping[str, Any] = field(default_factory=dict)
    algo: str = "gem"
    steps: int = 1_000_000
    seed: int = 0
    folder: Path | None = None
    settings: tuple[str, ...] = ()
    """Fields of the recipe to change, each "field=value"."""
    eval_every: int | None = None
    eval_episodes: int | None = None
    n_envs: int = 1
    checkpoint_every: int | None = None
    env_timeout: int = ENV_TIMEOUT
    tensorboard: bool = False
    track: str | None = None
    device: str = "auto"


@dataclass(frozen=True)
class ResumeOptions:
    """How an existing run is continued."""

    folder: Path
    steps: int | None = None
    other_versions: bool = False
    env_timeout: int | None = None


class Screen(Protocol):
    """What a run shows to people."""

    def progress(self, events: Iterator[Event], steps: int, title: str) -> Generator[Event]:
        """The same moments of a training, shown as they pass."""

    def say(self, line: str) -> None:
        """Prints a line."""

    def working(self, words: str) -> AbstractContextManager[Any]:
        """Shows, while it lasts, what is being done."""


class Outcome(NamedTuple):
    """What became of a run."""

    folder: Path
    finished: bool
    can_be_filmed: bool = False


def train_run(options: TrainOptions, screen: Screen) -> Outcome:
    """Trains in a new run's folder."""
    description = _new_description(options)
    folder = options.folder or Path("runs", description["algo"], env_folder(description), str(options.seed))
    run_folder.check_free(folder)
    with exclusive(folder):
        run_folder.create(folder, description)
        run = _Run(folder, description, screen)
        try:
            return run.execute()
        except GemrlError:
            # Failed at its first step: there is nothing to resume.
            if run.steps <= options.n_envs and checkpoints.newest_step(folder) < 0:
                run_folder.forget(folder)
            raise


def _new_description(options: TrainOptions) -> dict[str, Any]:
    """The run.json of a new run."""
    chosen = {"env": options.env, "env_args": dict(options.env_args)}
    env = environment_of(chosen)()
    layout = Spaces.of(env).layout
    env.close()
    algo = algorithm_for(options.algo, layout)
    recipe = recipe_for(algo, options.env, layout, options.settings)
    every, episodes = default_evaluations(options.env)
    if options.tensorboard:
        check_installed("tensorboardX", "tensorboard")
    return {
        "algo": algo,
        **chosen,
        "seed": options.seed,
        "steps": options.steps,
        "eval_every": options.eval_every or every,
        "eval_episodes": options.eval_episodes or episodes,
        "n_envs": options.n_envs,
        "checkpoint_every": options.checkpoint_every,
        "env_timeout": options.env_timeout,
        "tensorboard": options.tensorboard,
        "track": _new_track(options.track),
        "device": options.device,
        "recipe": recipe.as_dict(),
        "threads": thread_count(),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "versions": versions(),
    }


def _new_track(name: str | None) -> dict[str, str] | None:
    """The tracker of a new run, with an id that no other run has."""
    if name is None:
        return None
    package = tracker_named(name).package
    check_installed(package, package)
    return {"to": name, "id": secrets.token_hex(4)}


def resume_run(options: ResumeOptions, screen: Screen) -> Outcome | None:
    """Continues a run; None if it is finished already."""
    folder = options.folder
    description = run_folder.describe(folder)
    run_folder.check_resumable(folder, description, other_versions=options.other_versions)
    environment_of(description)().close()
    with exclusive(folder):
        if options.steps:
            if options.steps < description["steps"]:
                raise RunFolderError(f"{folder} was made for {description['steps']:,} steps already")
            beyond = options.steps > description["steps"] and run_folder.finished(folder, description["steps"])
            if beyond and checkpoints.newest_step(folder) < 0:
                raise RunFolderError(f"{folder} keeps no checkpoint, so it cannot go beyond its {description['steps']:,} steps")
            description |= {"steps": options.steps}
        if run_folder.finished(folder, description["steps"]):
            screen.say(f"{folder} is finished: {description['steps']:,} steps; --steps N goes beyond")
            return None
        if source := other_source(description):
            screen.say(f"warning: gemrl's code has changed since this run began (source {source}), so bits may differ")
        if options.env_timeout:
            description |= {"env_timeout": options.env_timeout}
        return _Run(folder, description, screen).execute()


def run_info(folder: Path, description: Mapping[str, Any], logged_until: int = 0) -> RunInfo:
    """What trackers are told about a run."""
    group = f"{description['algo']} on {env_title(description)}"
    name, track = f"{group}, seed {description['seed']}", description.get("track") or {}
    return RunInfo(name, group, track.get("id", ""), folder, description, logged_until)


class _Run:
    """One process's part of a run: from its last checkpoint, if it has one, to its end or to an interrupt."""

    def __init__(self, folder: Path, description: dict[str, Any], screen: Screen) -> None:
        self._folder, self._run, self._screen = folder, description, screen
        self.steps = 0
        limit_env_calls(description.get("env_timeout", ENV_TIMEOUT))

    def execute(self) -> Outcome:
        """Trains until the end or an interrupt."""
        folder, say = self._folder, self._screen.say
        checkpoints.clean(folder)
        with self._screen.working("starting JAX"):
            found = checkpoints.newest(folder, self._load, say)
            model = found[1] if found else self._new_model()
        say(self._first_line(model.recipe))
        if warning := model.recipe.warning(self._run["steps"]):
            say(f"warning: {warning}, such as --set learning_starts=1000")
        on_second = partial(end_now, f"stopped at once; {folder} keeps its last checkpoint", INTERRUPTED)
        with self._disk_errors(), Interrupts(on_second) as interrupts:
            if found:
                checkpoints.set_damaged_aside(folder, found[0])
            run_folder.extend(folder, self._run["steps"])  # only now: there is something to continue
            try:
                finished = self._train(model, found[0] if found else None, interrupts)
            finally:  # whatever ends a run, its model can be looked at
                self.steps = model.num_timesteps
                model.save(folder / "model")
                with suppress(Exception), env_call("its closing"):  # a broken environment may fail to close
                    model.close()
            if not finished:
                say(f"interrupted at step {model.num_timesteps:,}; go on with: gemrl resume {folder}")
            one = model.env[0] if isinstance(model.env, list) else model.env
            return Outcome(folder, finished, "rgb_array" in one.metadata.get("render_modes", ()))

    def _first_line(self, chosen: AnyRecipe) -> str:
        run = self._run
        cap = chosen.settable().get("depth")
        depth = f", depth {cap}" if cap else ""
        envs = f" x {run['n_envs']}" if run["n_envs"] > 1 else ""
        return f"{run['algo']} on {env_title(run)}{envs}, seed {run['seed']}, {run['steps']:,} steps{depth}"

    def _new_model(self) -> Model:
        run, env = self._run, make_envs(environment_of(self._run), self._run["n_envs"])
        return model_class(run["algo"]).from_recipe(run_folder.recipe_of(run), env, seed=run["seed"], device=run["device"])

    def _load(self, found: checkpoints.Checkpoint) -> Model:
        """The model of a checkpoint, if it is this run's."""
        model = load(found.model, environment_of(self._run), device=self._run["device"])
        expected = self._run["algo"], run_folder.recipe_of(self._run), self._run["seed"]
        if (model.algo, model.recipe, model.seed) != expected:
            raise RunFolderError(f"{found.folder} is a checkpoint of another run: recipe or seed differ from run.json")
        if found.facts.get("env") != self._run["env"]:
            raise RunFolderError(f"{found.folder} is a checkpoint of another run: it is of {found.facts.get('env')}")
        if env_args(found.facts) != env_args(self._run):
            raise RunFolderError(f"{found.folder} is a checkpoint of another run: it is of {env_title(found.facts)}")
        return model

    def _train(self, model: Model, found: checkpoints.Checkpoint | None, interrupts: Interrupts) -> bool:
        """Trains, shows, records and writes checkpoints; False if interrupted."""
        run = self._run
        recorder = Recorder(self._folder, model.recipe)
        logged_until = recorder.last_step()  # before lines beyond the checkpoint are dropped
        observation = self._take_up(model, recorder, found)
        schedule = scheduled(environment_of(run), run["eval_every"], run["eval_episodes"], run["seed"])
        clock = checkpoints.Clock(run["checkpoint_every"], model.num_timesteps)
        write = partial(self._write_checkpoint, model, recorder)
        events = self._screen.progress(model.training(run["steps"], schedule, observation), run["steps"], run["algo"])
        trackers = opened(self._trackers(model.num_timesteps), run_info(self._folder, run, logged_until))
        with trackers as writing, closing(recorder), closing(schedule.evaluator), closing(events):
            logger = Logger(writing)
            for event in events:
                if metrics := recorder(event):
                    log(logger, metrics, event.step)
                if not event.taken:
                    continue
                if interrupts.asked or event.step >= run["steps"] or clock.due(event.step):
                    clock.time(write, event.step)
                if interrupts.asked:
                    return False
        return True

    def _trackers(self, step: int) -> list[str | Tracker]:
        """Where metrics go besides the CSV files."""
        chosen: list[str | Tracker] = []
        if self._run["tensorboard"]:
            chosen.append(TensorBoard(self._folder / "tensorboard", step))
        if self._run.get("track"):
            chosen.append(self._run["track"]["to"])
        return chosen

    def _take_up(self, model: Model, recorder: Recorder, found: checkpoints.Checkpoint | None) -> np.ndarray | None:
        """Restores logs and the running episode; the observation to act on, or None for a new episode."""
        if found is None:
            recorder.start()
            return None
        recorder.resume(found.facts["recorder"], found.texts)
        with self._screen.working("replaying the running episode"):
            observation = model.replay()
        self._screen.say(f"resumed at step {model.num_timesteps:,}")
        if observation is None:
            self._screen.say(
                "the environment did not repeat its episode from the same seed and actions, so a new one begins here"
            )
        return observation

    def _write_checkpoint(self, model: Model, recorder: Recorder) -> None:
        facts = {"env": self._run["env"], "env_args": env_args(self._run), "recorder": recorder.facts()}
        checkpoints.write(self._folder, model, facts, recorder.texts())

    @contextmanager
    def _disk_errors(self) -> Iterator[None]:
        """Turns an error of the disk into one line."""
        try:
            yield
        except OSError as error:
            raise RunBroken(f"cannot write to {self._folder}: {error.strerror or error}; its last checkpoint is kept") from None
