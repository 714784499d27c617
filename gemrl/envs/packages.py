"""Packages with environments that are not part of gymnasium: which ids they have, and how to install them."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Package:
    """A package whose module registers environments when it is imported."""

    requirement: str
    """What pip installs."""
    module: str
    """The module that registers the environments."""
    ids: str
    """A regular expression that matches the beginning of their ids."""
    needs: str = ""
    """Another module without which it does not register them."""


_ROADS = "exit|highway|intersection|lane-keeping|merge|parking|racetrack|roundabout|two-way|u-turn"
_ROBOTS = "AdroitHand|AntMaze_|Fetch(PickAndPlace|Push|Reach|Slide)|FrankaKitchen|HandManipulate|HandReach|PointMaze_"

PACKAGES = (
    Package("shimmy[dm-control]", "shimmy", "dm_control/", needs="dm_control"),
    Package("highway-env", "highway_env", f"({_ROADS})-"),
    Package("gymnasium-robotics", "gymnasium_robotics", f"({_ROBOTS})"),
    Package("panda-gym", "panda_gym", "Panda(Flip|PickAndPlace|Push|Reach|Slide|Stack)"),
    Package("minigrid", "minigrid", "(MiniGrid|BabyAI)-"),
    Package("metaworld", "metaworld", "Meta-World/"),
    Package("pyflyt", "PyFlyt.gym_envs", "PyFlyt/"),
    Package("myosuite", "myosuite", "myo[A-Z]"),
    Package("miniworld", "miniworld", "MiniWorld-"),
    Package("miniwob", "miniwob", "miniwob/"),
    Package("vizdoom", "vizdoom.gymnasium_wrapper", "Vizdoom"),
    Package("pybullet_envs_gymnasium", "pybullet_envs_gymnasium", "[A-Za-z]+BulletEnv-"),
)
"""Well-known packages; their ids were read from their sources in 2026."""


def where_to_find(env_id: str) -> str:
    """How to get an environment that gymnasium does not know, if a known package has such ids; else an empty string."""
    module, _, name = env_id.rpartition(":")
    for package in PACKAGES:
        if re.match(package.ids, name):
            full = f"{package.module}:{name}"
            if not _installed(package):
                return f"pip install {_quoted(package.requirement)}, then use {full}"
            return "" if module else f"such ids are in {package.module}: use {full}"
    return ""


def requirement_of(module: str) -> str:
    """What to install for a module, if it is that of a known package; else an empty string."""
    found = (package.requirement for package in PACKAGES if package.module.partition(".")[0] == module)
    return _quoted(next(found, ""))


def _installed(package: Package) -> bool:
    """Whether a package, and what it needs, can be imported."""
    modules = [module.partition(".")[0] for module in (package.module, package.needs) if module]
    return all(importlib.util.find_spec(module) for module in modules)


def _quoted(requirement: str) -> str:
    """A requirement as a shell takes it."""
    return f"'{requirement}'" if "[" in requirement else requirement
