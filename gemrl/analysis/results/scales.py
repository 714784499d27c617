"""Scales that normalise the returns of a task: the returns that count as 0 and 1, and their source."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from gemrl.analysis.results.collection import Collection
from gemrl.analysis.results.run import task_name
from gemrl.core.env_names import id_of, is_atari

MUJOCO = "0: uniform random actions on v5 (100 episodes, MuJoCo 4.0.0); 1: TD3 at 1M steps on v3, published with Tianshou"
ATARI = "0: a random player; 1: a human, both as published with the DQN papers (Wang et al., 2016)"
OWN = "0: mean of the first evaluations of all runs; 1: mean score of the best method in this report"
DECLINED = "no method improved, so 0: mean score of the worst method in this report; 1: mean of the first evaluations of all runs"

REFERENCES: dict[str, tuple[float, float, str]] = {
    "HalfCheetah": (-282.5, 10136.0, MUJOCO),
    "Ant": (-48.0, 4938.0, MUJOCO),
    "Swimmer": (0.8, 98.0, MUJOCO),
    "Humanoid": (112.6, 5084.0, MUJOCO),
    "Walker2d": (1.8, 3895.0, MUJOCO),
    "Hopper": (16.7, 3237.0, MUJOCO),
    "Alien": (227.8, 7127.7, ATARI),
    "Frostbite": (65.2, 4334.7, ATARI),
    "Zaxxon": (32.5, 9173.3, ATARI),
    "BattleZone": (2360.0, 37187.5, ATARI),
    "WizardOfWor": (563.5, 4756.5, ATARI),
    "MsPacman": (307.3, 6951.6, ATARI),
}
"""By task: the returns that count as 0 and 1, and their source."""


class Scale(NamedTuple):
    """The returns that count as 0 and 1, and their source."""

    low: float
    high: float
    source: str


def scale(collection: Collection, env: str) -> Scale:
    """The published scale of a task, or one derived from the runs."""
    task = task_name(env)
    if task in REFERENCES and _is_published(env, REFERENCES[task][2]):
        return Scale(*REFERENCES[task])
    low = float(np.mean([run.evaluations["return_mean"][0] for run in collection.runs if run.env == env]))
    present = [method for method in collection.methods if collection.of(method, env)]
    ends = [float(collection.scores(method, env).mean()) for method in present]
    if max(ends) > low:
        return Scale(low, max(ends), OWN)
    return Scale(min(ends), low if low > min(ends) else low + 1.0, DECLINED)


def _is_published(env: str, source: str) -> bool:
    """Whether the published numbers apply: not to a custom environment of the same name or with other arguments."""
    return is_atari(id_of(env)) if source == ATARI else re.fullmatch(r"\w+-v\d+", env) is not None
