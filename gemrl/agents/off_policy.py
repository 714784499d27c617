"""Agents that train networks from a memory in rounds: acting and storing on the host, learner and memory on the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from gemrl.agents.footprint import STAGED_ROWS, Shape, Work, check_fits, training_needs
from gemrl.agents.memory.frames import slots
from gemrl.agents.memory.newest import newest_trajectory
from gemrl.agents.memory.recorded import Room, lanes_for
from gemrl.agents.memory.ring import Memory, Rows, cut, insert
from gemrl.agents.memory.staging import Staging
from gemrl.agents.memory.storage import restored, snapshot_of
from gemrl.agents.networks.actor_critic import normalized
from gemrl.agents.overlap import Behind, checked
from gemrl.agents.reward_scale import in_rewards, remember
from gemrl.agents.trials import Trials
from gemrl.algorithms.registry import NetworkRecipe
from gemrl.core.arrays import Array
from gemrl.core.exceptions import BadValue
from gemrl.core.layout import Layout
from gemrl.core.resources import Need
from gemrl.core.seeding import stream
from gemrl.core.snapshot import Snapshot
from gemrl.core.steps import Trajectory, Transition

CHUNK = {True: 128, False: 1024}
"""Observations evaluated at a time: images (True) or vectors (False)."""


class Trial(NamedTuple):
    """The functions of a family whose policies can be tried out (trials.py)."""

    starts: Callable[[Any], Any]
    """The learner at the start of a trial of its newest policy."""
    ends: Callable[[Any, float], Any]
    """The learner at the end of a trial, given its mean return."""
    policy: Callable[[Any], Any]
    """The networks of the policy that is tried, on the host."""


class Family(NamedTuple):
    """The pure functions of a family of algorithms. Each takes the recipe first, unless it takes the learner alone."""

    init_learner: Callable[[Any, Layout, int], Any]
    """The learner before the first step, from a layout and a seed."""
    train_round: Callable[[Any, Any, Memory, Rows, Array, bool], tuple[Any, Memory, dict[str, Array]]]
    """One compiled round: learner, memory, new rows, their number, whether an update is due -> learner, memory, losses."""
    update_period: Callable[[Any], int | None]
    """Environment steps between two updates of targets and stored returns; None if there are none."""
    policy_of: Callable[[Any], Any]
    """The part of a learner that acting needs."""
    act: Callable[[Any, Any, np.ndarray], np.ndarray]
    """The policy's greedy actions."""
    explore: Callable[[Any, Any, np.ndarray, int, np.random.Generator], np.ndarray]
    """Actions for training."""
    sample: Callable[[Any, Any, np.ndarray, np.random.Generator], np.ndarray]
    """Actions drawn from the policy."""
    values: Callable[[Any, Array, Array], Array]
    """The mean Q(s, a) of a learner's critics."""
    groups: Callable[[Any], int]
    """How many estimates the memory stores for each row."""
    extra: Callable[[Any], tuple[str, ...]] = lambda recipe: ()
    """The names of columns that the memory has in addition: values of next actions, and planned rollouts."""
    neighbours: Callable[[Any], int] = lambda recipe: 0
    """How many similar rows the memory stores for each row."""
    trial: Trial | None = None
    """How its policies are tried out, if a recipe asks for it."""
    work: Callable[[Any, Layout], Work] = lambda recipe, layout: Work(recipe.least_parameters(layout), 0, recipe.batch_size, True)
    """What it computes with, to estimate the memory that it needs."""
    notes: Callable[[Any], dict[str, str]] = lambda learner: {}
    """What a learner remembers beside the memory, in words."""


class OffPolicyAgent:
    """An agent of any family that learns from its memory in rounds."""

    def __init__(
        self,
        family: Family,
        recipe: NetworkRecipe,
        layout: Layout,
        *,
        lanes: int = 1,
        seed: int = 0,
        device: jax.Device | None = None,
    ) -> None:
        self.recipe = recipe
        self._family, self._device = family, device
        self._layout, self.lanes = layout, lanes
        self._divide_memory(lanes)
        self.learner = jax.device_put(family.init_learner(recipe, layout, seed), device)
        self._noise = stream(seed, "exploration")
        self._updated: int | None = None
        self._newest: Any = None
        self._behind: Behind | None = None
        self._trials = Trials(recipe.trial_every, recipe.learning_starts, lanes) if recipe.trial_every else None
        self._tried: Any = None  # the policy of a trial that is under way, once it has acted

    def _divide_memory(self, lanes: int) -> None:
        """Divides an empty memory into this many lanes: one for each environment, and one more for data that is kept."""
        capacity = max(1, self.recipe.buffer_size // lanes)
        groups, extra = self._family.groups(self.recipe), self._family.extra(self.recipe)
        self._memory_shape = Shape(lanes, capacity, self._layout, groups, extra, self._family.neighbours(self.recipe))
        self._ring: Memory | None = None  # made with the first rows, since a model that only acts needs none
        self._staging = Staging(lanes, min(capacity, STAGED_ROWS), self._layout, self.recipe.reward_bound)

    @property
    def _keeps_data(self) -> bool:
        """Whether the last lane holds recorded data, which no environment overwrites."""
        return self._memory_shape.lanes > self.lanes

    @property
    def gamma(self) -> float:
        """The discount factor of its returns."""
        return self.recipe.gamma

    @property
    def _policy(self) -> Any:
        """The newest policy, on the host: waits for a round that is under way."""
        if self._newest is None:
            self._newest = self._family.policy_of(self.learner)
        return self._newest

    @property
    def memory(self) -> Memory:
        """The episodic memory, including staged rows. The next round overwrites it, so do not keep a reference."""
        if not self._staging.count.any():
            return self._rows()
        if self.learner.normalizer is not None or self.learner.reward_scale is not None:  # reading must not update them early
            return _inserted(self._rows(), self._staging.rows, self._staging.count)
        self._flush()
        return self._rows()

    def _rows(self) -> Memory:
        if self._ring is None:
            check_fits(self._needs(), self._device)
            self._ring = jax.device_put(Memory.empty(*self._memory_shape), self._device)
        return self._ring

    def _needs(self) -> list[Need]:
        """The memory that training takes in addition to the networks."""
        work, chunk = self._family.work(self.recipe, self._layout), CHUNK[self._layout.is_image]
        return training_needs(self._memory_shape, work, self.recipe.gradient_steps, chunk)

    def act(self, observation: np.ndarray) -> np.ndarray:
        """The policy's greedy actions. [B, *O] -> [B, A]."""
        return self._family.act(self.recipe, self._policy, observation)

    def sample(self, observation: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Actions drawn from the policy; the greedy ones if it is deterministic. [B, *O] -> [B, A]."""
        return self._family.sample(self.recipe, self._policy, observation, rng)

    def explore(self, observation: np.ndarray, step: int) -> np.ndarray:
        """Actions for training: uniform during warm-up, then the policy's with exploration. [E, *O] -> [E, A]."""
        if step < self.recipe.learning_starts:
            return self._layout.random_actions(len(observation), self._noise, self._layout.split(observation)[1])
        policy = self._policy if self._behind is None else self._behind.policy
        action = self._family.explore(self.recipe, policy, observation, step, self._noise)
        if self._trials is None or not self._trials.trying.any():
            return action
        return np.where(self._trials.trying[:, None], self._try(policy, observation), action)

    def _try(self, policy: Any, observation: np.ndarray) -> np.ndarray:
        """The greedy actions of the policy that is tried. [E, *O] -> [E, A]."""
        if self._tried is None and self._family.trial is not None:
            self._tried = self._family.trial.policy(self.learner)
        return self._family.act(self.recipe, policy._replace(steady=self._tried), observation)

    def observe(self, transition: Transition) -> None:
        """Stores one step of every environment, and starts and ends trials."""
        self.store(transition)
        if self._trials is None or self._family.trial is None:
            return
        starts, score = self._trials.add(transition)
        if starts:
            self.learner, self._tried = self._family.trial.starts(self.learner), None
        if score is not None:
            self.learner, self._newest = self._family.trial.ends(self.learner, score), None

    def store(self, transition: Transition) -> None:
        """Stores one step of every environment, recorded or played."""
        self._rows()  # made at the first step, so that a memory that does not fit this machine is refused right away
        if self._staging.full:
            self._flush()
        self._staging.add(transition, self.gamma)

    @property
    def notes(self) -> dict[str, str]:
        """What it remembers beside its memory, in words."""
        return self._family.notes(self.learner)

    def newest_trajectory(self, lane: int) -> Trajectory:
        """The newest trajectory of a lane, as far as the memory still has it."""
        if self._staging.count.any():
            self._flush()
        return newest_trajectory(self._rows(), lane)

    @property
    def rng(self) -> np.random.Generator:
        """Its random numbers on the host, which are part of its snapshots."""
        return self._noise

    def remember(self, trajectories: Sequence[Trajectory], *, keep: bool) -> None:
        """Stores recorded trajectories in the lanes of the environments or, with `keep`, in a lane of their own."""
        if keep and not self._keeps_data and (self._staging.count.any() or (self._ring is not None and len(self._ring))):
            raise BadValue("data can be kept only in a memory that was empty before it: call remember before learn")
        lanes = self._memory_shape.lanes if self._keeps_data or not keep else self.lanes + 1
        capacity = max(1, self.recipe.buffer_size // lanes)
        images = slots(capacity) if self._layout.kept_once else None
        room = Room(1 if keep else self.lanes, capacity, images, lanes)
        used = self._kept_rows() if keep and self._keeps_data else (0, 0)
        chosen = [lanes - 1 if keep else lane for lane in lanes_for(trajectories, room, used)]
        if lanes != self._memory_shape.lanes:
            self._divide_memory(lanes)
        self.abandon()  # a running episode does not continue behind recorded ones
        for trajectory, lane in zip(trajectories, chosen, strict=True):
            for transition in trajectory.transitions(lane, lanes):
                self.store(transition)
        self._flush()

    def _kept_rows(self) -> tuple[int, int]:
        """How many rows the lane of kept data has, and how many images."""
        memory = self.memory
        return int(memory.size[-1]), 0 if memory.frames is None else int(memory.frames.written[-1])

    def abandon(self) -> None:
        """Ends the running trajectories: their environments are about to be reset, and the step count may start again."""
        if self._staging.count.any():
            self._flush()
        for lane in range(self._memory_shape.lanes):
            self._ring = _cut(self._rows(), lane)
        self._staging.cut()
        self._updated = None
        if self._trials is not None:
            self._trials.abandon()

    def rounds_due(self, before: int, step: int) -> range:
        """The environment steps after `before`, up to `step`, at which a round of training is due."""
        freq = self.recipe.train_freq
        first = max(before, self.recipe.learning_starts) // freq + 1
        return range(first * freq, step + 1, freq)

    def refreshes(self, step: int) -> bool:
        """Whether an update of targets and stored returns is due."""
        period = self._family.update_period(self.recipe)
        return period is not None and (self._updated is None or step // period > self._updated // period)

    def learn(self, step: int) -> dict[str, float]:
        """One round of training; its mean losses. If rounds overlap with acting: those of the round before, which has ended."""
        due = self.refreshes(step)
        if due:
            self._updated = step
        before = None if self._behind is None else checked(self._behind.losses, step)
        policy = copied(self._policy) if self.recipe.overlap else None  # the round overwrites the networks
        rows, count = self._staging.take()
        state = self.learner, self._rows()
        self.learner, self._ring, losses = self._family.train_round(self.recipe, *state, rows, count, due)
        self._newest = None
        if not self.recipe.overlap:
            return checked(losses, step)
        self._behind = Behind(policy, losses)
        return before or {}

    def values(self, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
        """The mean of the online critics' Q(s, a), in chunks of one compiled size. [B, *O], [B, A] -> [B]."""
        chunk, count = CHUNK[self._layout.is_image], len(observation)
        padding = -count % chunk
        observation, action = (np.pad(x, ((0, padding), *[(0, 0)] * (x.ndim - 1))) for x in (observation, action))
        slices = [slice(start, start + chunk) for start in range(0, count, chunk)]
        parts = [self._family.values(self.learner, observation[part], action[part]) for part in slices]
        return np.concatenate([np.asarray(part) for part in parts])[:count]

    def set_learner(self, learner: Any) -> None:
        """Restores a saved learner."""
        self.learner = jax.device_put(learner, self._device)
        self._newest = self._behind = self._tried = None

    def snapshot(self) -> Snapshot:
        """All state except the learner. Staged rows stay on the host."""
        facts = {"noise": self._noise.bit_generator.state, "updated": self._updated}
        facts |= {"keeps_data": True} if self._keeps_data else {}
        arrays = dict[str, np.ndarray]()
        if self._behind is not None:
            facts["losses"], arrays = self._behind.saved()
        parts = {"agent": Snapshot(facts, arrays), "memory": snapshot_of(self._rows()), "staging": self._staging.snapshot()}
        return Snapshot.of(**parts, **({} if self._trials is None else {"trials": self._trials.snapshot()}))

    def restore(self, saved: Snapshot) -> None:
        """Restores a snapshot."""
        facts, arrays = saved.part("agent")
        self._noise.bit_generator.state = facts["noise"]
        self._updated = None if facts["updated"] is None else int(facts["updated"])
        self._divide_memory(self.lanes + bool(facts.get("keeps_data", False)))
        self._staging.restore(saved.part("staging"))
        self._ring = jax.device_put(restored(saved.part("memory"), *self._memory_shape), self._device)
        self._newest = self._behind = self._tried = None
        if self._trials is not None:
            self._trials.restore(saved.part("trials"))
        if "losses" in facts:
            self._behind = Behind.restored(facts["losses"], arrays, self._policy)

    def _flush(self) -> None:
        self.learner, self._ring = remembered(self.learner, self._rows(), *self._staging.take())
        self._newest = None  # the normalizer has changed, and the policy must use it, as it would after a resume


def copied(tree: Any) -> Any:
    """A copy where the arrays are: on the host, or on the device for networks that see images."""
    return jax.tree.map(lambda leaf: leaf.copy(), tree)


def on_host(tree: Any) -> Any:
    """A copy on the host, because the next round overwrites the arrays it is given."""
    return jax.tree.map(np.array, tree)


_cut = jax.jit(cut, donate_argnums=0)
_inserted = jax.jit(insert)


remembered = jax.jit(remember, donate_argnums=(0, 1))


@jax.jit
def mean_value(learner: Any, observation: Array, action: Array) -> Array:
    """The mean Q(s, a) of a learner's critics. [B, D], [B, A] -> [B]."""
    return in_rewards(learner, learner.critics(normalized(learner.normalizer, observation), action).mean(axis=0))
