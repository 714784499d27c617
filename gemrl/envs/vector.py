"""Several environments at once: a list, a gymnasium VectorEnv in any autoreset mode, or a Stable-Baselines3 VecEnv."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, VectorEnv

from gemrl.core.exceptions import BadValue, EnvironmentFault
from gemrl.core.processes import env_call
from gemrl.core.seeding import derived_seed
from gemrl.core.snapshot import Snapshot
from gemrl.core.steps import EpisodeResult, Step, Transition
from gemrl.core.text import counted
from gemrl.envs.checking import check_rewards, checked_observation, checked_observations
from gemrl.envs.importing import first_line
from gemrl.envs.making import NamedEnv
from gemrl.envs.single import Task
from gemrl.envs.spaces import Spaces

MAX_LANES = 65_536
"""The largest number of environments that are stepped together: a model of as many can be saved and loaded."""


class Tasks:
    """A list of single environments, each with its own episodes and seeds."""

    def __init__(self, envs: list[gym.Env], seed: int) -> None:
        self._tasks = [Task(env, seed, lane) for lane, env in enumerate(envs)]
        self.lanes, self.env, self.spaces = len(envs), envs, self._tasks[0].spaces

    def close(self) -> None:
        """Closes the environments."""
        for task in self._tasks:
            task.close()

    def reset(self) -> np.ndarray:
        """Begins new episodes; returns their first observations [E, *O]."""
        return np.concatenate([task.reset() for task in self._tasks])

    def step(self, observation: np.ndarray, action: np.ndarray) -> Step:
        """Takes one step in each environment."""
        steps = [task.step(observation[i : i + 1], action[i : i + 1]) for i, task in enumerate(self._tasks)]
        return Step(
            Transition(*(np.concatenate(columns) for columns in zip(*(one.transition for one in steps), strict=True))),
            np.concatenate([one.observation for one in steps]),
            [episode for one in steps for episode in one.ended],
            [info for one in steps for info in one.infos],
        )

    def snapshot(self) -> Snapshot:
        """The snapshots of all environments."""
        return Snapshot.of(**{str(lane): task.snapshot() for lane, task in enumerate(self._tasks)})

    def restore(self, saved: Snapshot) -> None:
        """Continues with the episodes after those that were running in the snapshot."""
        for lane, task in enumerate(self._tasks):
            task.restore(saved.part(str(lane)))

    def replay(self, saved: Snapshot) -> np.ndarray | None:
        """Replays all running episodes; returns the observations to act on [E, *O], or None if any replay differs."""
        replayed = [task.replay(saved.part(str(lane))) for lane, task in enumerate(self._tasks)]
        same = [observation for observation in replayed if observation is not None]
        return np.concatenate(same) if len(same) == self.lanes else None


def _call(where: str, method: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a method of an environment. If it raises, the error names `where`."""
    try:
        with env_call(where):
            return method(*arguments)
    except Exception as error:
        raise EnvironmentFault(f"the environment raised {type(error).__name__} at {where}: {error}") from error


class _EpisodeCounter:
    """Returns and lengths of the running episodes of E environments."""

    def __init__(self, lanes: int) -> None:
        self._total, self._length = np.zeros(lanes), np.zeros(lanes, int)

    def add(self, reward: np.ndarray, stored: np.ndarray, done: np.ndarray) -> list[EpisodeResult]:
        """Counts a step; returns the episodes that ended with it."""
        self._total += np.where(stored, reward, 0)
        self._length += stored
        ended = [EpisodeResult(float(self._total[lane]), int(self._length[lane])) for lane in np.flatnonzero(done)]
        self._total[done], self._length[done] = 0, 0
        return ended


class _NoReplay:
    """Snapshots of environments that seed their own episodes: only the number of resets is kept."""

    env: Any
    resets = 0

    def close(self) -> None:
        """Closes the environments."""
        self.env.close()

    def snapshot(self) -> Snapshot:
        """The number of resets."""
        return Snapshot({"resets": self.resets}, {})

    def restore(self, saved: Snapshot) -> None:
        """Makes the next reset use the seed that it would have had."""
        self.resets = int(saved.facts["resets"])

    def replay(self, saved: Snapshot) -> np.ndarray | None:
        """Restores the number of resets. Returns None, since running episodes cannot be replayed."""
        self.restore(saved)
        return None


class VectorTask(_NoReplay):
    """A gymnasium VectorEnv. It is seeded at each call of `reset` and chooses the seeds of later episodes itself."""

    def __init__(self, env: VectorEnv, seed: int) -> None:
        self.env, self.lanes = env, env.num_envs
        self.spaces = spaces_of(env)
        try:
            self._mode = AutoresetMode(env.metadata.get("autoreset_mode"))
        except ValueError as error:
            raise BadValue(f"the vector environment's metadata must specify autoreset_mode: {error}") from None
        self._seed = seed
        self._counter = _EpisodeCounter(self.lanes)
        self._steps = 0
        self._done = np.zeros(self.lanes, bool)

    def reset(self) -> np.ndarray:
        """Begins new episodes; returns their first observations [E, *O]."""
        seed = derived_seed(self._seed, "training episode", self.resets)
        observation, _ = _call("reset", partial(self.env.reset, seed=seed))
        self.resets += 1
        self._counter, self._done = _EpisodeCounter(self.lanes), np.zeros(self.lanes, bool)
        return checked_observations(self.spaces, observation, self.lanes, "reset")

    def step(self, observation: np.ndarray, action: np.ndarray) -> Step:
        """Takes one step in each environment. In NEXT_STEP mode, a lane whose episode ended is only reset; nothing is stored."""
        self._steps += 1
        where = f"step {self._steps}"
        next_observation, reward, terminated, truncated, infos = _call(where, self.env.step, self.spaces.env_action(action))
        done = terminated | truncated
        stored = ~self._done if self._mode == AutoresetMode.NEXT_STEP else np.ones(self.lanes, bool)
        after = checked_observations(self.spaces, next_observation, self.lanes, where)
        reached = after  # the observations before any reset; `after` has those to act on next
        if self._mode == AutoresetMode.SAME_STEP and done.any():
            reached = after.copy()
            for lane in np.flatnonzero(done):
                reached[lane] = checked_observation(self.spaces, infos["final_obs"][lane], where)
        check_rewards(reward[stored], where)
        done &= stored
        if self._mode == AutoresetMode.DISABLED and done.any():
            reset, _ = _call(where, partial(self.env.reset, options={"reset_mask": done}))
            after = after.copy()
            after[done] = checked_observations(self.spaces, reset, self.lanes, where)[done]
        self._done = done
        transition = Transition(observation, action, reward, terminated, truncated, reached, stored)
        lane_infos = [_lane_info(infos, lane, self.lanes) for lane in range(self.lanes)]
        return Step(transition, after, self._counter.add(reward, stored, done), lane_infos)


def _lane_info(infos: dict[str, Any], lane: int, lanes: int) -> dict[str, Any]:
    """The info of one lane of a VectorEnv. Where the lane was reset in the same step, its final info takes precedence."""
    info: dict[str, Any] = {}
    for name, value in infos.items():
        if name.startswith("_") or (f"_{name}" in infos and not infos[f"_{name}"][lane]):
            continue
        if isinstance(value, dict):
            info[name] = _lane_info(value, lane, lanes)
        else:
            info[name] = value[lane] if isinstance(value, (np.ndarray, list, tuple)) and len(value) == lanes else value
    return info | info.get("final_info", {})


class VecEnvTask(_NoReplay):
    """A Stable-Baselines3 VecEnv, which resets itself and puts an episode's last observation into its infos."""

    def __init__(self, env: Any, seed: int) -> None:
        self.env, self.lanes = env, env.num_envs
        self.spaces = spaces_of(env)
        self._seed = seed
        self._counter = _EpisodeCounter(self.lanes)
        self._steps = 0

    def reset(self) -> np.ndarray:
        """Begins new episodes; returns their first observations [E, *O]."""
        self._counter = _EpisodeCounter(self.lanes)
        self.env.seed(derived_seed(self._seed, "training episode", self.resets))
        self.resets += 1
        return checked_observations(self.spaces, _call("reset", self.env.reset), self.lanes, "reset")

    def step(self, observation: np.ndarray, action: np.ndarray) -> Step:
        """Takes one step in each environment."""
        self._steps += 1
        where = f"step {self._steps}"
        next_observation, reward, done, infos = _call(where, self.env.step, self.spaces.env_action(action))
        after = checked_observations(self.spaces, next_observation, self.lanes, where)
        check_rewards(reward, where)
        reached, truncated = after.copy(), np.zeros(self.lanes, bool)
        for lane in np.flatnonzero(done):
            reached[lane] = checked_observation(self.spaces, infos[lane]["terminal_observation"], where)
            truncated[lane] = infos[lane].get("TimeLimit.truncated", False)
        stored = np.ones(self.lanes, bool)
        transition = Transition(observation, action, reward, done & ~truncated, truncated, reached, stored)
        return Step(transition, after, self._counter.add(reward, stored, done), infos)


AnyTask = Task | Tasks | VectorTask | VecEnvTask
"""Environments to train in, of any kind."""


def name_of(env: Any) -> str:
    """The id of an environment of any kind; empty if it is not registered."""
    spec = _spec_of(env)
    return spec.id if spec else ""


def _spec_of(env: Any) -> EnvSpec | None:
    """How an environment of any kind was registered; None if it was not."""
    spec = env.get_attr("spec")[0] if _is_vec_env(env) else getattr(env, "spec", None)
    if spec is None and isinstance(getattr(env, "envs", None), list):
        spec = env.envs[0].spec
    return spec


def make_like(env: Any) -> gym.Env:
    """A new single environment like this one, or like one of several. Raises unless it was made by its id."""
    one = env[0] if isinstance(env, list) else env
    spec = _spec_of(one)
    if spec is None:
        raise BadValue("the model's environment has no id to make another one by: pass env, a function that returns a new one")
    try:
        return gym.make(spec)
    except Exception as error:  # a wrapper that does not record its arguments
        raise BadValue(f"cannot make another {spec.id} with its wrappers: {first_line(error)}; pass env") from None


def _is_vec_env(env: Any) -> bool:
    return all(hasattr(env, name) for name in ("num_envs", "step_async", "step_wait", "env_is_wrapped"))


def as_task(env: Any, seed: int) -> AnyTask:
    """The task for an environment of any supported kind, or for a list of single ones."""
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
    """The spaces of a single environment within any supported kind or a list."""
    if isinstance(env, VectorEnv):
        return Spaces(env.single_observation_space, env.single_action_space)
    if _is_vec_env(env):
        return Spaces(env.observation_space, env.action_space)
    one = env[0] if isinstance(env, list) and env else env
    if not isinstance(one, gym.Env):
        raise BadValue(f"env must be an id, a gymnasium.Env, a VectorEnv or a VecEnv, not {type(one).__name__}")
    return Spaces.of(one)


def check_lanes(lanes: int, given: int) -> None:
    """Raises unless the number of environments matches the lanes of the memory."""
    if given != lanes:
        raise BadValue(f"the model's memory is for {counted(lanes, 'environment')}, not {given}")


def make_envs(env: Any, n_envs: int = 1) -> Any:
    """One environment, or a list of `n_envs`, if `env` is an id or a NamedEnv; otherwise `env` itself."""
    if isinstance(env, str):
        env = NamedEnv(env)
    if not isinstance(env, NamedEnv):
        return env
    return env() if n_envs == 1 else [env() for _ in range(n_envs)]
