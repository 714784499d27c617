"""Which environments are tried, in groups of packages that can be installed together."""

from __future__ import annotations

from typing import NamedTuple


class World(NamedTuple):
    """An environment of another package, as it is written on the command line."""

    env: str
    package: str
    options: tuple[str, ...] = ()
    """What is added to the command."""


class Group(NamedTuple):
    """Environments that share a virtual environment."""

    name: str
    requires: tuple[str, ...]
    worlds: tuple[World, ...]
    pinned: bool = True
    """Whether gemrl's own pinned versions can be installed beside it."""


GROUPS = (
    Group(
        "present",
        ("highway-env", "minigrid", "panda-gym", "gymnasium[box2d]", "flappy-bird-gymnasium", "gym-anytrading"),
        (
            World("highway_env:highway-fast-v0", "highway-env"),
            World("highway_env:parking-v0", "highway-env"),
            World("minigrid:MiniGrid-Empty-5x5-v0", "minigrid", ("--wrap", "minigrid.wrappers:ImgObsWrapper")),
            World("panda_gym:PandaReach-v3", "panda-gym"),
            World("panda_gym:PandaPushDense-v3", "panda-gym"),
            World("BipedalWalker-v3", "gymnasium"),
            World("LunarLander-v3", "gymnasium"),
            World("flappy_bird_gymnasium:FlappyBird-v0", "flappy-bird-gymnasium"),
            World("gym_anytrading:stocks-v0", "gym-anytrading"),
        ),
    ),
    Group(
        "dm-control",
        ("shimmy[dm-control]", "mujoco<4"),
        (World("shimmy:dm_control/cartpole-balance-v0", "dm_control"), World("shimmy:dm_control/reacher-easy-v0", "dm_control")),
        pinned=False,
    ),
    Group(
        "robotics",
        ("gymnasium-robotics", "mujoco<3.4"),
        (
            World("gymnasium_robotics:FetchReach-v4", "gymnasium-robotics"),
            World("gymnasium_robotics:PointMaze_UMaze-v3", "gymnasium-robotics"),
        ),
        pinned=False,
    ),
    Group(
        "meta-world",
        ("metaworld",),
        (World("metaworld:Meta-World/MT1", "metaworld", ("--env-args", "env_name='reach-v3'")),),
        pinned=False,
    ),
    Group("pyflyt", ("PyFlyt",), (World("PyFlyt.gym_envs:PyFlyt/QuadX-Hover-v1", "PyFlyt"),), pinned=False),
)
