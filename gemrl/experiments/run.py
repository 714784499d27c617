"""A run from start to end, as `gemrl train` and `gemrl resume` execute it."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gemrl.algorithms.registry import AnyRecipe
from gemrl.core.exceptions import GemrlError, RunBroken, RunFolderError
from gemrl.core.exit_codes import INTERRUPTED
from gemrl.core.links import refuse_links
from gemrl.core.locking import exclusive, is_replaced
from gemrl.core.processes import ENV_TIMEOUT, Interrupts, end_now, env_call, limit_env_calls
from gemrl.core.steps import Trajectory
from gemrl.core.text import counted
from gemrl.core.threads import kept_flags
from gemrl.envs.vector import make_envs
from gemrl.experiments import checkpoints, run_folder
from gemrl.experiments.best_model import BestModel
from gemrl.experiments.data.sources import read_again
from gemrl.experiments.description import env_args, env_folder, env_title, environment_of
from gemrl.experiments.loading import load
from gemrl.experiments.run_interface import Outcome, ResumeOptions, Screen, run_info
from gemrl.experiments.run_logs import Recorder
from gemrl.experiments.versions import other_source
from gemrl.training.logger import Logger, log
from gemrl.training.loop import Event, Schedule, scheduled
from gemrl.training.model import Model
from gemrl.training.models import model_class
from gemrl.training.trackers import opened
from gemrl.training.trackers.base import Tracker
from gemrl.training.trackers.tensorboard import TensorBoard


def train_run(description: dict[str, Any], folder: Path | None, screen: Screen, data: Sequence[Trajectory] = ()) -> Outcome:
    """Trains in a new run folder, by default runs/<algo>/<env>/<seed>; `data` is what the description names."""
    folder = folder or Path("runs", description["algo"], env_folder(description), str(description["seed"]))
    run_folder.check_free(folder)
    with exclusive(folder):
        refuse_links(folder)
        run_folder.create(folder, description)
        run = _Run(folder, description, screen, data)
        try:
            return run.execute()
        except GemrlError:
            # It failed at its first step, so there is nothing to resume.
            if run.steps <= description["n_envs"] and checkpoints.newest_step(folder) < 0 and not is_replaced(folder):
                run_folder.forget(folder)
            raise


def resume_run(options: ResumeOptions, screen: Screen) -> Outcome | None:
    """Continues a run from its last checkpoint; None if it is already finished."""
    folder = options.folder
    description = run_folder.describe(folder)
    run_folder.check_resumable(folder, description, other_versions=options.other_versions)
    environment_of(description)().close()
    with exclusive(folder):
        refuse_links(folder)
        if options.steps:
            if options.steps < description["steps"]:
                raise RunFolderError(f"{folder} already has {counted(description['steps'], 'step')}; --steps must not be smaller")
            extends = options.steps > description["steps"] and run_folder.finished(folder, description["steps"])
            if extends and checkpoints.newest_step(folder) < 0:
                raise RunFolderError(
                    f"{folder} has no checkpoint, so it cannot continue after its {counted(description['steps'], 'step')}"
                )
            description |= {"steps": options.steps}
        if run_folder.finished(folder, description["steps"]):
            screen.say(f"{folder} is finished: {counted(description['steps'], 'step')}; use --steps N to train for more")
            return None
        if source := other_source(description):
            screen.say(
                f"warning: gemrl's code has changed since this run was started (source {source}); results may differ slightly"
            )
        if description.get("xla_flags", "").split() != kept_flags().split():
            screen.say("warning: XLA_FLAGS differ from those that this run was started with; results may differ slightly")
        if options.env_timeout:
            description |= {"env_timeout": options.env_timeout}
        return _Run(folder, description, screen).execute()


class _Run:
    """The part of a run that one process executes: from the last checkpoint, if any, to the end or an interrupt."""

    def __init__(self, folder: Path, description: dict[str, Any], screen: Screen, data: Sequence[Trajectory] = ()) -> None:
        self._folder, self._run, self._screen, self._data = folder, description, screen, data
        self.steps, self._offline = 0, bool(description.get("offline", False))
        limit_env_calls(description.get("env_timeout", ENV_TIMEOUT))

    @property
    def _unit(self) -> str:
        """What the run counts."""
        return "gradient step" if self._offline else "step"

    def execute(self) -> Outcome:
        """Trains until the run ends or is interrupted."""
        folder, say = self._folder, self._screen.say
        checkpoints.clean(folder)
        with self._screen.working("starting JAX"):
            found = checkpoints.newest(folder, self._load, say)
            model = found[1] if found else self._new_model()
        say(self._first_line(model.recipe))
        if not found:
            self._remember(model)
        for warning in [] if self._offline else model.recipe.warnings(self._run["steps"], model.n_envs):
            say(f"warning: {warning}")
        on_second = partial(end_now, f"stopped immediately; the last checkpoint in {folder} is kept", INTERRUPTED)
        with self._disk_errors(), Interrupts(on_second, ends=True) as interrupts:
            if found:
                checkpoints.set_damaged_aside(folder, found[0])
            run_folder.extend(folder, self._run["steps"])  # only now, when there is something to continue
            try:
                finished = self._train(model, found[0] if found else None, interrupts)
            finally:  # save the model however the run ends
                self.steps = model.num_timesteps
                with suppress(Exception), env_call("close"):  # a broken environment may fail to close
                    model.close()
                self._check_present(model)
                model.save(folder / "model")
            if not finished:
                say(f"interrupted at {self._unit} {model.num_timesteps:,}; continue with: gemrl resume {folder}")
            env = model.env[0] if isinstance(model.env, list) else model.env
            return Outcome(folder, finished, "rgb_array" in env.metadata.get("render_modes", ()))

    def _first_line(self, chosen: AnyRecipe) -> str:
        """A line that summarizes the run."""
        run = self._run
        cap = chosen.settable().get("depth")
        depth = f", depth {cap}" if cap else ""
        envs = f" x {run['n_envs']}" if run["n_envs"] > 1 else ""
        steps = f"{counted(run['steps'], self._unit)}{' offline' if self._offline else ''}"
        return f"{run['algo']} on {env_title(run)}{envs}, seed {run['seed']}, {steps}{depth}"

    def _new_model(self) -> Model:
        """An untrained model."""
        run, env = self._run, make_envs(environment_of(self._run), self._run["n_envs"])
        return model_class(run["algo"]).from_recipe(run_folder.recipe_of(run), env, seed=run["seed"], device=run["device"])

    def _remember(self, model: Model) -> None:
        """Adds the data of a new run to the memory of its model. A checkpoint contains it already."""
        entries, keep = self._run.get("data", []), self._run.get("keep_data", False)
        if not entries:
            return
        with self._screen.working("reading the data"):
            model.remember(self._data or read_again(entries, model.spaces, self._screen.say), keep=keep)
        self._data = ()
        rows, trajectories = (sum(entry[name] for entry in entries) for name in ("rows", "trajectories"))
        origin = f"from {', '.join(entry['path'] for entry in entries)}{', which stay there' if keep else ''}"
        what = f"{counted(rows, 'row')} of {counted(trajectories, 'trajectory')} {origin}"
        self._screen.say(f"the memory {'is' if self._offline else 'starts with'} {what}")

    def _load(self, found: checkpoints.Checkpoint) -> Model:
        """The model of a checkpoint; raises RunFolderError if it belongs to another run."""
        model = load(found.model, environment_of(self._run), device=self._run["device"])
        expected = self._run["algo"], run_folder.recipe_of(self._run), self._run["seed"]
        if (model.algo, model.recipe, model.seed) != expected:
            raise RunFolderError(f"{found.folder} is a checkpoint of another run: its recipe or seed differs from run.json")
        if found.facts.get("env") != self._run["env"]:
            raise RunFolderError(f"{found.folder} is a checkpoint of another run, on {found.facts.get('env')}")
        if env_args(found.facts) != env_args(self._run):
            raise RunFolderError(f"{found.folder} is a checkpoint of another run, on {env_title(found.facts)}")
        return model

    def _train(self, model: Model, found: checkpoints.Checkpoint | None, interrupts: Interrupts) -> bool:
        """Trains, shows progress, logs and writes checkpoints; returns False if interrupted."""
        run = self._run
        recorder = Recorder(self._folder, model.recipe)
        logged_until = recorder.last_step()  # before lines after the checkpoint are dropped
        best = BestModel(self._folder, kept=run.get("keep_best", False))  # runs that are older do not say
        best.start(found)
        self._restore(recorder, found)
        schedule = scheduled(environment_of(run), run["eval_every"], run["eval_episodes"], run["seed"])
        clock = checkpoints.Clock(run["checkpoint_every"], model.num_timesteps)
        write = partial(self._write_checkpoint, model, recorder, best)
        events = self._screen.progress(self._events(model, schedule, resumed=found is not None), run["steps"], run["algo"])
        trackers = opened(self._trackers(model.num_timesteps), run_info(self._folder, run, logged_until))
        with trackers as writing, closing(recorder), closing(schedule.evaluator), closing(events):
            logger, compiling = Logger(writing), False
            for event in events:
                interrupts.finished_step(typical=not compiling)
                compiling = event.compiling
                if event.announces:
                    continue
                if metrics := recorder(event):
                    log(logger, metrics, event.step)
                if event.evaluation:
                    self._check_present(model)
                    best.update(model, event.evaluation)
                if interrupts.asked or event.step >= run["steps"] or clock.due(event.step):
                    clock.measure(write, event.step)
                if interrupts.asked:
                    return False
        return True

    def _trackers(self, step: int) -> list[str | Tracker]:
        """The trackers that get the metrics in addition to the CSV files."""
        chosen: list[str | Tracker] = []
        if self._run["tensorboard"]:
            chosen.append(TensorBoard(self._folder / "tensorboard", step))
        if self._run.get("track"):
            chosen.append(self._run["track"]["to"])
        return chosen

    def _restore(self, recorder: Recorder, found: checkpoints.Checkpoint | None) -> None:
        """Restores the logs, or starts new ones."""
        if found is None:
            recorder.start()
        else:
            recorder.resume(found.facts["recorder"], found.texts)

    def _events(self, model: Model, schedule: Schedule, *, resumed: bool) -> Generator[Event]:
        """The events of training, on the data alone or in the environment."""
        if self._offline:
            if resumed:
                self._screen.say(f"resumed at {self._unit} {model.num_timesteps:,}")
            return model.training_offline(self._run["steps"], schedule, resumed=resumed)
        return model.training(self._run["steps"], schedule, self._running_episode(model) if resumed else None)

    def _running_episode(self, model: Model) -> np.ndarray | None:
        """The observation of the episode that was running, after replaying it; None to start a new episode."""
        with self._screen.working("replaying the running episode"):
            observation = model.replay()
        self._screen.say(f"resumed at step {model.num_timesteps:,}")
        if observation is None:
            self._screen.say(
                "the environment did not reproduce its episode from the same seed and actions, so a new episode starts here"
            )
        return observation

    def _write_checkpoint(self, model: Model, recorder: Recorder, best: BestModel) -> None:
        """Writes a checkpoint of the model, the best model and the logs."""
        self._check_present(model)
        score, files = best.state()
        facts = {"env": self._run["env"], "env_args": env_args(self._run), "recorder": recorder.facts(), **score}
        checkpoints.write(self._folder, model, facts, recorder.texts(), files)

    def _check_present(self, model: Model) -> None:
        """Raises RunBroken if the run folder was removed, so that nothing is written to where it was."""
        folder = self._folder
        if not run_folder.holds_run(folder) or is_replaced(folder):
            raise RunBroken(
                f"{folder} was removed, moved or replaced during the run, which stops at step {model.num_timesteps:,}: "
                "its checkpoints, logs and model are not there any more, and nothing was written"
            )

    @contextmanager
    def _disk_errors(self) -> Iterator[None]:
        """Turns an OSError into a one-line error."""
        try:
            yield
        except OSError as error:
            kept = "its last checkpoint is kept" if checkpoints.newest_step(self._folder) >= 0 else "it has no checkpoint yet"
            raise RunBroken(f"cannot write to {self._folder}: {error.strerror or error}; {kept}") from None
