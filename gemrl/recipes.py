"""Every algorithm as a recipe: a frozen dataclass whose named fields are all that may differ between two of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gemrl.errors import BadValue, check_number, unknown
from gemrl.literals import parse_part
from gemrl.losses import Asymmetric, FirstCritic, MeanOfCritics
from gemrl.planning import LambdaReturn, NStep, Planner, Single, Twin, TwinReleased

INFINITY = float("inf")


def _number(default: float, doc: str, low: float = 1, high: float = INFINITY) -> Any:
    return dataclasses.field(default=default, metadata={"doc": doc, "low": low, "high": high})


def _choice(default: Any, doc: str, *kinds: type) -> Any:
    return dataclasses.field(default=default, metadata={"doc": doc, "kinds": kinds})


@dataclass(frozen=True)
class Recipe:
    """Continuous GEM and its relatives. Names are Stable-Baselines3's where it has one, else the paper's."""

    gamma: float = _number(0.99, "discount factor", 0, 1)
    learning_rate: float = _number(3e-4, "Adam's step size, for actor and critics", 0)
    buffer_size: int = _number(100_000, "rows of the memory, over all environments")
    learning_starts: int = _number(10_000, "steps of uniform random actions before any training", 0)
    batch_size: int = _number(100, "rows of a minibatch")
    tau: float = _number(0.6, "how far targets move toward the networks, each time they move", 0, 1)
    train_freq: int = _number(100, "environment steps between two rounds of training")
    gradient_steps: int = _number(200, "gradient steps of a round")
    target_update_interval: int = _number(100, "environment steps between two moves of the targets (the paper's u)")
    policy_delay: int = _number(2, "critic updates per policy update (the paper's p)")
    target_policy_noise: float = _number(0.2, "noise on the actions whose value is bootstrapped, actions in [-1, 1]", 0)
    target_noise_clip: float = _number(0.5, "bound of that noise", 0)
    exploration_noise: float = _number(0.1, "standard deviation of the noise on actions taken, actions in [-1, 1]", 0)
    net_arch: tuple[int, ...] = _choice((400, 300), "hidden layer widths of actor and critics", tuple)
    layer_norm: bool = _choice(True, "LayerNorm after each hidden layer", bool)
    action_twice: bool = _choice(False, "critics take the action again behind their first layer", bool)
    planner: Planner = _choice(Twin(5), "how the memory's returns are planned", Twin, Single, NStep, LambdaReturn, TwinReleased)
    loss: Asymmetric = _choice(Asymmetric(0.25), "what a critic's error costs", Asymmetric)
    regress_on_both: bool = _choice(False, "every critic regresses on the returns of both pairs", bool)
    actor_objective: MeanOfCritics | FirstCritic = _choice(
        MeanOfCritics(), "which critics the policy climbs", MeanOfCritics, FirstCritic
    )
    separate_batches: bool = _choice(False, "each pair of critics draws a minibatch of its own", bool)

    def __post_init__(self) -> None:
        if isinstance(self.net_arch, list):
            object.__setattr__(self, "net_arch", tuple(self.net_arch))
        for field in dataclasses.fields(self):
            _check(field, getattr(self, field.name))

    def but(self, **changes: Any) -> Recipe:
        """The same recipe with some fields changed; `depth`, `alpha` and the like reach into its parts."""
        recipe = self
        for name, value in changes.items():
            recipe = dataclasses.replace(recipe, **recipe._change(name, value))
        return recipe

    def _change(self, name: str, value: Any) -> dict[str, Any]:
        """The field, and its new value, that a change of `name` comes down to."""
        if name in _names(self):
            return {name: value}
        if name == "depth":
            return {"planner": self.planner.with_depth(value)}
        for part_name, part in self._parts().items():
            if name in _names(part):
                return {part_name: dataclasses.replace(part, **{name: value})}
        raise unknown("field", name, self.settable(), "; `gemrl algos --fields` lists them all")

    def _parts(self) -> dict[str, Any]:
        return {name: part for name in _names(self) if dataclasses.is_dataclass(part := getattr(self, name))}

    def settable(self) -> list[str]:
        """All names that `but` takes."""
        inner = [name for part in self._parts().values() for name in _names(part)]
        return list(dict.fromkeys([*_names(self), "depth", *inner]))

    def for_environment(self, env_id: str) -> Recipe:
        """The recipe with the preset of an environment: the paper's rollout cap. One-step targets stay one-step."""
        return self if self.planner.rollout_cap == 1 else self.but(depth=preset_depth(env_id))

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON values; a part is written as the Python that makes it, such as "Twin(depth=5)"."""
        values = {name: getattr(self, name) for name in _names(self)}
        return {name: repr(value) if dataclasses.is_dataclass(value) else value for name, value in values.items()}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Recipe:
        """The recipe that `as_dict` wrote. Nothing is evaluated."""
        return Recipe().but(**{name: part_or_value(name, value) for name, value in values.items()})


def _names(part: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(part)]


def _check(field: dataclasses.Field[Any], value: Any) -> None:
    """Raises unless `value` is of the field's kind and in its range."""
    kinds = field.metadata.get("kinds")
    if kinds is None:
        check_number(field.name, value, field.metadata["low"], field.metadata["high"], whole=isinstance(field.default, int))
    elif type(value) not in kinds:
        names = "True or False" if kinds == (bool,) else " or ".join(kind.__name__ for kind in kinds)
        raise BadValue(f"{field.name} must be {names}, not {value!r}")
    elif kinds == (tuple,):
        if not value:
            raise BadValue(f"{field.name} must name at least one width, such as (400, 300)")
        for width in value:
            check_number(f"a width in {field.name}", width, 1, INFINITY, whole=True)


def part_kinds(field: dataclasses.Field[Any]) -> dict[str, type]:
    """The parts that a field may hold, by name; none if it holds a plain value."""
    kinds: tuple[type, ...] = field.metadata.get("kinds", ())
    return {kind.__name__: kind for kind in kinds if kind not in (bool, tuple)}


def part_or_value(name: str, value: Any) -> Any:
    """`value`, or the part that it spells if the field `name` holds one."""
    parts = next((part_kinds(field) for field in dataclasses.fields(Recipe) if field.name == name), {})
    return parse_part(value, parts) if parts and isinstance(value, str) else value


PRESET_DEPTHS = {"HalfCheetah": 1000, "Ant": 1000, "Swimmer": 1000, "Humanoid": 5, "Walker2d": 5, "Hopper": 5}
"""The paper's appendix: maximum length of rollouts, by task."""


def preset_depth(env_id: str) -> int:
    """The rollout cap for an environment id of any version; 5 where the paper names none."""
    task = env_id.split(":")[-1].split("/")[-1].split("-")[0]
    return PRESET_DEPTHS.get(task, 5)


GEM = Recipe()

RECIPES: dict[str, Recipe] = {
    "gem": GEM,
    "gem-paper": GEM.but(learning_rate=1e-3, layer_norm=False, actor_objective=FirstCritic(), separate_batches=True),
    "gem-released": GEM.but(
        batch_size=128,
        tau=0.633,
        learning_starts=25_000,
        planner=TwinReleased(5),
        action_twice=True,
        regress_on_both=True,
    ),
}
"""Every named algorithm."""

SUMMARIES = {
    "gem": "Generalizable Episodic Memory, our default",
    "gem-paper": "as the paper has it, wherever it speaks",
    "gem-released": "with the quirks of the authors' released code",
}
"""One line on each recipe."""


def recipe(name: str) -> Recipe:
    """The recipe of that name."""
    if name not in RECIPES:
        raise unknown("algorithm", name, RECIPES, f"; known: {', '.join(RECIPES)}")
    return RECIPES[name]


def difference(a: Recipe, b: Recipe) -> dict[str, tuple[Any, Any]]:
    """The fields in which two recipes differ, each with its two values."""
    pairs = {name: (getattr(a, name), getattr(b, name)) for name in _names(a)}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
