"""GEM and its relatives with a deterministic policy: Algorithms 1 and 2 of the paper as one compiled round of training.

Read it from top to bottom: a round (Algorithm 1), the update of the memory (Algorithm 2), the gradient steps with their losses,
the state values that both use, and acting.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from gemrl.agents.baseline_targets import bounds, fresh_returns
from gemrl.agents.device import CPU_COMPILER_OPTIONS
from gemrl.agents.footprint import Work, actor_critic_size
from gemrl.agents.learner import Learner, init_learner
from gemrl.agents.memory.ring import Chunks, Memory, RowIndex, Rows, draw, plan, plan_newest, stale_rows
from gemrl.agents.networks.actor_critic import Actor, Critics, adam, descend, normalized
from gemrl.agents.networks.encoder import Encoder, Encoders, encoder_loss, seen_pairs, seen_states
from gemrl.agents.normalization import Normalizer, freezing, frozen
from gemrl.agents.off_policy import Family, on_host
from gemrl.agents.reward_scale import for_networks, in_rewards, remember
from gemrl.algorithms.planning import NStep
from gemrl.algorithms.recipes.continuous import Recipe
from gemrl.algorithms.targets import Fresh, SelfImitation, Tightening
from gemrl.core.arrays import Array
from gemrl.core.layout import Layout

REFRESH_CHUNK = 512
"""Next states evaluated at a time in a refresh: few enough that the activations stay in cache."""


@partial(jax.jit, static_argnums=(0, 5), donate_argnums=(1, 2), compiler_options=CPU_COMPILER_OPTIONS)
def train_round(
    recipe: Recipe, learner: Learner, memory: Memory, new: Rows, count: Array, due: bool
) -> tuple[Learner, Memory, dict[str, Array]]:
    """One round of Algorithm 1: adds new rows to the memory, updates its returns, then takes gradient steps."""
    learner, memory = remember(learner, memory, new, count)
    key, refresh_key, step_key = jax.random.split(learner.key, 3)
    learner, memory = update_memory(recipe, learner, memory, due, refresh_key)
    learner, losses = gradient_steps(recipe, memory, eqx.tree_at(lambda x: x.key, learner, key), step_key)
    critic_losses, actor_losses = losses
    return learner, memory, {"critic_loss": critic_losses.mean(), "actor_loss": jnp.nanmean(actor_losses)}


def update_memory(recipe: Recipe, learner: Learner, memory: Memory, due: bool, key: Array) -> tuple[Learner, Memory]:
    """Algorithm 2. If due, moves the target networks and refreshes all rows, else only new ones; then plans returns."""
    if recipe.targets.stored:
        learner = move_targets(recipe, learner) if due else learner
        memory = refresh(recipe, learner, memory, memory.size if due else stale_rows(memory), key)
        memory = plan(memory, recipe.targets.planner) if due else plan_newest(memory, recipe.targets.planner)
    elif isinstance(recipe.bound, SelfImitation) and due:
        memory = refresh(recipe, learner, memory, memory.size, key)
        memory = plan(memory, NStep(recipe.bound.horizon))
    return learner, memory


def move_targets(recipe: Recipe, learner: Learner) -> Learner:
    """theta' <- tau theta + (1 - tau) theta', for actor and critics; and what they see, if features are learned."""

    def moved(target: Array, online: Array) -> Array:
        return recipe.tau * online + (1 - recipe.tau) * target

    networks = jax.tree.map(moved, (learner.target_actor, learner.target_critics), (learner.actor, learner.critics))
    learner = freezing(eqx.tree_at(lambda x: (x.target_actor, x.target_critics), learner, networks))
    return learner if learner.encoders is None else eqx.tree_at(lambda x: x.encoders, learner, learner.encoders.moved())


def refresh(recipe: Recipe, learner: Learner, memory: Memory, stale: Array, key: Array) -> Memory:
    """The memory with the values of the newest stale[e] rows of each lane computed again; the work grows with their number."""
    networks = learner.target_actor.fast(), learner.target_critics.fast()
    learner = frozen(eqx.tree_at(lambda x: (x.target_actor, x.target_critics), learner, networks))
    chunks, actions = Chunks(memory, stale, REFRESH_CHUNK), memory.rows.action.shape[-1]

    def value_chunk(number: Array, columns: tuple[Array, Array | None]) -> tuple[Array, Array | None]:
        q_next, q_stored = columns
        _, states = chunks.next_observations(number)
        noise = smoothing_noise(recipe, jax.random.fold_in(key, number), (len(states), actions))
        q_next = chunks.write(number, q_next, state_values(recipe, learner, states, noise))
        if q_stored is not None:
            states = normalized(learner.normalizer, states)
            q_stored = chunks.write(number, q_stored, pair_values(recipe, learner, states, chunks.next_actions(number)))
        return q_next, q_stored

    q_next, q_stored = jax.lax.fori_loop(0, chunks.count, value_chunk, (memory.q_next, memory.q_stored))
    return eqx.tree_at(lambda x: (x.q_next, x.q_stored), memory, (q_next, q_stored), is_leaf=lambda x: x is None)


def gradient_steps(recipe: Recipe, memory: Memory, learner: Learner, key: Array) -> tuple[Learner, tuple[Array, Array]]:
    """Takes all gradient steps of a round; also returns both losses of each step."""
    # Drawn for all steps at once: drawing random numbers step by step is slow.
    drawn = jax.vmap(partial(draw_randomness, recipe, memory))(jax.random.split(key, recipe.gradient_steps))
    return jax.lax.scan(partial(gradient_step, recipe, memory), learner, drawn)


def gradient_step(recipe: Recipe, memory: Memory, learner: Learner, drawn: Randomness) -> tuple[Learner, tuple[Array, Array]]:
    """One update of the critics and, every policy_delay-th time, of the actor; and both losses (NaN if not computed)."""
    batch = batch_of(recipe, learner, memory, drawn)
    optimizer = adam(recipe.learning_rate)
    loss = partial(critic_loss, recipe, batch=batch)
    critics, critic_optimizer, critic_error = descend(optimizer, loss, learner.critics, learner.critic_optimizer)

    def improve(actor: Actor, state: optax.OptState) -> tuple[Actor, optax.OptState, Array]:
        return descend(optimizer, lambda actor: actor_loss(recipe, actor, critics, batch), actor, state)

    def keep(actor: Actor, state: optax.OptState) -> tuple[Actor, optax.OptState, Array]:
        return actor, state, jnp.nan

    updates = learner.updates + 1
    due = updates % recipe.policy_delay == 0
    actor, actor_optimizer, actor_error = jax.lax.cond(due, improve, keep, learner.actor, learner.actor_optimizer)
    learner = eqx.tree_at(
        lambda x: (x.actor, x.critics, x.actor_optimizer, x.critic_optimizer, x.updates),
        learner,
        (actor, critics, actor_optimizer, critic_optimizer, updates),
    )
    if learner.encoders is not None:
        learner = eqx.tree_at(lambda x: x.encoders, learner, improved_encoders(optimizer, learner.encoders, batch))
    if not recipe.targets.stored:  # with planned returns they move once per round, in update_memory
        moves = updates % recipe.target_update_interval == 0
        learner = jax.lax.cond(moves, partial(move_targets, recipe), lambda learner: learner, learner)
    return learner, (critic_error, actor_error)


def critic_loss(recipe: Recipe, critics: Critics, batch: Batch) -> tuple[Array, Any]:
    """The loss against the returns R plus the penalty for leaving the bounds, over all critics; and the bodies' statistics."""
    q, statistics = critics.training(batch.observation, batch.action)
    loss = recipe.loss(q - batch.returns).mean(axis=-1).sum()
    if batch.lower is not None and batch.upper is not None:
        outside = jnp.maximum(batch.lower - q, 0) ** 2 + jnp.maximum(q - batch.upper, 0) ** 2
        loss = loss + recipe.bound.weight * outside.mean(axis=-1).sum()
    return loss, statistics


def actor_loss(recipe: Recipe, actor: Actor, critics: Critics, batch: Batch) -> tuple[Array, Any]:
    """The negative of the objective that the deterministic policy gradient maximizes; and the body's statistics."""
    objective = recipe.actor_objective
    action, statistics = actor.training(seen_states(batch.encoder, batch.states))
    q = critics[objective.critics_used](seen_pairs(batch.encoder, batch.states, action), action)
    return -objective(q).mean(), statistics


def improved_encoders(optimizer: optax.GradientTransformation, encoders: Encoders, batch: Batch) -> Encoders:
    """The encoders after a gradient step on the prediction of next states' features."""
    loss = partial(encoder_loss, observation=batch.states, action=batch.actions, following=batch.following)
    online, state, _ = descend(optimizer, loss, encoders.online, encoders.optimizer)
    return eqx.tree_at(lambda x: (x.online, x.optimizer), encoders, (online, state))


class Batch(NamedTuple):
    """A minibatch for C critics: one that they share, or one for each."""

    observation: Array  # [B, D] or [C, B, D], what critics see of normalized observations
    action: Array  # [B, A] or [C, B, A]
    returns: Array  # [C, B], the targets of each critic; [K, 1 or C, B] if each regresses on the returns of all groups
    lower: Array | None  # [C, B], bounds that the Q-values are pushed into
    upper: Array | None  # [C, B]
    states: Array  # [B, D], the states that the actor is updated on, normalized
    actions: Array  # [B, A], the stored actions in these states
    following: Array | None  # [B, D], the states after them, if features are learned
    encoder: Encoder | None  # what actor and critics see states with


def batch_of(recipe: Recipe, learner: Learner, memory: Memory, drawn: Randomness) -> Batch:
    """The minibatch of drawn rows [G, B], with returns from the memory or computed from the target networks.

    The critics of a group share its minibatch, its returns and its bounds.
    """
    lane, position, _ = drawn.rows
    value = partial(state_values, recipe, learner)
    stored = recipe.targets.stored
    returns = memory.planned[:, lane, position] if stored else fresh_returns(recipe, memory, drawn, value)
    lower, upper = bounds(recipe, learner, memory, drawn, value) if recipe.bound.weight else (None, None)
    observation = normalized(learner.normalizer, memory.rows.observation[lane, position])
    action, states = memory.rows.action[lane, position], observation[0]
    actions, encoder, following = action[0], learner.encoder, None
    if encoder is not None:
        following = normalized(learner.normalizer, memory.rows.next_observation[lane[0], position[0]])
    group = jnp.arange(recipe.n_pairs * recipe.n_critics) // recipe.n_critics  # of each critic
    batch = group if recipe.separate_batches else jnp.zeros_like(group)  # and the minibatch that it is trained on
    if recipe.separate_batches:
        observation, action = observation[batch], action[batch]
    else:
        observation, action = states, action[0]
    if not recipe.regress_on_both:
        returns = returns[group, batch]
    elif recipe.separate_batches:
        returns = returns[:, batch]
    lower, upper = (x if x is None else for_networks(learner, x[group, batch]) for x in (lower, upper))
    observation = seen_pairs(encoder, observation, action)
    return Batch(observation, action, for_networks(learner, returns), lower, upper, states, actions, following, encoder)


def state_values(recipe: Recipe, learner: Learner, observation: Array, noise: Array, subset: Array | None = None) -> Array:
    """Each pair's value of a state: the smallest Q'(s, pi'(s) + noise) of its critics. [B, D], [B, A] -> [K, B]."""
    observation = normalized(learner.normalizer, observation)
    action = jnp.clip(learner.target_actor(seen_states(learner.target_encoder, observation)) + noise, -1, 1)
    return pair_values(recipe, learner, observation, action, subset)


def pair_values(recipe: Recipe, learner: Learner, observation: Array, action: Array, subset: Array | None = None) -> Array:
    """Each pair's value of normalized states and actions: the smallest Q'(s, a) of its critics. [B, D], [B, A] -> [K, B]."""
    q = learner.target_critics(seen_pairs(learner.target_encoder, observation, action), action)
    q = q.reshape(recipe.n_pairs, recipe.n_critics, -1)
    return in_rewards(learner, (q if subset is None else q[:, subset]).min(axis=1))


def smoothing_noise(recipe: Recipe, key: Array, shape: tuple[int, ...]) -> Array:
    """Clipped Gaussian noise on the actions of a bootstrap (target policy smoothing)."""
    noise = recipe.target_policy_noise * jax.random.normal(key, shape)
    return jnp.clip(noise, -recipe.target_noise_clip, recipe.target_noise_clip)


class Randomness(NamedTuple):
    """All randomness of one gradient step; None where the recipe does not need it."""

    rows: RowIndex  # [G, B], the rows of the minibatch; G is 1, or n_pairs if each group draws its own
    noise: Array | None  # [G, B, A], on the actions of fresh targets
    subset: Array | None  # the critics of fresh targets
    ahead: Array | None  # [G, B, reach, A], on the actions of bounds from later states


def draw_randomness(recipe: Recipe, memory: Memory, key: Array, rows: RowIndex | None = None) -> Randomness:
    """All randomness of one gradient step; the rows are drawn unless they are given."""
    row_key, noise_key, subset_key, ahead_key = jax.random.split(key, 4)
    if rows is None:
        shape = recipe.n_pairs if recipe.separate_batches else 1, recipe.batch_size
        rows = draw(memory, row_key, shape, planned=recipe.targets.stored)
    shape, actions = rows.lane.shape, memory.rows.action.shape[-1]
    noise = subset = ahead = None
    if isinstance(recipe.targets, Fresh):
        noise = smoothing_noise(recipe, noise_key, (*shape, actions))
        if recipe.targets.subset:
            subset = jax.random.permutation(subset_key, recipe.n_critics)[: recipe.targets.subset]
    if isinstance(recipe.bound, Tightening):
        ahead = smoothing_noise(recipe, ahead_key, (*shape, recipe.bound.reach, actions))
    return Randomness(rows, noise, subset, ahead)


class Policy(NamedTuple):
    """The part of the learner that acting needs, on the host."""

    actor: Actor
    normalizer: Normalizer | None
    encoder: Encoder | None


def act(recipe: Recipe, policy: Policy, observation: np.ndarray) -> np.ndarray:
    """The policy's actions in [-1, 1]. [B, D] -> [B, A]."""
    return policy.actor(seen_states(policy.encoder, normalized(policy.normalizer, observation)))


def explore(recipe: Recipe, policy: Policy, observation: np.ndarray, step: int, rng: np.random.Generator) -> np.ndarray:
    """The policy's actions plus exploration noise. [B, D] -> [B, A]."""
    action = act(recipe, policy, observation)
    return np.clip(action + recipe.exploration_noise * rng.standard_normal(action.shape), -1, 1).astype(np.float32)


@jax.jit
def mean_values(learner: Learner, observation: Array, action: Array) -> Array:
    """The mean Q(s, a) of the critics. [B, D], [B, A] -> [B]."""
    observation = normalized(learner.normalizer, observation)
    return in_rewards(learner, learner.critics(seen_pairs(learner.encoder, observation, action), action).mean(axis=0))


def work(recipe: Recipe, layout: Layout) -> Work:
    """What a round computes with, to estimate its memory."""
    drawn = recipe.batch_size * (recipe.n_pairs if recipe.separate_batches else 1)
    if isinstance(recipe.bound, Tightening):
        drawn *= 1 + 2 * recipe.bound.reach  # the rows before and after each one
    plans = recipe.targets.stored or recipe.bound.every is not None
    networks = recipe.n_pairs * recipe.n_critics + 1
    return Work(*actor_critic_size(recipe.body, layout, networks, recipe.embedding.features), drawn, plans)


FAMILY = Family(
    work=work,
    init_learner=init_learner,
    train_round=train_round,
    update_period=lambda recipe: recipe.target_update_interval if recipe.targets.stored else recipe.bound.every,
    policy_of=lambda learner: on_host(Policy(learner.actor, learner.normalizer, learner.encoder)),
    act=act,
    explore=explore,
    sample=lambda recipe, policy, observation, _: act(recipe, policy, observation),
    values=mean_values,
    groups=lambda recipe: recipe.n_pairs,
    uses_stored=lambda recipe: recipe.targets.stored and recipe.planner.uses_stored,
)
