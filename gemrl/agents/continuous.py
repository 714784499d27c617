"""GEM and its relatives with a deterministic policy (Algorithms 1 and 2): one compiled round of training."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from gemrl.agents.device import CPU_COMPILER_OPTIONS
from gemrl.agents.memory.refresh import plan, plan_newest, refreshed
from gemrl.agents.memory.ring import Memory, Rows
from gemrl.agents.networks.actor_critic import Actor, Critics
from gemrl.agents.normalization import Normalizer, normalized
from gemrl.agents.off_policy import Family, mean_value, on_host, remember
from gemrl.agents.optimizers import adam, adam_start, descend
from gemrl.agents.values import Randomness, bounds, chance, fresh_returns, group_values, smoothing_noise
from gemrl.algorithms.planning import NStep
from gemrl.algorithms.registry import Recipe
from gemrl.algorithms.targets import NoBound, Planned, SelfImitation
from gemrl.core.arrays import Array
from gemrl.core.layout import Layout
from gemrl.core.seeding import stream

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
    normalizer: Normalizer | None
    updates: Array
    key: Array


def init_learner(recipe: Recipe, layout: Layout, seed: int) -> Learner:
    """Networks, their targets and optimisers at step 0."""
    rng = stream(seed, "networks")
    observation, action = layout.size, layout.action
    hidden, count = recipe.net_arch, recipe.n_pairs * recipe.n_critics
    norm = {"layer_norm": recipe.layer_norm, "norm_first": recipe.norm_first}
    actor = Actor.init(rng, observation, action, hidden, **norm)
    critics = Critics.init(rng, count, observation, action, hidden, action_twice=recipe.action_twice, **norm)
    learner = Learner(
        actor,
        critics,
        actor,
        critics,
        adam_start(actor),
        adam_start(critics),
        Normalizer.start(observation) if recipe.normalize_observations else None,
        np.zeros((), np.int32),
        jax.random.key(seed),
    )
    return jax.tree.map(jnp.array, learner)  # copies: the round overwrites what it is given, so no two may share an array


def move_targets(recipe: Recipe, learner: Learner) -> Learner:
    """theta' <- tau theta + (1 - tau) theta', for actor and critics."""

    def moved(target: Array, online: Array) -> Array:
        return recipe.tau * online + (1 - recipe.tau) * target

    return eqx.tree_at(
        lambda x: (x.target_actor, x.target_critics),
        learner,
        jax.tree.map(moved, (learner.target_actor, learner.target_critics), (learner.actor, learner.critics)),
    )


def refresh(recipe: Recipe, learner: Learner, memory: Memory, stale: Array, key: Array) -> Memory:
    """The memory with `q_next` of the newest stale[e] rows of each lane evaluated; the work follows their number."""
    networks = learner.target_actor.folded(), learner.target_critics.folded()
    learner = eqx.tree_at(lambda x: (x.target_actor, x.target_critics), learner, networks)

    def value_of(_: Array, states: Array, number: Array) -> Array:
        noise = smoothing_noise(recipe, jax.random.fold_in(key, number), (len(states), memory.rows.action.shape[-1]))
        return group_values(recipe, learner, states, noise)

    return refreshed(memory, stale, REFRESH_CHUNK, value_of)


class Batch(NamedTuple):
    """Rows to train on, one batch for all critics or one for each group: G is 1 or n_pairs."""

    observation: Array  # [G, B, D], normalised
    action: Array  # [G, B, A]
    returns: Array  # [K, G, B], what each group of critics regresses on
    lower: Array  # [K, G, B], bounds that a critic is pushed into
    upper: Array  # [K, G, B]


def batch_of(recipe: Recipe, learner: Learner, memory: Memory, chance: Randomness) -> Batch:
    """A minibatch with its returns, from the memory or fresh from the target networks."""
    place = chance.place
    if isinstance(recipe.targets, Planned):
        returns = memory.planned[:, place.lane, place.position]
    else:
        returns = fresh_returns(recipe, learner, memory, chance)
    lower, upper = bounds(recipe, learner, memory, chance)
    observation = normalized(learner.normalizer, memory.rows.observation[place.lane, place.position])
    return Batch(observation, memory.rows.action[place.lane, place.position], returns, lower, upper)


def critic_loss(recipe: Recipe, critics: Critics, batch: Batch) -> Array:
    """The error of every critic on its group's returns, and what its bounds add, summed over critics."""
    critic = jnp.arange(recipe.n_pairs * recipe.n_critics)
    group = critic // recipe.n_critics
    if recipe.separate_batches:
        q = critics(batch.observation[group], batch.action[group])
        returns, lower, upper = (x[:, group] for x in batch[2:])
    else:
        q = critics(batch.observation[0], batch.action[0])
        returns, lower, upper = batch[2:]
    # They are [K, C, B] by now, or [K, 1, B] if all critics share a batch; a critic's own are those of its group.
    own = group, critic % returns.shape[1]
    loss = recipe.loss(q - (returns if recipe.regress_on_both else returns[own])).mean(axis=-1).sum()
    if isinstance(recipe.bound, NoBound):
        return loss
    outside = jnp.maximum(lower[own] - q, 0) ** 2 + jnp.maximum(q - upper[own], 0) ** 2
    return loss + recipe.bound.weight * outside.mean(axis=-1).sum()


def actor_loss(recipe: Recipe, actor: Actor, critics: Critics, observation: Array) -> Array:
    """The negative of what the deterministic policy gradient climbs."""
    objective = recipe.actor_objective
    return -objective(critics[objective.looks_at](observation, actor(observation))).mean()


def gradient_step(recipe: Recipe, memory: Memory, learner: Learner, chance: Randomness) -> tuple[Learner, tuple[Array, Array]]:
    """One update of the critics and, every policy_delay-th time, of the actor; with both losses (NaN if not computed)."""
    batch = batch_of(recipe, learner, memory, chance)
    optimizer = adam(recipe.learning_rate)

    error = partial(critic_loss, recipe, batch=batch)
    critics, critic_optimizer, loss = descend(optimizer, error, learner.critics, learner.critic_optimizer)

    def improve(actor: Actor, state: optax.OptState) -> tuple[Actor, optax.OptState, Array]:
        return descend(optimizer, lambda actor: actor_loss(recipe, actor, critics, batch.observation[0]), actor, state)

    def keep(actor: Actor, state: optax.OptState) -> tuple[Actor, optax.OptState, Array]:
        return actor, state, jnp.nan

    updates = learner.updates + 1
    due = updates % recipe.policy_delay == 0
    actor, actor_optimizer, objective = jax.lax.cond(due, improve, keep, learner.actor, learner.actor_optimizer)
    learner = eqx.tree_at(
        lambda x: (x.actor, x.critics, x.actor_optimizer, x.critic_optimizer, x.updates),
        learner,
        (actor, critics, actor_optimizer, critic_optimizer, updates),
    )
    if not isinstance(recipe.targets, Planned):  # planned returns have their targets moved once for the whole round
        moves = updates % recipe.target_update_interval == 0
        learner = jax.lax.cond(moves, partial(move_targets, recipe), lambda learner: learner, learner)
    return learner, (loss, objective)


def gradient_steps(recipe: Recipe, memory: Memory, learner: Learner, key: Array) -> tuple[Learner, tuple[Array, Array]]:
    """All gradient steps of a round; with the losses of each."""
    # Drawn for all steps at once: random numbers are slow in coming one step at a time.
    chances = jax.vmap(partial(chance, recipe, memory))(jax.random.split(key, recipe.gradient_steps))
    return jax.lax.scan(partial(gradient_step, recipe, memory), learner, chances)


@partial(jax.jit, static_argnums=(0, 5), donate_argnums=(1, 2), compiler_options=CPU_COMPILER_OPTIONS)
def train_round(
    recipe: Recipe, learner: Learner, memory: Memory, new: Rows, count: Array, due: bool
) -> tuple[Learner, Memory, dict[str, Array]]:
    """New rows enter; if due, stored returns are computed anew (below); then gradient steps."""
    learner, memory = remember(learner, memory, new, count)
    key, refresh_key, step_key = jax.random.split(learner.key, 3)
    learner, memory = update_memory(recipe, learner, memory, due, refresh_key)
    learner, losses = gradient_steps(recipe, memory, eqx.tree_at(lambda x: x.key, learner, key), step_key)
    critic_loss, actor_loss = losses
    return learner, memory, {"critic_loss": critic_loss.mean(), "actor_loss": jnp.nanmean(actor_loss)}


def update_memory(recipe: Recipe, learner: Learner, memory: Memory, due: bool, key: Array) -> tuple[Learner, Memory]:
    """Algorithm 2. If due, targets move and every value is stale, else those of new rows; then all returns are planned."""
    if isinstance(recipe.targets, Planned):
        learner = move_targets(recipe, learner) if due else learner
        memory = refresh(recipe, learner, memory, memory.size if due else memory.unplanned, key)
        memory = plan(memory, recipe.planner) if due else plan_newest(memory, recipe.planner)
    elif isinstance(recipe.bound, SelfImitation) and due:
        memory = refresh(recipe, learner, memory, memory.size, key)
        memory = plan(memory, NStep(recipe.bound.horizon))
    return learner, memory


def update_period(recipe: Recipe) -> int | None:
    """Environment steps after which an update of the stored returns is due; None if there are none."""
    if isinstance(recipe.targets, Planned):
        return recipe.target_update_interval
    return recipe.bound.every if isinstance(recipe.bound, SelfImitation) else None


class Policy(NamedTuple):
    """What acting needs, on the host."""

    actor: Actor
    normalizer: Normalizer | None


def policy_of(learner: Learner) -> Policy:
    """The part of a learner that acts."""
    return on_host(Policy(learner.actor, learner.normalizer))


def act(recipe: Recipe, policy: Policy, observation: np.ndarray) -> np.ndarray:
    """The policy's actions in [-1, 1]. [B, D] -> [B, A]."""
    return policy.actor(normalized(policy.normalizer, observation))


def explore(recipe: Recipe, policy: Policy, observation: np.ndarray, step: int, rng: np.random.Generator) -> np.ndarray:
    """The policy's actions with noise. [B, D] -> [B, A]."""
    action = act(recipe, policy, observation)
    return np.clip(action + recipe.exploration_noise * rng.standard_normal(action.shape), -1, 1).astype(np.float32)


FAMILY = Family(
    init_learner=init_learner,
    train_round=train_round,
    update_period=update_period,
    policy_of=policy_of,
    act=act,
    explore=explore,
    sample=lambda recipe, policy, observation, _: act(recipe, policy, observation),
    values=mean_value,
    groups=lambda recipe: recipe.n_pairs,
)
