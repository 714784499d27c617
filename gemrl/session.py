"""What `gemrl train` and `gemrl resume` do once their arguments are known to be good: both go on from the last checkpoint."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from gemrl import checkpoint, runs
from gemrl.env_args import env_args, env_folder, env_title, environment_of, parse_env_args, usual_evaluations, with_sticky
from gemrl.errors import DONE, INTERRUPTED, GemrlError, RunBroken, RunFolderError
from gemrl.locking import alone
from gemrl.recipes import AnyRecipe, chosen_recipe, suited
from gemrl.recording import Recorder, read_evaluations
from gemrl.spaces import Spaces
from gemrl.tables import working
from gemrl.threads import thread_count
from gemrl.tracking import check_installed, new_track, trackers, where
from gemrl.watchdog import ENV_TIMEOUT, Interrupts, answering, end_now, limit_answers

if TYPE_CHECKING:
    import numpy as np

    from gemrl.model import Model


def train_run(options: argparse.Namespace) -> int:
    """Trains in a new run's folder and says what came of it."""
    options.env_args = with_sticky(options.env, options.sticky, parse_env_args(options.env_args))
    env = environment_of(vars(options))()
    layout = Spaces.of(env).layout
    env.close()
    options.algo = suited(options.algo, layout)
    chosen = chosen_recipe(options.algo, options.env, layout, options.settings)
    every, episodes = usual_evaluations(options.env)
    options.eval_every, options.eval_episodes = options.eval_every or every, options.eval_episodes or episodes
    folder = options.run or Path("runs", options.algo, env_folder(vars(options)), str(options.seed))
    runs.check_free(folder)
    if options.tensorboard:
        check_installed("tensorboardX", "tensorboard")
    options.track = new_track(options.track)
    description = {name: getattr(options, name) for name in runs.CHOICES} | {
        "recipe": chosen.as_dict(),
        "threads": thread_count(),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "versions": runs.versions(),
    }
    with alone(folder):
        runs.create(folder, description)
        session = _Session(folder, description)
        try:
            return session.go()
        except GemrlError:
            # Refused at its first step: there is nothing to go on with.
            if session.steps <= options.n_envs and checkpoint.newest_step(folder) < 0:
                runs.forget(folder)
            raise


def resume_run(options: argparse.Namespace) -> int:
    """Goes on with a run, or says that it is finished."""
    folder = options.run
    description = runs.describe(folder)
    runs.check_resumable(folder, description, other_versions=options.other_versions)
    environment_of(description)().close()
    with alone(folder):
        if options.steps:
            if options.steps < description["steps"]:
                raise RunFolderError(f"{folder} was made for {description['steps']:,} steps already")
            beyond = options.steps > description["steps"] and runs.finished(folder, description["steps"])
            if beyond and checkpoint.newest_step(folder) < 0:
                raise RunFolderError(f"{folder} keeps no checkpoint, so it cannot go beyond its {description['steps']:,} steps")
            description |= {"steps": options.steps}
        if runs.finished(folder, description["steps"]):
            print(f"{folder} is finished: {description['steps']:,} steps; --steps N goes beyond")
            return DONE
        if source := runs.other_source(description):
            print(f"warning: gemrl's code has changed since this run began (source {source}), so bits may differ", flush=True)
        return _Session(folder, description | ({"env_timeout": options.env_timeout} if options.env_timeout else {})).go()


class _Session:
    """One sitting of a run, from its last checkpoint, if it has one, to its end or to an interrupt."""

    def __init__(self, folder: Path, run: dict[str, Any]) -> None:
        self._folder, self._run = folder, run
        self._console = Console()
        self._say = partial(self._console.print, highlight=False, soft_wrap=True, markup=False)
        self.steps = 0
        limit_answers(run.get("env_timeout", ENV_TIMEOUT))

    def go(self) -> int:
        """Trains; the exit code."""
        folder = self._folder
        checkpoint.clean(folder)
        with working("starting JAX"):
            found = checkpoint.newest(folder, self._load, self._say)
            model = found[1] if found else self._new_model()
        self._say(self._first_line(model.recipe))
        if warning := model.recipe.warning(self._run["steps"]):
            self._say(f"warning: {warning}, such as --set learning_starts=1000")
        insisted = partial(end_now, f"stopped at once; {folder} keeps its last checkpoint", INTERRUPTED)
        with self._told_of_disk(), Interrupts(insisted) as interrupts:
            if found:
                checkpoint.set_damaged_aside(folder, found[0])
            runs.extend(folder, self._run["steps"])  # not before it is sure that there is something to go on with
            try:
                finished = self._train(model, found[0] if found else None, interrupts)
            finally:  # whatever ends a run, what it has learnt can be looked at
                self.steps = model.num_timesteps
                model.save(folder / "model")
                with suppress(Exception), answering("its closing"):  # a broken environment need not close either
                    model.close()
            if not finished:
                self._say(f"interrupted at step {model.num_timesteps:,}; go on with: gemrl resume {folder}")
            one = model.env[0] if isinstance(model.env, list) else model.env
            _closing_words(folder, self._say, finished, drawn="rgb_array" in one.metadata.get("render_modes", ()))
        return DONE if finished else INTERRUPTED

    def _first_line(self, chosen: AnyRecipe) -> str:
        run = self._run
        cap = chosen.settable().get("depth")
        depth = f", depth {cap}" if cap else ""
        envs = f" x {run['n_envs']}" if run["n_envs"] > 1 else ""
        return f"{run['algo']} on {env_title(run)}{envs}, seed {run['seed']}, {run['steps']:,} steps{depth}"

    def _new_model(self) -> Model:
        from gemrl.models import MODELS
        from gemrl.vector import made

        run, env = self._run, made(environment_of(self._run), self._run["n_envs"])
        return MODELS[run["algo"]].from_recipe(runs.recipe_of(run), env, seed=run["seed"], device=run["device"])

    def _load(self, found: checkpoint.Checkpoint) -> Model:
        """The model of a checkpoint, if it is this run's."""
        model = runs.load(found.model, environment_of(self._run), device=self._run["device"])
        if (model.algo, model.recipe, model.seed) != (self._run["algo"], runs.recipe_of(self._run), self._run["seed"]):
            raise RunFolderError(f"{found.folder} is a checkpoint of another run: recipe or seed differ from run.json")
        if found.facts.get("env") != self._run["env"]:
            raise RunFolderError(f"{found.folder} is a checkpoint of another run: it is of {found.facts.get('env')}")
        if env_args(found.facts) != env_args(self._run):
            raise RunFolderError(f"{found.folder} is a checkpoint of another run: it is of {env_title(found.facts)}")
        return model

    def _train(self, model: Model, found: checkpoint.Checkpoint | None, interrupts: Interrupts) -> bool:
        """Trains, shows, records and writes checkpoints; False if interrupted."""
        from gemrl.console import with_progress
        from gemrl.training import scheduled

        run = self._run
        recorder = Recorder(self._folder, model.recipe)
        told = recorder.last_step()  # before lines beyond the checkpoint are dropped
        observation = self._go_on(model, recorder, found)
        schedule = scheduled(environment_of(run), run["eval_every"], run["eval_episodes"], run["seed"])
        clock = checkpoint.Clock(run["checkpoint_every"], model.num_timesteps)
        write = partial(self._write, model, recorder)
        moments = with_progress(model.training(run["steps"], schedule, observation), run["steps"], run["algo"])
        watched = trackers(self._folder, run, model.num_timesteps, told)
        with watched as every, closing(recorder), closing(schedule.evaluator), closing(moments):
            for moment in moments:
                line = recorder(moment)
                for tracker in every:
                    if line:
                        tracker.write(line, moment.step)
                if not moment.taken:
                    continue
                if interrupts.asked or moment.step >= run["steps"] or clock.due(moment.step):
                    clock.time(write, moment.step)
                if interrupts.asked:
                    return False
        return True

    def _go_on(self, model: Model, recorder: Recorder, found: checkpoint.Checkpoint | None) -> np.ndarray | None:
        """Takes up logs and the running episode; the observation to act on, or None for a new episode."""
        if found is None:
            recorder.start()
            return None
        recorder.resume(found.facts["recorder"], found.texts)
        with working("playing the running episode again"):
            observation = model.replay()
        self._say(f"resumed at step {model.num_timesteps:,}")
        if observation is None:
            self._say("the environment did not repeat its episode from the same seed and actions, so a new one begins here")
        return observation

    def _write(self, model: Model, recorder: Recorder) -> None:
        facts = {"env": self._run["env"], "env_args": env_args(self._run), "recorder": recorder.facts()}
        checkpoint.write(self._folder, model, facts, recorder.texts())

    @contextmanager
    def _told_of_disk(self) -> Iterator[None]:
        """Turns what the disk refuses into one line."""
        try:
            yield
        except OSError as error:
            raise RunBroken(f"cannot write to {self._folder}: {error.strerror or error}; its last checkpoint is kept") from None


def _closing_words(folder: Path, say: Any, finished: bool, *, drawn: bool) -> None:
    from gemrl.figures import learning_curve

    picture = learning_curve(folder)
    data = read_evaluations(folder)
    say(f"run folder        {folder}")
    if data["step"].size:
        mean, std = data["return_mean"][-1], data["return_std"][-1]
        which = "final evaluation" if finished else "last evaluation"
        say(f"{which:16}  return {mean:,.1f} ± {std:,.1f} at step {int(data['step'][-1]):,}")
    if picture:
        say(f"learning curve    {picture}")
    track = runs.describe(folder).get("track")
    if track:
        say(where(track, folder))
    watch = f"gemrl evaluate {folder} --video film.mp4" if drawn else f"gemrl evaluate {folder} --episodes 100"
    say(f"next              {watch if finished else f'gemrl resume {folder}'}")
