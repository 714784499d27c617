"""Environments in the form that Stable-Baselines3's callbacks and tools expect."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import gymnasium as gym

from gemrl.envs.single import Task
from gemrl.envs.vector import AnyTask, Tasks, VecEnvTask


def as_vec_env(task: AnyTask | None) -> Any:
    """The environment of a task; as a VecEnv if Stable-Baselines3 is imported, since its callbacks expect one."""
    env = task.env if task else None
    if isinstance(task, (Task, Tasks)) and "stable_baselines3" in sys.modules:
        from stable_baselines3.common.vec_env import DummyVecEnv

        envs: list[Any] = env if isinstance(env, list) else [env]
        return DummyVecEnv([partial(_identity, one) for one in envs])
    return env


def _identity(env: gym.Env) -> gym.Env:
    return env


def vec_normalize(task: AnyTask | None) -> Any:
    """Stable-Baselines3's VecNormalize around a task's environment, if there is one."""
    if not isinstance(task, VecEnvTask):
        return None
    from stable_baselines3.common.vec_env import unwrap_vec_normalize

    return unwrap_vec_normalize(task.env)
