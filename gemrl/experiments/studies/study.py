"""Each figure of the paper as data: recipes x environments x seeds. A user's own study is a TOML file with the same fields."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from gemrl.algorithms.registry import general_name
from gemrl.core.env_names import path_name
from gemrl.core.exceptions import BadValue
from gemrl.core.literals import split_setting
from gemrl.core.suggestions import unknown
from gemrl.core.validation import check_number
from gemrl.envs.arguments import parse_env_args


class Entry(NamedTuple):
    """A recipe that takes part, with fields of its own changed."""

    algo: str
    settings: tuple[str, ...] = ()

    @staticmethod
    def of(text: str) -> Entry:
        """What "td3-nstep depth=5" spells: a recipe, then its settings."""
        if not text.strip():
            raise BadValue("algos hold an empty name")
        algo, *settings = text.split()
        for setting in settings:
            split_setting(setting, "a recipe in algos")
        return Entry(algo, tuple(settings))

    @property
    def label(self) -> str:
        """Its name in the study, and its folder's."""
        return "-".join([self.algo, *self.settings]).replace("/", "-")

    @property
    def text(self) -> str:
        """What `of` reads."""
        return " ".join([self.algo, *self.settings])


class Trial(NamedTuple):
    """One training of a study."""

    entry: Entry
    env: str
    seed: int

    @property
    def place(self) -> Path:
        """Its folder, inside the study's."""
        return Path(self.entry.label, path_name(self.env), str(self.seed))

    def __str__(self) -> str:
        return f"{self.entry.label} on {self.env}, seed {self.seed}"


@dataclass(frozen=True)
class Study:
    """What is trained where, how often and how long."""

    name: str
    title: str
    algos: tuple[str, ...]
    """Recipes, each perhaps with settings of its own: "td3-nstep depth=5"."""
    envs: tuple[str, ...]
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    steps: int = 1_000_000
    settings: tuple[str, ...] = ()
    """Fields that are set in every recipe, such as "learning_starts=10000"."""
    eval_every: int = 10_000
    eval_episodes: int = 10
    env_args: tuple[str, ...] = ()
    """What every environment is made with, such as "repeat_action_probability=0.25"."""

    def __post_init__(self) -> None:
        if not self.name or Path(self.name).name != self.name:
            raise BadValue(f"the name of a study is a folder's too, so it cannot be {self.name!r}")
        for field in ("algos", "envs", "seeds"):
            values = getattr(self, field)
            if not values:
                raise BadValue(f"a study needs at least one of its {field}")
            if field != "seeds":  # as folders know them: spaces do not count, nor what stands between names
                values = [Entry.of(text).label if field == "algos" else path_name(text) for text in values]
            if len(set(values)) < len(values):
                raise BadValue(f"{field} name {next(value for value in values if values.count(value) > 1)} twice")
        for number in ("steps", "eval_every", "eval_episodes"):
            check_number(number, getattr(self, number), 1, whole=True)
        for setting in self.settings:
            split_setting(setting, "settings")
        parse_env_args(self.env_args, "env_args")

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The recipes that take part."""
        return tuple(Entry.of(text) for text in self.algos)

    @property
    def runs(self) -> list[Trial]:
        """Every run: first all recipes and environments with the first seed, so that a study that is stopped early compares."""
        return [Trial(entry, env, seed) for seed in self.seeds for env in self.envs for entry in self.entries]

    def scaled(self, **changes: Any) -> Self:
        """The same study with the fields changed that are not None; `seeds` may be a number of them."""
        given = {name: value for name, value in changes.items() if value is not None}
        if isinstance(given.get("seeds"), int):
            given["seeds"] = tuple(some_seeds(given["seeds"]))
        if "algos" in given:
            # What people call gem is gem-discrete in studies of discrete actions, whose runs are in folders of that name.
            known = {general_name(entry.algo): entry.text for entry in self.entries if not entry.settings}
            known |= {entry.label: entry.text for entry in self.entries}
            given["algos"] = tuple(known.get(text, text) for text in given["algos"])
        return dataclasses.replace(self, **given)


def some_seeds(number: int) -> range:
    """So many seeds, from 0 on."""
    check_number("seeds", number, 1, 1000, whole=True)
    return range(number)


@dataclass(frozen=True)
class TheoryStudy:
    """A study without training: the theorems as experiments, as `gemrl theory` runs them."""

    name: str
    title: str


WARM_UP = "learning_starts=10000"
MUJOCO = ("HalfCheetah-v5", "Ant-v5", "Swimmer-v5", "Humanoid-v5", "Walker2d-v5", "Hopper-v5")
GAMES = ("Alien", "Frostbite", "Zaxxon", "BattleZone", "WizardOfWor", "MsPacman")
PLAIN, STICKY = (tuple(f"ALE/{game}-v5" for game in games) for games in (GAMES, ("Alien", "Frostbite", "MsPacman")))
MINATAR = tuple(f"MinAtar/{game}-v1" for game in ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders"))
DISCRETE = ("gem-discrete", "dqn", "ddqn", "dueling-dqn", "clipped-ddqn")
ATARI: dict[str, Any] = {"seeds": (0, 1, 2), "steps": 2_500_000, "eval_every": 50_000, "eval_episodes": 5}
"""Steps are the agent's, of four frames each. Warm-up is the Atari preset's, 20,000, the same for every agent."""

_ALL = (
    Study(
        "mujoco",
        "GEM beside its baselines on MuJoCo tasks (the paper's main figure)",
        ("gem", "td3", "sac", "ddpg", "td3-sil"),
        MUJOCO,
        settings=(WARM_UP,),
    ),
    Study(
        "ablation",
        "GEM without each of its parts: returns and estimation error (the paper's ablation)",
        ("gem", "td3", "td3-sil", "gem-no-tbp", "gem-no-asymmetry", "gem-lambda", "optimality-tightening", "redq"),
        ("HalfCheetah-v5", "Ant-v5", "Humanoid-v5"),
        settings=(WARM_UP,),
    ),
    Study(
        "nstep",
        "GEM beside td3 with n-step targets of both lengths that GEM uses (the paper's appendix)",
        ("gem", "td3", "td3-nstep depth=5", "td3-nstep depth=1000"),
        MUJOCO,
        settings=(WARM_UP,),
    ),
    Study("atari", "GEM beside DQN and its relatives on Atari games (the paper's Atari figure)", DISCRETE, PLAIN, **ATARI),
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
    Study("minatar", "GEM beside DQN and its relatives on the small games of MinAtar", DISCRETE, MINATAR),
    Study(
        "cartpole",
        "GEM beside DQN and its relatives on CartPole-v1",
        DISCRETE,
        ("CartPole-v1",),
        (0, 1, 2),
        50_000,
        eval_every=2_500,
    ),
    Study(
        "ladder",
        "The ladder: from a plain memory agent up to GEM, one part a rung, td3 beside it",
        ("td3", *(f"ladder-{rung}" for rung in range(7))),
        ("HalfCheetah-v5",),
        (0, 1),
        30_000,
        settings=(WARM_UP,),
    ),
    Study(
        "quick",
        "gem, td3 and sac on two small tasks, in minutes",
        ("gem", "td3", "sac"),
        ("Pendulum-v1", "InvertedPendulum-v5"),
        (0, 1),
        5_000,
        ("learning_starts=1000",),
        500,
    ),
)
STUDIES: dict[str, Study | TheoryStudy] = {study.name: study for study in _ALL}
"""Every study by its name."""
STUDIES["theory"] = TheoryStudy("theory", "the paper's theorems, each as an experiment")


def study(name: str) -> Study | TheoryStudy:
    """The study of that name, or the one in a TOML file."""
    if name.endswith(".toml"):
        return read_study(Path(name))
    if name not in STUDIES:
        raise unknown("study", name, STUDIES, f"; known: {', '.join(STUDIES)}, or a file that ends in .toml")
    return STUDIES[name]


KINDS: dict[str, type] = {field.name: str for field in dataclasses.fields(Study)} | {
    **dict.fromkeys(("algos", "envs", "seeds", "settings", "env_args"), list),
    **dict.fromkeys(("steps", "eval_every", "eval_episodes"), int),
}
"""What a field of a study is in TOML."""


def read_study(file: Path) -> Study:
    """The study in a TOML file; its name is the file's unless it says otherwise."""
    try:
        content = tomllib.loads(file.read_text())
    except OSError as error:
        raise BadValue(f"cannot read {file}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise BadValue(f"{file} is not TOML: {error}") from None
    if isinstance(content.get("seeds"), int) and not isinstance(content["seeds"], bool):
        content["seeds"] = list(some_seeds(content["seeds"]))
    for name, value in content.items():
        if name not in KINDS:
            raise unknown(f"field in {file}:", name, KINDS, f"; known: {', '.join(KINDS)}")
        _check_kind(f"{name} in {file}", value, KINDS[name], int if name == "seeds" else str)
    missing = [name for name in ("algos", "envs") if name not in content]
    if missing:
        raise BadValue(f"{file} does not say its {missing[0]}")
    values: dict[str, Any] = {"name": file.stem, "title": file.stem}
    values |= {name: tuple(value) if isinstance(value, list) else value for name, value in content.items()}
    return Study(**values)


def _check_kind(what: str, value: Any, kind: type, inner: type) -> None:
    listed = "a whole number or a list of them" if inner is int else "a list of texts"
    told = {str: "text", int: "a whole number", list: listed}[kind]
    items: Sequence[Any] = value if isinstance(value, list) else []
    right = all(isinstance(item, inner) and not isinstance(item, bool) for item in items)
    if isinstance(value, bool) or not isinstance(value, kind) or not right or any(item < 0 for item in items if inner is int):
        raise BadValue(f"{what} must be {told}, not {value!r}")
