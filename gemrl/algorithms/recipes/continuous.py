"""GEM, TD3 and all between them, as recipes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from gemrl.algorithms.bodies import Body, Perceptron
from gemrl.algorithms.losses import ActorObjective, Asymmetric, FirstCritic, Loss, MeanOfCritics
from gemrl.algorithms.planning import NStep, Planner, Single, Twin
from gemrl.algorithms.recipe import BaseRecipe, choice, number
from gemrl.algorithms.targets import Bound, Fresh, NoBound, Planned, SelfImitation, Targets, Tightening, check_planner
from gemrl.core.exceptions import BadValue
from gemrl.core.layout import Layout


@dataclass(frozen=True)
class Recipe(BaseRecipe):
    """GEM, TD3 and all between them. Names are Stable-Baselines3's where it has one, else the paper's."""

    family: ClassVar[str] = "deterministic policy"
    needs: ClassVar[str] = "a Box of observations and continuous actions"

    learning_rate: float = number(3e-4, "Adam's step size, for actor and critics", 0)
    buffer_size: int = number(100_000, "rows of the memory, over all environments")
    learning_starts: int = number(10_000, "steps of uniform random actions before any training", 0)
    batch_size: int = number(100, "rows of a minibatch")
    tau: float = number(0.6, "how far targets move toward the networks, each time they move", 0, 1)
    train_freq: int = number(100, "environment steps between two rounds of training")
    gradient_steps: int = number(200, "gradient steps of a round")
    target_update_interval: int = number(
        100, "targets move every so many environment steps (the paper's u), or with Fresh targets every so many updates"
    )
    policy_delay: int = number(2, "critic updates per policy update (the paper's p)")
    target_policy_noise: float = number(0.2, "noise on the actions whose value is bootstrapped, actions in [-1, 1]", 0)
    target_noise_clip: float = number(0.5, "bound of that noise", 0)
    exploration_noise: float = number(0.1, "standard deviation of the noise on actions taken, actions in [-1, 1]", 0)
    body: Body = choice(Perceptron(), "the hidden layers of actor and critics", Body)
    n_pairs: int = number(2, "groups of critics, each with an estimate of its own; Twin needs two")
    n_critics: int = number(2, "critics of a group, whose smallest value is its estimate")
    targets: Planned | Fresh = choice(Planned(Twin(5)), "where the critics' targets come from", Targets)
    loss: Loss = choice(Asymmetric(0.25), "what a critic's error costs", Loss)
    bound: NoBound | SelfImitation | Tightening = choice(NoBound(), "bounds that a critic is pushed into", Bound)
    regress_on_both: bool = choice(False, "every critic regresses on the returns of all groups", bool)
    actor_objective: ActorObjective = choice(MeanOfCritics(), "which critics the policy climbs", ActorObjective)
    separate_batches: bool = choice(False, "each group of critics draws a minibatch of its own", bool)
    normalize_observations: bool = choice(False, "observations are scaled by their running mean and variance", bool)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_planner(self.targets.planner, self.n_pairs, "n_pairs")
        if isinstance(self.targets, Fresh) and self.targets.subset > self.n_critics:
            raise BadValue(f"subset={self.targets.subset} asks for more critics than n_critics={self.n_critics}")
        if self.targets.stored and self.bound.every:
            raise BadValue(f"{type(self.bound).__name__} stores returns of its own, so it needs Fresh targets")

    @property
    def planner(self) -> Planner:
        """What turns rewards and estimates into targets."""
        return self.targets.planner

    def fits(self, layout: Layout) -> bool:
        """Whether it can act and learn there."""
        return not layout.choices and not layout.states

    def least_parameters(self, layout: Layout) -> int:
        """Fewer than its networks have."""
        return self.n_pairs * self.n_critics * self.body.least_weights(layout.size)

    def for_environment(self, env_id: str, layout: Layout) -> Self:
        """The recipe with the preset of an environment: the paper's rollout cap. One-step targets stay one-step."""
        return self if self.planner.rollout_cap == 1 else self.but(depth=preset_depth(env_id))


PRESET_DEPTHS = {"HalfCheetah": 1000, "Ant": 1000, "Swimmer": 1000, "Humanoid": 5, "Walker2d": 5, "Hopper": 5}
"""The paper's appendix: maximum length of rollouts, by task."""


def preset_depth(env_id: str) -> int:
    """The rollout cap for an environment id of any version; 5 where the paper names none."""
    task = env_id.split(":")[-1].split("/")[-1].split("-")[0]
    return PRESET_DEPTHS.get(task, 5)


GEM = Recipe()
TD3 = GEM.but(
    learning_rate=1e-3,
    buffer_size=1_000_000,
    tau=0.005,
    train_freq=1,
    gradient_steps=1,
    target_update_interval=2,
    layer_norm=False,
    n_pairs=1,
    targets=Fresh(),
    loss=Asymmetric(1.0),
    actor_objective=FirstCritic(),
)
DDPG = TD3.but(n_critics=1, target_policy_noise=0.0, policy_delay=1, target_update_interval=1)
REDQ = GEM.but(tau=0.005, target_update_interval=1, n_pairs=1, n_critics=4, targets=Fresh(subset=2), loss=Asymmetric(1.0))

LADDER = [GEM.but(n_pairs=1, layer_norm=False, alpha=1.0, planner=NStep(1), gradient_steps=100)]
"""From a plain memory agent up to GEM, one field a rung."""
for _rung in (
    {"layer_norm": True},
    {"gradient_steps": 200},
    {"n_pairs": 2},
    {"alpha": 0.25},
    {"planner": Single(5)},
    {"planner": Twin(5)},
):
    LADDER.append(LADDER[-1].but(**_rung))
