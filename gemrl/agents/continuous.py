"""Continuous GEM (Algorithms 1 and 2): one compiled round of targets, refresh, planning and gradient steps."""

from __future__ import annotations

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from gemrl.environments import Transition
from gemrl.memory import Batch, Memory, Rows, Staging, cut, insert, plan, sample
from gemrl.networks import Actor, Critics
from gemrl.planning import Array
from gemrl.recipes import Recipe
from gemrl.seeding import stream

PAIRS = 2
"""Pairs of critics: the two estimates of twin back-propagation."""

PAIR_SIZE = 2
"""Critics of a pair: the two of clipped double Q-learning."""

REFRESH_CHUNK = 512
"""Next states evaluated at once in a refresh: small enough that the activations stay in cache."""


class Learner(eqx.Module):
    """Everything that learning changes, except the memory."""

    actor: Actor
    critics: Critics
    target_actor: Actor
    target_critics: Critics
    actor_optimizer: optax.OptState
    critic_optimizer: optax.OptState
    updates: Array
    key: Array


def init_learner(recipe: Recipe, observation: int, action: int, seed: int) -> Learner:
    """Networks, their targets and optimisers at step 0."""
    rng = stream(seed, "networks")
    hidden, norm = recipe.net_arch, recipe.layer_norm
    actor = Actor.init(rng, observation, action, hidden, layer_norm=norm)
    critics = Critics.init(rng, PAIRS * PAIR_SIZE, observation, action, hidden, layer_norm=norm, action_twice=recipe.action_twice)
    start = jax.jit(_optimizer(recipe).init)
    learner = Learner(actor, critics, actor, critics, start(actor), start(critics), np.zeros((), np.int32), jax.random.key(seed))
    return jax.tree.map(jnp.array, learner)  # copies: the round overwrites what it is given, so no two may share an array


def _optimizer(recipe: Recipe) -> optax.GradientTransformation:
    return optax.adam(recipe.learning_rate)


def move_targets(recipe: Recipe, learner: Learner) -> Learner:
    """theta' <- tau theta + (1 - tau) theta', for actor and critics."""

    def moved(target: Array, online: Array) -> Array:
        return recipe.tau * online + (1 - recipe.tau) * target

    return eqx.tree_at(
        lambda x: (x.target_actor, x.target_critics),
        learner,
        jax.tree.map(moved, (learner.target_actor, learner.target_critics), (learner.actor, learner.critics)),
    )


def pair_values(learner: Learner, observation: Array, noise: Array) -> Array:
    """Each pair's conservative value of a state: min over the pair of Q'(s, pi'(s) + noise). [B, D], [B, A] -> [K, B]."""
    action = jnp.clip(learner.target_actor(observation) + noise, -1, 1)
    q = learner.target_critics(observation, action)
    return q.reshape(PAIRS, PAIR_SIZE, -1).min(axis=1)


def refresh(recipe: Recipe, learner: Learner, memory: Memory, stale: Array, key: Array) -> Memory:
    """The memory with `q_next` of the newest stale[e] rows of each lane evaluated; the work follows their number."""
    lanes, capacity = memory.rows.reward.shape
    width = max(1, REFRESH_CHUNK // lanes)
    lane = jnp.arange(lanes)[:, None]
    start = (memory.head - stale)[:, None]

    def chunk(number: Array, q_next: Array) -> Array:
        offset = number * width + jnp.arange(width)
        position = (start + offset) % capacity
        states = memory.rows.next_observation[lane, position].reshape(lanes * width, -1)
        noise = recipe.target_policy_noise * jax.random.normal(
            jax.random.fold_in(key, number), (lanes * width, memory.rows.action.shape[-1])
        )
        noise = jnp.clip(noise, -recipe.target_noise_clip, recipe.target_noise_clip)
        values = pair_values(learner, states, noise).reshape(PAIRS, lanes, width)
        kept = jnp.where(offset < stale[:, None], position, capacity)  # the others fall outside the ring and are dropped
        return q_next.at[:, lane, kept].set(values, mode="drop")

    q_next = jax.lax.fori_loop(0, -(-stale.max() // width), chunk, memory.q_next)
    return eqx.tree_at(lambda x: x.q_next, memory, q_next)


def critic_loss(recipe: Recipe, critics: Critics, batch: Batch) -> Array:
    """The regression error of every critic on its pair's planned returns, summed over critics. batch is [G, B]."""
    critic = jnp.arange(PAIRS * PAIR_SIZE)
    pair = critic // PAIR_SIZE
    if recipe.separate_batches:
        q, planned = critics(batch.observation[pair], batch.action[pair]), batch.planned[:, pair]
    else:
        q, planned = critics(batch.observation[0], batch.action[0]), batch.planned
    # planned is [K, C, B] by now, or [K, 1, B] if all critics share a batch
    own = planned if recipe.regress_on_both else planned[pair, critic % planned.shape[1]]
    return recipe.loss(q - own).mean(axis=-1).sum()


def actor_loss(recipe: Recipe, actor: Actor, critics: Critics, observation: Array) -> Array:
    """The negative of what the deterministic policy gradient climbs."""
    return -recipe.actor_objective(critics(observation, actor(observation))).mean()


def gradient_step(recipe: Recipe, memory: Memory, learner: Learner, key: Array) -> tuple[Learner, tuple[Array, Array]]:
    """One update of the critics and, every policy_delay-th time, of the actor; with both losses (NaN if not computed)."""
    groups = PAIRS if recipe.separate_batches else 1
    batch = sample(memory, key, (groups, recipe.batch_size))
    optimizer = _optimizer(recipe)

    loss, gradient = jax.value_and_grad(lambda critics: critic_loss(recipe, critics, batch))(learner.critics)
    change, critic_optimizer = optimizer.update(gradient, learner.critic_optimizer)
    critics = optax.apply_updates(learner.critics, change)

    def improve(actor: Actor, state: optax.OptState) -> tuple[Actor, optax.OptState, Array]:
        objective, gradient = jax.value_and_grad(lambda a: actor_loss(recipe, a, critics, batch.observation[0]))(actor)
        change, state = optimizer.update(gradient, state)
        return optax.apply_updates(actor, change), state, objective

    def keep(actor: Actor, state: optax.OptState) -> tuple[Actor, optax.OptState, Array]:
        return actor, state, jnp.nan

    updates = learner.updates + 1
    actor, actor_optimizer, objective = jax.lax.cond(
        updates % recipe.policy_delay == 0, improve, keep, learner.actor, learner.actor_optimizer
    )
    learner = eqx.tree_at(
        lambda x: (x.actor, x.critics, x.actor_optimizer, x.critic_optimizer, x.updates),
        learner,
        (actor, critics, actor_optimizer, critic_optimizer, updates),
    )
    return learner, (loss, objective)


@partial(jax.jit, static_argnums=0, donate_argnums=(1, 2))
def train_round(
    recipe: Recipe, learner: Learner, memory: Memory, new: Rows, count: Array, due: Array
) -> tuple[Learner, Memory, dict[str, Array]]:
    """New rows enter; if due, targets move; the rows whose value is stale are valued; all are planned; then gradient steps."""
    memory = insert(memory, new, count)
    learner = jax.lax.cond(due, partial(move_targets, recipe), lambda learner: learner, learner)
    key, refresh_key, step_key = jax.random.split(learner.key, 3)
    memory = refresh(recipe, learner, memory, jnp.where(due, memory.size, memory.unplanned), refresh_key)
    memory = plan(memory, recipe.planner)
    learner, losses = jax.lax.scan(
        partial(gradient_step, recipe, memory),
        eqx.tree_at(lambda x: x.key, learner, key),
        jax.random.split(step_key, recipe.gradient_steps),
    )
    names = ("critic_loss", "actor_loss")
    return learner, memory, {name: jnp.nanmean(loss) for name, loss in zip(names, losses, strict=True)}


_insert = jax.jit(insert, donate_argnums=0)
_cut = jax.jit(cut, donate_argnums=0)
_mean_value = jax.jit(lambda critics, observation, action: critics(observation, action).mean(axis=0))


class ContinuousAgent:
    """A learner with its memory on the device, and on the host what stepping an environment needs."""

    def __init__(
        self,
        recipe: Recipe,
        observation: int,
        action: int,
        *,
        lanes: int = 1,
        seed: int = 0,
        device: jax.Device | None = None,
    ) -> None:
        self.recipe = recipe
        self.action_size = action
        self._device = device
        capacity = max(1, recipe.buffer_size // lanes)
        self.learner = jax.device_put(init_learner(recipe, observation, action, seed), device)
        self._memory = jax.device_put(Memory.empty(lanes, capacity, observation, action, PAIRS), device)
        self._staging = Staging(lanes, min(capacity, 128), observation, action)
        self._noise = stream(seed, "exploration")
        self._targets_moved: int | None = None
        self._policy = self._host_policy()

    @property
    def gamma(self) -> float:
        """The discount factor of its returns."""
        return self.recipe.gamma

    @property
    def memory(self) -> Memory:
        """The episodic memory, every observed row included."""
        if self._staging.count.any():
            self._memory = _insert(self._memory, *self._staging.take())
        return self._memory

    def act(self, observation: np.ndarray) -> np.ndarray:
        """The policy's actions in [-1, 1]. [B, D] -> [B, A]."""
        return self._policy(observation)

    def explore(self, observation: np.ndarray, step: int) -> np.ndarray:
        """Actions for training: uniform while warming up, then the policy's with noise. [E, D] -> [E, A]."""
        shape = (len(observation), self.action_size)
        if step < self.recipe.learning_starts:
            return self._noise.uniform(-1, 1, shape).astype(np.float32)
        noise = self.recipe.exploration_noise * self._noise.standard_normal(shape)
        return np.clip(self.act(observation) + noise, -1, 1).astype(np.float32)

    def observe(self, transition: Transition) -> None:
        """Remembers one step of every environment."""
        if self._staging.full:
            self._memory = _insert(self._memory, *self._staging.take())
        self._staging.add(transition, self.recipe.gamma)

    def abandon(self) -> None:
        """Ends the running trajectories in memory: their environments are about to be reset."""
        memory = self.memory
        for lane in range(memory.size.shape[0]):
            memory = _cut(memory, lane)
        self._memory = memory

    def due(self, step: int, lanes: int = 1) -> bool:
        """Whether a round of training follows environment step number `step`."""
        freq = self.recipe.train_freq
        return step > self.recipe.learning_starts and step // freq > (step - lanes) // freq

    def learn(self, step: int) -> dict[str, float]:
        """One round of training; its mean losses."""
        moved = self._targets_moved
        due = moved is None or step - moved >= self.recipe.target_update_interval
        if due:
            self._targets_moved = step
        rows, count = self._staging.take()
        self.learner, self._memory, losses = train_round(self.recipe, self.learner, self._memory, rows, count, due)
        self._policy = self._host_policy()
        return {name: float(value) for name, value in losses.items()}

    def values(self, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
        """The mean of the online critics' Q(s, a), in chunks of one compiled size. [B, D], [B, A] -> [B]."""
        chunk, count = 1024, len(observation)
        padding = -count % chunk
        observation, action = (np.pad(x, ((0, padding), (0, 0))) for x in (observation, action))
        parts = [
            _mean_value(self.learner.critics, observation[at : at + chunk], action[at : at + chunk])
            for at in range(0, count, chunk)
        ]
        return np.concatenate([np.asarray(part) for part in parts])[:count]

    def restore(self, learner: Learner) -> None:
        """Takes over a saved learner."""
        self.learner = jax.device_put(learner, self._device)
        self._policy = self._host_policy()

    def _host_policy(self) -> Actor:
        # A copy, because the next round overwrites the arrays it is donated.
        return jax.tree.map(np.array, self.learner.actor)
