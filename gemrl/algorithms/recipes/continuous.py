"""Recipes with a deterministic policy: GEM, TD3, DDPG, REDQ, steps between them, and their relatives for recorded data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from gemrl.algorithms.bodies import BatchRenormalized, Body, Perceptron
from gemrl.algorithms.distributions import Deterministic, Distribution, Gaussian
from gemrl.algorithms.embeddings import Embedding, NoEmbedding, StateAction
from gemrl.algorithms.imitation import AdvantageWeighted, BehaviorCloning, Imitation, NoImitation
from gemrl.algorithms.losses import ActorObjective, Asymmetric, Calibrated, Expectile, FirstCritic, Loss, MeanOfCritics
from gemrl.algorithms.planning import Planner, Single, Stopping, Twin
from gemrl.algorithms.recipe import BaseRecipe, choice, number
from gemrl.algorithms.recipes.images import image_preset
from gemrl.algorithms.schedules import Constant, Schedule
from gemrl.algorithms.targets import (
    Bound,
    ContinuousAnchor,
    Fresh,
    NearestReturn,
    NoAnchor,
    NoBound,
    Planned,
    PlannedLengths,
    SelfImitation,
    Targets,
    Tightening,
    check_planner,
)
from gemrl.core.exceptions import BadValue
from gemrl.core.layout import Layout


@dataclass(frozen=True)
class Recipe(BaseRecipe):
    """GEM, TD3 and algorithms between them. Fields are named as in Stable-Baselines3 where possible, else as in the paper."""

    family: ClassVar[str] = "deterministic policy"
    needs: ClassVar[str] = "a Box of observations and continuous actions"

    learning_rate: float = number(3e-4, "learning rate of Adam, for actor and critics", 0)
    learning_rate_schedule: Schedule = choice(Constant(), "how the learning rate changes over a run", Schedule)
    max_grad_norm: float = number(0.0, "gradients of a network that are longer than this are scaled down to it; 0: none are", 0)
    buffer_size: int = number(100_000, "capacity of the memory in rows, over all environments")
    learning_starts: int = number(10_000, "steps of uniform random actions before training starts", 0)
    batch_size: int = number(100, "rows per minibatch")
    trajectory_rows: int = number(
        0, "each round draws trajectories of about this many rows in all, and its minibatches from these; 0: from all rows", 0
    )
    tau: float = number(0.6, "Polyak coefficient: how far target networks move toward the online ones at each update", 0, 1)
    train_freq: int = number(100, "environment steps between two rounds of training")
    gradient_steps: int = number(200, "gradient steps per round")
    overlap: bool = choice(
        False, "act with the policy of the round before while a round computes, so that the environment does not wait", bool
    )
    target_update_interval: int = number(
        100, "environment steps between updates of the target networks (the paper's u); gradient steps if they are not Planned"
    )
    policy_delay: int = number(2, "critic updates per actor update (the paper's p)")
    policy_average: int = number(
        0, "gradient steps over which the policy is averaged for evaluations and predict; 0: the newest policy is used", 0
    )
    trial_every: int = number(
        0,
        "environment steps between trials, in which the newest policy plays about 1,000 steps without exploration: "
        "evaluations and predict use the best policy of the last four trials; 0: no trials",
        0,
    )
    adam_beta1: float = number(0.9, "decay rate of Adam's mean of gradients", 0, 0.999)
    target_policy_noise: float = number(0.2, "standard deviation of the noise on bootstrapped actions, for actions in [-1, 1]", 0)
    target_noise_clip: float = number(0.5, "this noise is clipped to +- this value", 0)
    exploration_noise: float = number(0.1, "standard deviation of the exploration noise, for actions in [-1, 1]", 0)
    exploration_schedule: Schedule = choice(Constant(), "how the exploration noise changes over a run", Schedule)
    body: Body = choice(Perceptron(), "hidden layers of actor and critics", Body)
    n_pairs: int = number(2, "groups of critics, each with its own value estimate; Twin needs two")
    n_critics: int = number(2, "critics per group; the smallest value is the group's estimate")
    targets: Planned | PlannedLengths | Fresh = choice(Planned(Twin(5)), "how the critics' targets are computed", Targets)
    loss: Loss = choice(Asymmetric(0.25), "loss of the critics", Loss)
    bound: NoBound | SelfImitation | Tightening = choice(NoBound(), "bounds that the critics' values are pushed into", Bound)
    anchor: ContinuousAnchor = choice(
        NoAnchor(), "returns in the memory that the critics' values are pulled towards", ContinuousAnchor
    )
    regress_on_both: bool = choice(False, "each critic regresses on the returns of all groups, not only of its own", bool)
    actor_objective: ActorObjective = choice(MeanOfCritics(), "critics that the policy maximizes", ActorObjective)
    imitation: Imitation = choice(NoImitation(), "what the policy learns from stored actions", Imitation)
    state_values: bool = choice(False, "critics value states, V(s), instead of actions, Q(s, a)", bool)
    separate_batches: bool = choice(False, "each group of critics draws its own minibatch", bool)
    joint_critics: bool = choice(
        False, "critics value a step and the end of its rollout in one pass, without target networks (CrossQ)", bool
    )
    normalize_observations: bool = choice(False, "normalize observations by their running mean and variance", bool)
    normalize_rewards: bool = choice(False, "scale rewards by the running standard deviation of discounted returns", bool)
    hindsight: int = number(
        0, "copies of each episode with goals that it reached, stored after it, if the environment has goals; 0: none", 0
    )
    distribution: Distribution = choice(
        Deterministic(), "the policy: one action per state, or a distribution over actions", Distribution
    )
    random_shift: int = number(4, "pixels by which the images of a minibatch are shifted at random (DrQ); 0: not at all", 0)
    embedding: Embedding = choice(NoEmbedding(), "learned features that actor and critics see in addition", Embedding)
    bfloat16: bool = choice(
        False, "train with matrix products in bfloat16, summed in float32: faster on processors that have them", bool
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_planner(self.targets.planner, self.n_pairs, "n_pairs")
        if isinstance(self.targets, Fresh) and self.targets.subset > self.n_critics:
            raise BadValue(f"subset={self.targets.subset} draws more critics than n_critics={self.n_critics}")
        if (self.targets.stored or self.targets.every) and self.bound.every:
            raise BadValue(f"{type(self.bound).__name__} stores its own returns, so it needs Fresh targets")
        if self.anchor.stored and (self.targets.stored or self.targets.every or self.bound.every):
            raise BadValue(f"{type(self.anchor).__name__} stores its own returns, so it needs Fresh targets and no SelfImitation")
        if isinstance(self.loss, Calibrated) and not (self.targets.stored or self.targets.every):
            raise BadValue("Calibrated compares values in the memory, so it needs Planned or PlannedLengths targets")
        if self.joint_critics:
            self._check_joint()
        if self.imitation.weighs and self.separate_batches:
            raise BadValue(f"{type(self.imitation).__name__} needs one minibatch for all critics: set separate_batches=False")
        if self.state_values:
            self._check_state_values()

    def _check_state_values(self) -> None:
        """Raises if a field needs values of actions."""
        if self.imitation.climbs:
            raise BadValue("the policy cannot follow values of states: with state_values, set imitation=AdvantageWeighted()")
        if self.planner.uses_stored:
            raise BadValue(f"{self.planner} compares values of actions, which state_values does not have: set planner=Single()")
        if self.embedding.features or self.bound.weight:
            part = self.embedding if self.embedding.features else self.bound
            raise BadValue(f"{type(part).__name__} needs values of actions, which state_values does not have")

    def _check_joint(self) -> None:
        """Raises if a field does not fit critics that value a step and the end of its rollout in one pass."""
        if self.targets.stored:
            raise BadValue("joint_critics needs targets that are computed for each minibatch: Fresh or PlannedLengths")
        if isinstance(self.targets, Fresh) and self.targets.subset:
            raise BadValue("joint_critics uses all critics, so targets cannot have a subset")
        if self.n_pairs != 1 or self.separate_batches:
            raise BadValue("joint_critics needs n_pairs=1 and one minibatch for all critics: set separate_batches=False")
        if self.bound.weight:
            raise BadValue(f"joint_critics does not work with {type(self.bound).__name__}: set bound=NoBound()")
        if self.anchor.stored:
            raise BadValue(f"joint_critics does not work with {type(self.anchor).__name__}: set anchor=NoAnchor()")
        if self.imitation.weighs:
            raise BadValue(f"joint_critics does not work with {type(self.imitation).__name__}: set imitation=NoImitation()")

    @property
    def planner(self) -> Planner:
        """The planner of the targets."""
        return self.targets.planner

    @property
    def target_steps(self) -> int | None:
        """Environment steps between two updates of the targets; None if they follow gradient steps."""
        return self.target_update_interval if self.targets.stored else None

    @property
    def moves_every_round(self) -> bool:
        """Whether targets that stored returns are planned with move in every round, so that no value outlives its round."""
        return self.targets.stored and self.target_update_interval <= self.train_freq

    def fits(self, layout: Layout) -> bool:
        """Whether it can act and learn with such observations and actions."""
        return not layout.choices and not layout.states

    def least_parameters(self, layout: Layout) -> int:
        """A lower bound on the number of its parameters."""
        return self.n_pairs * self.n_critics * self.body.least_weights(1 if layout.is_image else layout.size)

    def for_environment(self, env_id: str, layout: Layout) -> Self:
        """The recipe with the preset for images, and with the paper's rollout cap for a task, unless its planner needs none."""
        chosen = self._for_images(layout) if layout.is_image else self
        planner = self.planner
        one_step = planner.rollout_cap == 1  # it stays one step
        capped = planner.capped_by_task and not one_step and not self.state_values  # the paper's caps are for values of actions
        return chosen.but(depth=preset_depth(env_id)) if capped else chosen

    def _for_images(self, layout: Layout) -> Self:
        """The recipe with the preset for images."""
        return self.but(**image_preset(self.train_freq, layout), embedding=NoEmbedding(), normalize_observations=False)


PRESET_DEPTHS = {"HalfCheetah": 1000, "Ant": 1000, "Swimmer": 1000, "Humanoid": 5, "Walker2d": 5, "Hopper": 5}
"""The maximum length of rollouts by task, from the paper's appendix."""


def preset_depth(env_id: str) -> int:
    """The rollout cap for an environment id of any version; 5 if the paper gives none."""
    task = env_id.split(":")[-1].split("/")[-1].split("-")[0]
    return PRESET_DEPTHS.get(task, 5)


GEM = Recipe()
GEM2 = GEM.but(
    learning_rate=1e-3,
    adam_beta1=0.5,
    learning_starts=5_000,
    batch_size=256,
    train_freq=10,
    gradient_steps=10,
    target_update_interval=250,
    policy_delay=3,
    policy_average=1_000,
    body=BatchRenormalized((256, 256)),
    n_pairs=1,
    targets=PlannedLengths(Stopping()),
    loss=Calibrated(),
    joint_critics=True,
    distribution=Gaussian(),
    embedding=StateAction(128),
)
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
EMAC = DDPG.but(buffer_size=100_000, batch_size=256, net_arch=(256, 256), anchor=NearestReturn())
REDQ = GEM.but(tau=0.005, target_update_interval=1, n_pairs=1, n_critics=4, targets=Fresh(subset=2), loss=Asymmetric(1.0))
TD3_BC = TD3.but(
    learning_rate=3e-4,
    learning_starts=0,
    batch_size=256,
    train_freq=100,
    gradient_steps=100,
    net_arch=(256, 256),
    imitation=BehaviorCloning(2.5),
    normalize_observations=True,
)
VEM = GEM.but(
    learning_starts=0,
    policy_average=2_000,
    n_critics=1,
    planner=Single(1000),
    loss=Expectile(0.2),
    imitation=AdvantageWeighted(),
    state_values=True,
)
