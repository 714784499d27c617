"""Recipes for discrete actions: GEM, DQN and its variants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from gemrl.algorithms.backward import Backward
from gemrl.algorithms.bodies import count_weights
from gemrl.algorithms.bootstraps import Acting, Bootstrap, FirstChoice, FirstNetwork, Greatest, MeanOfMinima, OnlineChoice
from gemrl.algorithms.losses import Calibrated, Huber, Loss
from gemrl.algorithms.planning import Planner, Stopping, Twin, TwinReleased
from gemrl.algorithms.recipe import BaseRecipe, choice, linear_schedule, number
from gemrl.algorithms.schedules import Constant, Schedule
from gemrl.algorithms.targets import BestReturn, DiscreteAnchor, Fresh, NoAnchor, Planned, Targets, check_planner
from gemrl.core.env_names import is_atari
from gemrl.core.exceptions import BadValue
from gemrl.core.layout import Layout


@dataclass(frozen=True)
class DiscreteRecipe(BaseRecipe):
    """Q-values of discrete actions. The defaults are for vector observations; `for_environment` has presets for images."""

    family: ClassVar[str] = "values of discrete actions"
    needs: ClassVar[str] = "discrete actions"

    learning_rate: float = number(2.3e-3, "learning rate of Adam", 0)
    learning_rate_schedule: Schedule = choice(Constant(), "how the learning rate changes over a run", Schedule)
    adam_epsilon: float = number(1e-8, "epsilon in the denominator of Adam", 0)
    max_grad_norm: float = number(0.0, "gradients of a network that are longer than this are scaled down to it; 0: none are", 0)
    buffer_size: int = number(100_000, "capacity of the memory in rows, over all environments")
    learning_starts: int = number(1_000, "steps of uniform random actions before training starts", 0)
    batch_size: int = number(64, "rows per minibatch")
    train_freq: int = number(256, "environment steps between two rounds of training")
    gradient_steps: int = number(128, "gradient steps per round")
    overlap: bool = choice(
        False, "act with the policy of the round before while a round computes, so that the environment does not wait", bool
    )
    target_update_interval: int = number(256, "environment steps between updates of the target networks")
    tau: float = number(1.0, "how far target networks move toward the online ones at each update; 1: they are copied", 0, 1)
    exploration_final_eps: float = number(0.04, "final fraction of random actions in training", 0, 1)
    exploration_steps: int = number(8_000, "steps after the warm-up over which this fraction falls from 1", 1)
    evaluation_eps: float = number(0.0, "fraction of random actions in evaluations", 0, 1)
    reward_bound: float = number(1e6, "rewards are clipped to +- this for learning; evaluations report them unclipped", 0)
    net_arch: tuple[int, ...] = choice((256, 256), "hidden layer widths, after convolutions if observations are images", tuple)
    dueling: bool = choice(False, "separate streams for state values and advantages", bool)
    n_pairs: int = number(2, "groups of networks, each with its own value estimate; Twin needs two")
    n_critics: int = number(2, "networks per group")
    targets: Planned | Fresh = choice(Planned(Twin(1000)), "how the targets are computed", Targets)
    bootstrap: Bootstrap = choice(Greatest(), "how a group values a next state", Bootstrap)
    loss: Loss = choice(Huber(0.25), "loss of the networks", Loss)
    acting: Acting = choice(MeanOfMinima(), "Q-values that the agent acts on", Acting)
    normalize_observations: bool = choice(False, "normalize observations by their running mean and variance; vectors only", bool)
    normalize_rewards: bool = choice(False, "scale rewards by the running standard deviation of discounted returns", bool)
    students: bool = choice(False, "an extra network per group learns planned returns and acts; the others learn one step", bool)
    anchor: DiscreteAnchor = choice(
        NoAnchor(), "stored returns that Q-values are pulled towards, beside their targets", DiscreteAnchor
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_planner(self.targets.planner, self.n_pairs, "n_pairs", discrete=True)
        if isinstance(self.loss, Calibrated):
            raise BadValue("Calibrated needs continuous actions; for discrete ones the loss is Huber or Asymmetric")
        if self.targets.every:
            raise BadValue("PlannedLengths needs continuous actions; for discrete ones targets are Planned or Fresh")
        if isinstance(self.targets, Fresh) and self.targets.subset:
            raise BadValue("subset is for continuous actions only; set it to 0")
        if self.students and not self.targets.stored:
            raise BadValue("students learn planned returns, so they need Planned targets")
        if self.anchor.stored and self.targets.stored:
            raise BadValue(f"{type(self.anchor).__name__} stores its own returns, so it needs Fresh targets")
        if self.bootstrap.uses_online and self.targets.stored:
            raise BadValue(f"{type(self.bootstrap).__name__} needs Fresh targets: planned returns use target networks only")

    @property
    def planner(self) -> Planner:
        """The planner of the targets."""
        return self.targets.planner

    @property
    def stores_returns(self) -> bool:
        """Whether values of next states and returns are stored in the memory."""
        return self.targets.stored or self.anchor.stored

    @property
    def target_steps(self) -> int:
        """Environment steps between two updates of the targets."""
        return self.target_update_interval

    @property
    def n_networks(self) -> int:
        """The number of networks, including students, which come last."""
        return self.n_pairs * (self.n_critics + self.students)

    def epsilon(self, step: int) -> float:
        """The fraction of random actions in training at a step."""
        return linear_schedule(step, self.learning_starts, self.exploration_steps, 1.0, self.exploration_final_eps)

    def fits(self, layout: Layout) -> bool:
        """Whether it can act and learn with such observations and actions."""
        return layout.choices > 0

    def least_parameters(self, layout: Layout) -> int:
        """A lower bound on the number of its parameters, without convolutions and the layer after them."""
        size = layout.unmasked.size
        inputs = 1 if size > LARGEST_VECTOR else size
        return self.n_networks * count_weights(inputs, self.net_arch)

    def for_environment(self, env_id: str, layout: Layout) -> Self:
        """The recipe with the preset for Atari or MinAtar, which is the same for all discrete algorithms.

        A recipe that has its own value of a field keeps it.
        """
        preset = image_preset(env_id, layout)
        return self.but(**{name: value for name, value in preset.items() if getattr(self, name) == getattr(GEM_DISCRETE, name)})


LARGEST_VECTOR = 512
"""Observations with more numbers are taken for images, whose convolutions are not counted."""

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
"""Added to IMAGES for Atari only, where scores differ by orders of magnitude; your own rewards are not clipped."""
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


def image_preset(env_id: str, layout: Layout) -> dict[str, Any]:
    """The preset of agents with discrete actions for Atari, MinAtar or other images; empty if observations are vectors."""
    if not layout.is_image:
        return {}
    return (IMAGES if layout.large_image else MINATAR) | (ATARI if is_atari(env_id) else {})


GEM_DISCRETE = DiscreteRecipe()
GEM2_DISCRETE = GEM_DISCRETE.but(planner=Stopping())
DQN = GEM_DISCRETE.but(n_pairs=1, n_critics=1, targets=Fresh(), alpha=1.0)
DDQN = DQN.but(bootstrap=OnlineChoice())
DUELING = DDQN.but(dueling=True)
CLIPPED = DQN.but(n_critics=2, bootstrap=FirstChoice(), acting=FirstNetwork())
EMDQN = DQN.but(anchor=BestReturn())
EBU = DQN.but(targets=Planned(Backward()))
PAPER_DISCRETE = GEM_DISCRETE.but(
    learning_rate=1e-3, batch_size=100, train_freq=100, gradient_steps=200, target_update_interval=100, tau=0.6
)
"""The paper's numbers for continuous control, which it keeps on Atari. Its authors' release does not."""
RELEASED = GEM_DISCRETE.but(planner=TwinReleased(1000), alpha=1.0, students=True)
