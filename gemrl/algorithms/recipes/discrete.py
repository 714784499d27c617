"""GEM for discrete actions, and DQN and its relatives, as recipes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from gemrl.algorithms.bodies import count_weights
from gemrl.algorithms.bootstraps import Acting, Bootstrap, FirstChoice, FirstNetwork, Greatest, MeanOfMinima, OnlineChoice
from gemrl.algorithms.losses import Huber, Loss
from gemrl.algorithms.planning import Planner, Twin, TwinReleased
from gemrl.algorithms.recipe import BaseRecipe, choice, falling, number
from gemrl.algorithms.targets import Fresh, Planned, Targets, check_planner
from gemrl.core.env_names import is_atari
from gemrl.core.exceptions import BadValue
from gemrl.core.layout import Layout


@dataclass(frozen=True)
class DiscreteRecipe(BaseRecipe):
    """Values of discrete actions. Defaults are those of vector observations; `for_environment` has those of images."""

    family: ClassVar[str] = "values of discrete actions"
    needs: ClassVar[str] = "discrete actions"

    learning_rate: float = number(2.3e-3, "Adam's step size", 0)
    adam_epsilon: float = number(1e-8, "what Adam adds to its denominator", 0)
    buffer_size: int = number(100_000, "rows of the memory, over all environments")
    learning_starts: int = number(1_000, "steps of uniform random actions before any training", 0)
    batch_size: int = number(64, "rows of a minibatch")
    train_freq: int = number(256, "environment steps between two rounds of training")
    gradient_steps: int = number(128, "gradient steps of a round")
    target_update_interval: int = number(256, "environment steps between two copies of the networks to their targets")
    exploration_final_eps: float = number(0.04, "share of random actions, in the end", 0, 1)
    exploration_steps: int = number(8_000, "steps over which that share falls from 1, behind the warm-up", 1)
    evaluation_eps: float = number(0.0, "share of random actions in evaluations", 0, 1)
    reward_bound: float = number(1e6, "rewards are clipped to +- this for learning; evaluations tell them as they are", 0)
    net_arch: tuple[int, ...] = choice((256, 256), "hidden layer widths, behind convolutions if observations are images", tuple)
    dueling: bool = choice(False, "values of states and advantages of actions in streams of their own", bool)
    n_pairs: int = number(2, "groups of networks, each with an estimate of its own; Twin needs two")
    n_critics: int = number(2, "networks of a group")
    targets: Planned | Fresh = choice(Planned(Twin(1000)), "where the targets come from", Targets)
    bootstrap: Bootstrap = choice(Greatest(), "how a group values a next state", Bootstrap)
    loss: Loss = choice(Huber(0.25), "what a network's error costs", Loss)
    acting: Acting = choice(MeanOfMinima(), "which networks act", Acting)
    normalize_observations: bool = choice(False, "observations are scaled by their running mean and variance; vectors only", bool)
    students: bool = choice(False, "planned returns are learnt by a network per group that acts; the others learn one step", bool)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_planner(self.targets.planner, self.n_pairs, "n_pairs")
        if isinstance(self.targets, Fresh) and self.targets.subset:
            raise BadValue("subset is for continuous actions: a group of networks here counts as a whole")
        if self.students and not self.targets.stored:
            raise BadValue("students learn planned returns, so they need Planned targets")
        if self.bootstrap.uses_online and self.targets.stored:
            raise BadValue(
                f"{type(self.bootstrap).__name__} needs Fresh targets: planned returns use networks that rest between copies"
            )

    @property
    def planner(self) -> Planner:
        """What turns rewards and estimates into targets."""
        return self.targets.planner

    @property
    def n_networks(self) -> int:
        """All of them, students last."""
        return self.n_pairs * (self.n_critics + self.students)

    def epsilon(self, step: int) -> float:
        """The share of random actions at a step behind the warm-up."""
        return falling(step, self.learning_starts, self.exploration_steps, 1.0, self.exploration_final_eps)

    def fits(self, layout: Layout) -> bool:
        """Whether it can act and learn there."""
        return layout.choices > 0

    def least_parameters(self, layout: Layout) -> int:
        """Fewer than its networks have; convolutions are not counted, so of images only what stands behind them."""
        inputs = 1 if layout.size > LARGEST_VECTOR else layout.size
        return self.n_networks * count_weights(inputs, self.net_arch)

    def for_environment(self, env_id: str, layout: Layout) -> Self:
        """The recipe with the preset of a class of environments, equal for all agents: Atari's, MinAtar's, or none."""
        if not layout.is_image:
            return self
        chosen = self.but(**(IMAGES if layout.large_image else MINATAR))
        return chosen.but(**ATARI) if is_atari(env_id) else chosen


LARGEST_VECTOR = 512

IMAGES: dict[str, Any] = {
    "learning_rate": 6.25e-5,
    "adam_epsilon": 1.5e-4,
    "train_freq": 4,
    "learning_starts": 20_000,
    "batch_size": 32,
    "gradient_steps": 1,
    "target_update_interval": 8_000,
    "exploration_final_eps": 0.01,
    "exploration_steps": 62_500,
    "net_arch": (512,),
}
ATARI: dict[str, Any] = {"evaluation_eps": 0.001, "reward_bound": 1.0}
"""What Atari has beside the preset of large images: its scores differ by orders of magnitude, yours may mean what they say."""
MINATAR: dict[str, Any] = {
    "learning_rate": 2.5e-4,
    "train_freq": 4,
    "learning_starts": 5_000,
    "exploration_final_eps": 0.05,
    "gradient_steps": 1,
    "target_update_interval": 1_000,
    "exploration_steps": 100_000,
    "net_arch": (128,),
}

GEM_DISCRETE = DiscreteRecipe()
DQN = GEM_DISCRETE.but(n_pairs=1, n_critics=1, targets=Fresh(), alpha=1.0)
DDQN = DQN.but(bootstrap=OnlineChoice())
DUELING = DDQN.but(dueling=True)
CLIPPED = DQN.but(n_critics=2, bootstrap=FirstChoice(), acting=FirstNetwork())
RELEASED = GEM_DISCRETE.but(planner=TwinReleased(1000), alpha=1.0, students=True)
