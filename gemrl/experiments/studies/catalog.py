"""The named studies. Each figure of the paper is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gemrl.core.suggestions import unknown
from gemrl.experiments.studies.study import Study, TheoryStudy
from gemrl.experiments.studies.toml_file import read_study

WARM_UP = "learning_starts=10000"
MUJOCO = ("HalfCheetah-v5", "Ant-v5", "Swimmer-v5", "Humanoid-v5", "Walker2d-v5", "Hopper-v5")
GAMES = ("Alien", "Frostbite", "Zaxxon", "BattleZone", "WizardOfWor", "MsPacman")
PLAIN, STICKY = (tuple(f"ALE/{game}-v5" for game in games) for games in (GAMES, ("Alien", "Frostbite", "MsPacman")))
MINATAR = tuple(f"MinAtar/{game}-v1" for game in ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders"))
DISCRETE = ("gem-discrete", "dqn", "ddqn", "dueling-dqn", "clipped-ddqn")
EPISODIC = ("gem-discrete", "nec", "emdqn", "ebu", "mfec", "dqn")
ATARI: dict[str, Any] = {"seeds": (0, 1, 2), "steps": 2_500_000, "eval_every": 50_000, "eval_episodes": 5}
"""Steps are agent steps of four frames each. The warm-up is that of the Atari preset, 20,000 steps, for every agent."""

_ALL = (
    Study(
        "mujoco",
        "GEM and its baselines on MuJoCo tasks (the paper's main figure)",
        ("gem", "td3", "sac", "ddpg", "td3-sil"),
        MUJOCO,
        settings=(WARM_UP,),
    ),
    Study(
        "ablation",
        "GEM without each of its components: returns and estimation error (the paper's ablation)",
        ("gem", "td3", "td3-sil", "gem-no-tbp", "gem-no-asymmetry", "gem-lambda", "optimality-tightening", "redq"),
        ("HalfCheetah-v5", "Ant-v5", "Humanoid-v5"),
        settings=(WARM_UP,),
    ),
    Study(
        "nstep",
        "GEM and td3 with n-step targets, for both rollout caps that GEM uses (the paper's appendix)",
        ("gem", "td3", "td3-nstep depth=5", "td3-nstep depth=1000"),
        MUJOCO,
        settings=(WARM_UP,),
    ),
    Study("atari", "GEM and DQN variants on Atari games (the paper's Atari figure)", DISCRETE, PLAIN, **ATARI),
    Study(
        "atari-rollout",
        "Rollout lengths of GEM on Atari games (the paper's appendix)",
        tuple(f"gem-discrete depth={depth}" for depth in (1, 5, 20, 100, 1000)),
        PLAIN,
        **ATARI,
    ),
    Study(
        "atari-sticky",
        "Atari games with sticky actions (the paper's appendix)",
        DISCRETE,
        STICKY,
        env_args=("repeat_action_probability=0.25",),
        **ATARI,
    ),
    Study("minatar", "GEM and DQN variants on the MinAtar games", DISCRETE, MINATAR),
    Study(
        "cartpole",
        "GEM and DQN variants on CartPole-v1",
        DISCRETE,
        ("CartPole-v1",),
        (0, 1, 2),
        50_000,
        eval_every=2_500,
    ),
    Study(
        "episodic",
        "Agents with an episodic memory, and DQN, on CartPole-v1",
        EPISODIC,
        ("CartPole-v1",),
        (0, 1),
        50_000,
        ("learning_starts=1000",),
        2_500,
    ),
    Study(
        "episodic-minatar",
        "Agents with an episodic memory, and DQN, on MinAtar Breakout",
        EPISODIC,
        ("MinAtar/Breakout-v1",),
        (0, 1),
        200_000,
        ("learning_starts=5000",),
    ),
    Study(
        "episodic-mujoco",
        "Agents with an episodic memory, and td3, on two MuJoCo tasks",
        ("gem", "emac", "td3"),
        ("Hopper-v5", "Swimmer-v5"),
        (0, 1),
        100_000,
        ("learning_starts=5000",),
        5_000,
    ),
    Study(
        "ladder",
        "The ladder: from a plain memory agent to GEM, one component at a time, and td3",
        ("td3", *(f"ladder-{rung}" for rung in range(7))),
        ("HalfCheetah-v5",),
        (0, 1),
        30_000,
        settings=(WARM_UP,),
    ),
    Study(
        "gem2-ladder",
        "The ladder from gem to gem2, one idea at a time",
        tuple(f"gem2-ladder-{rung}" for rung in range(7)),
        ("HalfCheetah-v5", "Hopper-v5"),
        (0, 1),
        50_000,
        eval_every=5_000,
    ),
    Study(
        "quick",
        "gem, td3 and sac on two small tasks; takes minutes",
        ("gem", "td3", "sac"),
        ("Pendulum-v1", "InvertedPendulum-v5"),
        (0, 1),
        5_000,
        ("learning_starts=1000",),
        500,
    ),
)
STUDIES: dict[str, Study | TheoryStudy] = {study.name: study for study in _ALL}
"""Every named study."""
STUDIES["theory"] = TheoryStudy("theory", "The paper's theorems as experiments (no training)")


def study(name: str) -> Study | TheoryStudy:
    """The study with this name, or the one in a TOML file."""
    if name.endswith(".toml"):
        return read_study(Path(name))
    if name not in STUDIES:
        raise unknown("study", name, STUDIES, f"; known: {', '.join(STUDIES)}, or a .toml file")
    return STUDIES[name]
