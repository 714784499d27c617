"""Soft actor-critic (Haarnoja et al., 2018) with automatic temperature tuning: one compiled round of training."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from gemrl.agents.acting import Policy, act, for_acting, sample
from gemrl.agents.compiling import compiled_round
from gemrl.agents.drawing import drawn_shift
from gemrl.agents.footprint import Work, actor_critic_size
from gemrl.agents.memory.ring import Memory, RowIndex, Rows, draw
from gemrl.agents.networks.actor_critic import Critics, adam, adam_start, current_rate, descend, normalized
from gemrl.agents.networks.bodies import build
from gemrl.agents.networks.gaussian import GaussianActor, improved_temperature
from gemrl.agents.networks.vision import seen_size, shifted, vision_of
from gemrl.agents.normalization import Normalizer
from gemrl.agents.off_policy import Family, mean_value
from gemrl.agents.reward_scale import RewardScale, for_networks, remember
from gemrl.algorithms.registry import SoftRecipe
from gemrl.core.arrays import Array
from gemrl.core.layout import Layout
from gemrl.core.seeding import stream


class SoftLearner(eqx.Module):
    """Everything that learning changes, except the memory."""

    actor: GaussianActor
    critics: Critics
    target_critics: Critics
    log_temperature: Array
    actor_optimizer: optax.OptState
    critic_optimizer: optax.OptState
    temperature_optimizer: optax.OptState
    normalizer: Normalizer | None
    updates: Array
    key: Array
    reward_scale: RewardScale | None


def init_learner(recipe: SoftRecipe, layout: Layout, seed: int) -> SoftLearner:
    """Networks, targets, temperature and optimizers before the first step."""
    rng = stream(seed, "networks")
    observation, action = seen_size(layout), layout.action
    actor = GaussianActor(build(recipe.body, rng, observation, 2 * action))
    inputs = observation + action
    members = tuple(build(recipe.body, rng, inputs, 1, again=action) for _ in range(recipe.n_critics))
    critics = Critics(members, vision_of(rng, layout))
    temperature = np.asarray(np.log(recipe.initial_temperature), np.float32)
    learner = SoftLearner(
        actor,
        critics,
        critics,
        temperature,
        adam_start(actor),
        adam_start(critics),
        adam_start(temperature),
        Normalizer.wanted(recipe, layout),
        np.zeros((), np.int32),
        jax.random.key(seed),
        RewardScale.start() if recipe.normalize_rewards else None,
    )
    return jax.tree.map(jnp.array, learner)


class SoftRandomness(NamedTuple):
    """All randomness of one gradient step."""

    rows: RowIndex  # [B], the rows of the minibatch
    noise: Array  # [B, A], for the actions in the rows' observations
    next_noise: Array  # [B, A], for the actions in their next observations
    shift: Array | None  # [2, B, 2], by how many pixels images are shifted: those of observations and of next ones


def draw_soft_randomness(recipe: SoftRecipe, memory: Memory, key: Array) -> SoftRandomness:
    """All randomness of one gradient step."""
    row_key, *noise_keys = jax.random.split(key, 3)
    size = recipe.batch_size
    rows = draw(memory, row_key, (size,), planned=False)
    noise, next_noise = (jax.random.normal(noise_key, (size, memory.rows.action.shape[-1])) for noise_key in noise_keys)
    shift = drawn_shift(recipe.random_shift, memory, jax.random.fold_in(row_key, 1), (2, size))
    return SoftRandomness(rows, noise, next_noise, shift)


def soft_value(learner: SoftLearner, state: Array, noise: Array) -> Array:
    """Soft values of states by the target critics: min Q' - temperature log pi, at sampled actions. [B, *O] -> [B]."""
    action, density = learner.actor.draw_with_density(learner.critics.see(state), noise)
    return learner.target_critics(state, action).min(axis=0) - jnp.exp(learner.log_temperature) * density


class Batch(NamedTuple):
    """A minibatch, with normalized states and rewards in the units of the networks."""

    state: Array  # [B, *O]
    action: Array  # [B, A]
    reward: Array  # [B]
    discount: Array  # [B]
    next_state: Array  # [B, *O]


def batch_of(recipe: SoftRecipe, learner: SoftLearner, memory: Memory, drawn: SoftRandomness) -> Batch:
    """The minibatch of the drawn rows."""
    (lane, position, _), vision = drawn.rows, learner.critics.vision
    states = memory.observation(lane, position), memory.next_observation(lane, position)
    state, next_state = (normalized(learner.normalizer, x) for x in states)
    if drawn.shift is not None and vision is not None:
        state, next_state = (
            shifted(vision.layout, x, offset, recipe.random_shift)
            for x, offset in zip((state, next_state), drawn.shift, strict=True)
        )
    action, reward, discount = (x[lane, position] for x in (memory.rows.action, memory.rows.reward, memory.rows.discount))
    return Batch(state, action, for_networks(learner, reward), discount, next_state)


def gradient_step(
    recipe: SoftRecipe, memory: Memory, learner: SoftLearner, drawn: SoftRandomness
) -> tuple[SoftLearner, tuple[Array, Array, Array]]:
    """One update of the critics and, every policy_delay-th time, of temperature and actor; both losses and the temperature."""
    batch = batch_of(recipe, learner, memory, drawn)
    rate, temperature = current_rate(recipe, learner.updates), jnp.exp(learner.log_temperature)
    optimizer = adam(rate, beta1=recipe.adam_beta1)
    critic_loss = (joint_loss if recipe.joint_critics else separate_loss)(learner, batch, drawn.next_noise)
    clip = recipe.max_grad_norm
    critics, critic_optimizer, loss = descend(optimizer, critic_loss, learner.critics, learner.critic_optimizer, clip)

    def improve(learner: SoftLearner) -> tuple[SoftLearner, Array]:
        return improved_policy(recipe, optimizer, learner, critics, batch.state, drawn.noise)

    updates = learner.updates + 1
    if recipe.policy_delay == 1:
        learner, objective = improve(learner)
    else:
        due = updates % recipe.policy_delay == 0
        learner, objective = jax.lax.cond(due, improve, lambda learner: (learner, jnp.nan), learner)
    targets = critics if recipe.joint_critics else moved_targets(recipe, learner.target_critics, critics, updates)
    changed = {"critics": critics, "target_critics": targets, "critic_optimizer": critic_optimizer, "updates": updates}
    return dataclasses.replace(learner, **changed), (loss, objective, temperature)


CriticLoss = Callable[[Critics], tuple[Array, Any]]
"""The loss of critics, and the statistics of their bodies."""


def separate_loss(learner: SoftLearner, batch: Batch, noise: Array) -> CriticLoss:
    """The squared error against targets from the target networks."""
    target = batch.reward + batch.discount * soft_value(learner, batch.next_state, noise)

    def loss(critics: Critics) -> tuple[Array, Any]:
        q, statistics = critics.training(batch.state, batch.action)
        return 0.5 * ((q - target) ** 2).mean(axis=-1).sum(), statistics

    return loss


def joint_loss(learner: SoftLearner, batch: Batch, noise: Array) -> CriticLoss:
    """The same without target networks: both steps are valued in one pass, so that they share the statistics of a minibatch."""
    next_action, density = learner.actor.draw_with_density(learner.critics.see(batch.next_state), noise)
    states, actions = (jnp.concatenate(x) for x in ((batch.state, batch.next_state), (batch.action, next_action)))

    def loss(critics: Critics) -> tuple[Array, Any]:
        both, statistics = critics.training(states, actions)
        q, following = jnp.split(both, 2, axis=-1)
        value = jax.lax.stop_gradient(following).min(axis=0) - jnp.exp(learner.log_temperature) * density
        return 0.5 * ((q - batch.reward - batch.discount * value) ** 2).mean(axis=-1).sum(), statistics

    return loss


def improved_policy(
    recipe: SoftRecipe,
    optimizer: optax.GradientTransformation,
    learner: SoftLearner,
    critics: Critics,
    state: Array,
    noise: Array,
) -> tuple[SoftLearner, Array]:
    """The learner after one update of temperature and actor, and the actor's loss."""
    temperature = jnp.exp(learner.log_temperature)
    state = jax.lax.stop_gradient(critics.see(state))
    _, density = learner.actor.draw_with_density(state, noise)
    target_entropy = -recipe.target_entropy_scale * noise.shape[-1]
    log_temperature, temperature_optimizer = improved_temperature(
        adam(current_rate(recipe, learner.updates)),
        learner.log_temperature,
        learner.temperature_optimizer,
        density,
        target_entropy,
    )

    def loss(actor: GaussianActor) -> tuple[Array, Any]:
        (action, density), statistics = actor.training(state, noise)
        return (temperature * density - critics.values(state, action).min(axis=0)).mean(), statistics

    clip = recipe.max_grad_norm
    actor, actor_optimizer, objective = descend(optimizer, loss, learner.actor, learner.actor_optimizer, clip)
    changed = {"actor": actor, "actor_optimizer": actor_optimizer}
    changed |= {"log_temperature": log_temperature, "temperature_optimizer": temperature_optimizer}
    return dataclasses.replace(learner, **changed), objective


def moved_targets(recipe: SoftRecipe, targets: Critics, critics: Critics, updates: Array) -> Critics:
    """The target critics after an update, moved toward the online ones if that is due."""
    tau = jnp.where(updates % recipe.target_update_interval == 0, recipe.tau, 0.0)
    return jax.tree.map(lambda old, new: tau * new + (1 - tau) * old, targets, critics)


@compiled_round
def train_round(
    recipe: SoftRecipe, learner: SoftLearner, memory: Memory, new: Rows, count: Array, due: bool
) -> tuple[SoftLearner, Memory, dict[str, Array]]:
    """One round: adds new rows to the memory, then takes gradient steps. It stores no returns, so it ignores `due`."""
    learner, memory = remember(learner, memory, new, count)
    key, step_key = jax.random.split(learner.key)
    drawn = jax.vmap(partial(draw_soft_randomness, recipe, memory))(jax.random.split(step_key, recipe.gradient_steps))
    learner = eqx.tree_at(lambda x: x.key, learner, key)
    learner, losses = jax.lax.scan(partial(gradient_step, recipe, memory), learner, drawn)
    critic, actor, temperature = losses
    actor = actor.mean() if recipe.policy_delay == 1 else jnp.nanmean(actor)  # NaN where the actor was not updated
    return learner, memory, {"critic_loss": critic.mean(), "actor_loss": actor, "ent_coef": temperature.mean()}


def work(recipe: SoftRecipe, layout: Layout) -> Work:
    """What a round computes with, to estimate its memory."""
    return Work(*actor_critic_size(recipe.body, layout, recipe.n_critics + 1), 2 * recipe.batch_size, plans=False)


FAMILY = Family(
    work=work,
    init_learner=init_learner,
    train_round=train_round,
    update_period=lambda recipe: None,
    policy_of=lambda learner: for_acting(Policy(learner.actor, learner.normalizer, vision=learner.critics.vision)),
    act=act,
    explore=lambda recipe, policy, observation, step, rng: sample(recipe, policy, observation, rng),
    sample=sample,
    values=mean_value,
    groups=lambda recipe: 1,
)
