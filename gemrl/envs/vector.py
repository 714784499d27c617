"""Several environments at once: our own list, a gymnasium VectorEnv in any autoreset mode, or a VecEnv of Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from gemrl.core.exceptions import BadValue, EnvironmentFault
from gemrl.core.processes import env_call
from gemrl.core.seeding import derived_seed
from gemrl.core.snapshot import Snapshot
from gemrl.core.steps import EpisodeResult, Step, Transition
from gemrl.envs.checking import checked, checked_batch
from gemrl.envs.making import NamedEnv
from gemrl.envs.single import Task
from gemrl.envs.spaces import Spaces


class Tasks:
    """A number of single environments, each with episodes and seeds of its own."""

    def __init__(self, envs: list[gym.Env], seed: int) -> None:
        self._tasks = [Task(env, seed, lane) for lane, env in enumerate(envs)]
        self.lanes, self.env, self.spaces = len(envs), envs, self._tasks[0].spaces

    def close(self) -> None:
        """Closes the environments."""
        for task in self._tasks:
            task.close()

    def reset(self) -> np.ndarray:
        """Begins new episodes; their first observations [E, *O]."""
        return np.concatenate([task.reset() for task in self._tasks])

    def step(self, observation: np.ndarray, action: np.ndarray) -> Step:
        """One step of each environment."""
        each = [task.step(observation[i : i + 1], action[i : i + 1]) for i, task in enumerate(self._tasks)]
        return Step(
            Transition(*(np.concatenate(columns) for columns in zip(*(one.transition for one in each), strict=True))),
            np.concatenate([one.observation for one in each]),
            [episode for one in each for episode in one.ended],
            [info for one in each for info in one.infos],
        )

    def snapshot(self) -> Snapshot:
        """Those of all environments."""
        return Snapshot.of(**{str(lane): task.snapshot() for lane, task in enumerate(self._tasks)})

    def restore(self, saved: Snapshot) -> None:
        """Goes on with the episodes after those of a snapshot."""
        for lane, task in enumerate(self._tasks):
            task.restore(saved.part(str(lane)))

    def replay(self, saved: Snapshot) -> np.ndarray | None:
        """Plays all running episodes again; the observations to act on [E, *O], or None if one came out otherwise."""
        again = [task.replay(saved.part(str(lane))) for lane, task in enumerate(self._tasks)]
        same = [observation for observation in again if observation is not None]
        return np.concatenate(same) if len(same) == self.lanes else None


def _asked(where: str, method: Callable[..., Any], *words: Any) -> Any:
    """What a method of an environment answers; what it raises is told with its place."""
    try:
        with env_call(where):
            return method(*words)
    except Exception as error:
        raise EnvironmentFault(f"the environment raised {type(error).__name__} at {where}: {error}") from error


class _Scores:
    """Returns and lengths of the running episodes of E environments."""

    def __init__(self, lanes: int) -> None:
        self._total, self._length = np.zeros(lanes), np.zeros(lanes, int)

    def add(self, reward: np.ndarray, stored: np.ndarray, done: np.ndarray) -> list[EpisodeResult]:
        """Counts a step; the episodes that ended with it."""
        self._total += np.where(stored, reward, 0)
        self._length += stored
        ended = [EpisodeResult(float(self._total[lane]), int(self._length[lane])) for lane in np.flatnonzero(done)]
        self._total[done], self._length[done] = 0, 0
        return ended


class _Unrepeatable:
    """What is left of an environment that draws its episodes' seeds itself: how often we have reset it."""

    env: Any
    resets = 0

    def close(self) -> None:
        """Closes the environments."""
        self.env.close()

    def snapshot(self) -> Snapshot:
        """The number of resets."""
        return Snapshot({"resets": self.resets}, {})

    def restore(self, saved: Snapshot) -> None:
        """The next reset is seeded as it would have been."""
        self.resets = int(saved.facts["resets"])

    def replay(self, saved: Snapshot) -> np.ndarray | None:
        """Nothing: its running episodes cannot be played again."""
        self.restore(saved)
        return None


class VectorTask(_Unrepeatable):
    """A gymnasium VectorEnv. It is seeded whenever we reset it, and draws the seeds of later episodes itself."""

    def __init__(self, env: VectorEnv, seed: int) -> None:
        self.env, self.lanes = env, env.num_envs
        self.spaces = spaces_of(env)
        try:
            self._mode = AutoresetMode(env.metadata.get("autoreset_mode"))
        except ValueError as error:
            raise BadValue(f"the vector environment's metadata must name its autoreset_mode: {error}") from None
        self._seed = seed
        self._scores = _Scores(self.lanes)
        self._steps = 0
        self._done = np.zeros(self.lanes, bool)

    def reset(self) -> np.ndarray:
        """Begins new episodes; their first observations [E, *O]."""
        seed = derived_seed(self._seed, "training episode", self.resets)
        observation, _ = _asked("reset", partial(self.env.reset, seed=seed))
        self.resets += 1
        self._scores, self._done = _Scores(self.lanes), np.zeros(self.lanes, bool)
        return checked_batch(self.spaces, observation, "reset")

    def step(self, observation: np.ndarray, action: np.ndarray) -> Step:
        """One step of each environment; in NEXT_STEP mode a lane that ended is only reset, and nothing of that is stored."""
        self._steps += 1
        where = f"step {self._steps}"
        following, reward, terminated, truncated, infos = _asked(where, self.env.step, self.spaces.taken(action))
        done = terminated | truncated
        stored = ~self._done if self._mode == AutoresetMode.NEXT_STEP else np.ones(self.lanes, bool)
        after = checked_batch(self.spaces, following, where)
        reached = after
        if self._mode == AutoresetMode.SAME_STEP and done.any():
            reached = after.copy()
            for lane in np.flatnonzero(done):
                reached[lane] = checked(self.spaces, infos["final_obs"][lane], where)
        if not np.isfinite(reward[stored]).all():
            raise EnvironmentFault(f"the environment returned a reward that is not finite at {where}")
        done &= stored
        if self._mode == AutoresetMode.DISABLED and done.any():
            reset, _ = _asked(where, partial(self.env.reset, options={"reset_mask": done}))
            after = after.copy()
            after[done] = checked_batch(self.spaces, reset, where)[done]
        self._done = done
        transition = Transition(observation, action, reward, terminated, truncated, reached, stored)
        told = [_info_of(infos, lane, self.lanes) for lane in range(self.lanes)]
        return Step(transition, after, self._scores.add(reward, stored, done), told)


def _info_of(infos: dict[str, Any], lane: int, lanes: int) -> dict[str, Any]:
    """What a VectorEnv's infos say of one lane; of one that was reset at once, what they said of its last step above all."""
    told: dict[str, Any] = {}
    for name, value in infos.items():
        if name.startswith("_") or (f"_{name}" in infos and not infos[f"_{name}"][lane]):
            continue
        if isinstance(value, dict):
            told[name] = _info_of(value, lane, lanes)
        else:
            told[name] = value[lane] if isinstance(value, (np.ndarray, list, tuple)) and len(value) == lanes else value
    return told | told.get("final_info", {})


class VecEnvTask(_Unrepeatable):
    """A VecEnv of Stable-Baselines3, which resets by itself and keeps the last observation in its infos."""

    def __init__(self, env: Any, seed: int) -> None:
        self.env, self.lanes = env, env.num_envs
        self.spaces = spaces_of(env)
        self._seed = seed
        self._scores = _Scores(self.lanes)
        self._steps = 0

    def reset(self) -> np.ndarray:
        """Begins new episodes; their first observations [E, *O]."""
        self._scores = _Scores(self.lanes)
        self.env.seed(derived_seed(self._seed, "training episode", self.resets))
        self.resets += 1
        return checked_batch(self.spaces, _asked("reset", self.env.reset), "reset")

    def step(self, observation: np.ndarray, action: np.ndarray) -> Step:
        """One step of each environment."""
        self._steps += 1
        where = f"step {self._steps}"
        following, reward, done, infos = _asked(where, self.env.step, self.spaces.taken(action))
        after = checked_batch(self.spaces, following, where)
        if not np.isfinite(reward).all():
            raise EnvironmentFault(f"the environment returned a reward that is not finite at {where}")
        reached, truncated = after.copy(), np.zeros(self.lanes, bool)
        for lane in np.flatnonzero(done):
            reached[lane] = checked(self.spaces, infos[lane]["terminal_observation"], where)
            truncated[lane] = infos[lane].get("TimeLimit.truncated", False)
        stored = np.ones(self.lanes, bool)
        transition = Transition(observation, action, reward, done & ~truncated, truncated, reached, stored)
        return Step(transition, after, self._scores.add(reward, stored, done), infos)


AnyTask = Task | Tasks | VectorTask | VecEnvTask


def name_of(env: Any) -> str:
    """The id of an environment of any kind, or nothing if it was not registered."""
    spec = env.get_attr("spec")[0] if _is_vec_env(env) else getattr(env, "spec", None)
    if spec is None and isinstance(getattr(env, "envs", None), list):
        spec = env.envs[0].spec
    return spec.id if spec else ""


def _is_vec_env(env: Any) -> bool:
    return all(hasattr(env, name) for name in ("num_envs", "step_async", "step_wait", "env_is_wrapped"))


def as_task(env: Any, seed: int) -> AnyTask:
    """The task of an environment of any kind that we know, or of a list of single ones."""
    if isinstance(env, gym.Env):
        return Task(env, seed)
    if isinstance(env, VectorEnv):
        return VectorTask(env, seed)
    if isinstance(env, list) and env and all(isinstance(one, gym.Env) for one in env):
        return Tasks(env, seed)
    if _is_vec_env(env):
        return VecEnvTask(env, seed)
    raise BadValue(f"env must be an id, a gymnasium.Env, a VectorEnv or a VecEnv, not {type(env).__name__}")


def spaces_of(env: Any) -> Spaces:
    """The spaces of one of E environments of any kind, or of a list of single ones."""
    if isinstance(env, VectorEnv):
        return Spaces(env.single_observation_space, env.single_action_space)
    if _is_vec_env(env):
        return Spaces(env.observation_space, env.action_space)
    one = env[0] if isinstance(env, list) and env else env
    if not isinstance(one, gym.Env):
        raise BadValue(f"env must be an id, a gymnasium.Env, a VectorEnv or a VecEnv, not {type(one).__name__}")
    return Spaces.of(one)


def check_lanes(remembered: int, given: int) -> None:
    """Raises unless a memory of so many environments can go on with those that are given."""
    if given != remembered:
        raise BadValue(f"the model's memory is for {remembered} environments, not {given}")


def made(env: Any, n_envs: int = 1) -> Any:
    """The environment itself, or what its name means: one, or a list of several."""
    if isinstance(env, str):
        env = NamedEnv(env)
    if not isinstance(env, NamedEnv):
        return env
    return env() if n_envs == 1 else [env() for _ in range(n_envs)]
