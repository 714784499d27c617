"""A study as data: recipes x environments x seeds."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

from gemrl.algorithms.registry import general_name
from gemrl.core.env_names import folder_name_problem, path_name
from gemrl.core.exceptions import BadValue
from gemrl.core.literals import split_setting
from gemrl.core.schema import Text
from gemrl.core.validation import check_number, check_seed
from gemrl.envs.arguments import parse_env_args

MAX_RUNS = 10_000
"""The most runs of a study."""


class Entry(NamedTuple):
    """A recipe in a study, with the fields that this entry changes."""

    algo: str
    settings: tuple[str, ...] = ()

    @staticmethod
    def of(text: str) -> Entry:
        """Parses a recipe and its settings, such as "td3-nstep depth=5"."""
        if not text.strip():
            raise BadValue("algos contains an empty name")
        algo, *settings = text.split()
        for setting in settings:
            split_setting(setting, "a recipe in algos")
        return Entry(algo, tuple(settings))

    @property
    def label(self) -> str:
        """Its name in the study, also used as the folder name."""
        return "-".join([self.algo, *self.settings]).replace("/", "-")

    @property
    def text(self) -> str:
        """The text that `of` parses."""
        return " ".join([self.algo, *self.settings])


class RunName(Protocol):
    """What identifies a run of a study or of a search."""

    @property
    def entry(self) -> Entry:
        """Its recipe."""

    @property
    def env(self) -> str:
        """Its environment."""

    @property
    def seed(self) -> int:
        """Its seed."""

    @property
    def subfolder(self) -> Path:
        """The run folder, relative to the folder of the study or search."""


class Trial(NamedTuple):
    """One run of a study: a recipe, an environment and a seed."""

    entry: Entry
    env: str
    seed: int

    @property
    def subfolder(self) -> Path:
        """The run folder, relative to the study's folder."""
        return Path(self.entry.label, path_name(self.env), str(self.seed))

    def __str__(self) -> str:
        return f"{self.entry.label} on {self.env}, seed {self.seed}"


@dataclass(frozen=True)
class Study:
    """Which recipes are trained on which environments, with which seeds and for how long."""

    name: str
    title: str
    algos: tuple[str, ...]
    """Recipes, optionally with settings: "td3-nstep depth=5"."""
    envs: tuple[str, ...]
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    steps: int = 1_000_000
    settings: tuple[str, ...] = ()
    """Fields to set in every recipe, such as "learning_starts=10000"."""
    eval_every: int = 10_000
    eval_episodes: int = 10
    env_args: tuple[str, ...] = ()
    """Arguments of every environment, such as "repeat_action_probability=0.25"."""

    def __post_init__(self) -> None:
        if reason := folder_name_problem(self.name):
            raise BadValue(f"a study's name is also its folder's name, so it cannot be {self.name[:60]!r}: {reason}")
        if reason := Text().wrong(self.title):
            raise BadValue(f"the title of a study{reason}")
        for field in ("algos", "envs", "seeds"):
            values = getattr(self, field)
            if not values:
                raise BadValue(f"a study needs at least one value in {field}")
            if field != "seeds":  # compare folder names: two spellings may give the same folder
                values = [Entry.of(text).label if field == "algos" else path_name(text) for text in values]
            if len(set(values)) < len(values):
                raise BadValue(f"{field} contains {next(value for value in values if values.count(value) > 1)} twice")
        if (runs := len(self.algos) * len(self.envs) * len(self.seeds)) > MAX_RUNS:
            raise BadValue(f"this study has {runs:,} runs, and {MAX_RUNS:,} is the limit; split it")
        for number in ("steps", "eval_every", "eval_episodes"):
            check_number(number, getattr(self, number), 1, whole=True)
        for seed in self.seeds:
            check_seed("a seed in seeds", seed)
        for setting in self.settings:
            split_setting(setting, "settings")
        parse_env_args(self.env_args, "env_args")

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The recipes of the study."""
        return tuple(Entry.of(text) for text in self.algos)

    @property
    def trials(self) -> list[Trial]:
        """All runs, ordered by seed first, so that a study that is stopped early can already be compared."""
        return [Trial(entry, env, seed) for seed in self.seeds for env in self.envs for entry in self.entries]

    def scaled(self, **changes: Any) -> Self:
        """A copy with some fields changed; None leaves a field as it is. `seeds` may be a number of seeds."""
        given = {name: value for name, value in changes.items() if value is not None}
        if isinstance(given.get("seeds"), int):
            given["seeds"] = tuple(first_seeds(given["seeds"]))
        if "algos" in given:
            # In studies with discrete actions, gem means gem-discrete, and its run folders have that name.
            known = {general_name(entry.algo): entry.text for entry in self.entries if not entry.settings}
            known |= {entry.label: entry.text for entry in self.entries}
            given["algos"] = tuple(known.get(text, text) for text in given["algos"])
        return dataclasses.replace(self, **given)


def first_seeds(number: int) -> range:
    """The seeds 0 to number - 1."""
    check_number("seeds", number, 1, 1000, whole=True)
    return range(number)


@dataclass(frozen=True)
class TheoryStudy:
    """A study without training: the theorems as experiments, as `gemrl theory` runs them."""

    name: str
    title: str
