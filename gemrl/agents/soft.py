"""Soft actor-critic (Haarnoja et al., 2018) with automatic temperature tuning: one compiled round of training."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from gemrl.agents.device import CPU_COMPILER_OPTIONS
from gemrl.agents.footprint import Work, actor_critic_size
from gemrl.agents.memory.ring import Memory, RowIndex, Rows, draw
from gemrl.agents.networks.actor_critic import BodyNetwork, Critics, adam, adam_start, descend, normalized
from gemrl.agents.networks.bodies import build
from gemrl.agents.normalization import Normalizer
from gemrl.agents.off_policy import Family, mean_value, on_host
from gemrl.agents.reward_scale import RewardScale, for_networks, remember
from gemrl.algorithms.registry import SoftRecipe
from gemrl.core.arrays import Array
from gemrl.core.layout import Layout
from gemrl.core.seeding import stream

LOG_STD = (-20.0, 2.0)
"""Bounds of the policy's log standard deviation, as in the authors' code."""


class GaussianActor(eqx.Module):
    """A normal distribution over actions, squashed into [-1, 1] by tanh."""

    body: BodyNetwork

    def parameters(self, observation: Array) -> tuple[Array, Array]:
        """Mean and log standard deviation before squashing. [B, D] -> [B, A], [B, A]."""
        return _parameters(self.body(observation))

    def draw(self, observation: Array, noise: Array) -> Array:
        """Squashed actions [B, A] for standard normal noise [B, A]."""
        mean, log_std = self.parameters(observation)
        xp = observation.__array_namespace__()
        return xp.tanh(mean + xp.exp(log_std) * noise)

    def draw_with_density(self, observation: Array, noise: Array) -> tuple[Array, Array]:
        """Squashed actions [B, A] and their log density [B]."""
        return _squashed(*self.parameters(observation), noise)

    def training(self, observation: Array, noise: Array) -> tuple[tuple[Array, Array], Any]:
        """The same for a gradient step, and the body's statistics after it."""
        output, statistics = self.body.training(observation)
        return _squashed(*_parameters(output), noise), statistics

    def with_statistics(self, statistics: Any) -> GaussianActor:
        """The same actor with the statistics that `training` gave."""
        return GaussianActor(self.body.with_statistics(statistics))


def _parameters(output: Array) -> tuple[Array, Array]:
    """Mean and log standard deviation from the output of a body. [B, 2 A] -> [B, A], [B, A]."""
    xp = output.__array_namespace__()
    mean, log_std = xp.split(output, 2, axis=-1)
    return mean, xp.clip(log_std, *LOG_STD)


def _squashed(mean: Array, log_std: Array, noise: Array) -> tuple[Array, Array]:
    """Squashed actions [B, A] and their log density [B]."""
    before = mean + jnp.exp(log_std) * noise
    normal = -0.5 * noise**2 - log_std - 0.5 * jnp.log(2 * jnp.pi)
    # log(1 - tanh(x)^2) in a form that stays accurate where tanh is close to 1
    squash = 2 * (jnp.log(2.0) - before - jax.nn.softplus(-2 * before))
    return jnp.tanh(before), (normal - squash).sum(axis=-1)


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
    """Networks, targets, temperature 1 and optimizers before the first step."""
    rng = stream(seed, "networks")
    observation, action = layout.size, layout.action
    actor = GaussianActor(build(recipe.body, rng, observation, 2 * action))
    inputs = observation + action
    critics = Critics(tuple(build(recipe.body, rng, inputs, 1, again=action) for _ in range(recipe.n_critics)))
    temperature = np.zeros((), np.float32)
    learner = SoftLearner(
        actor,
        critics,
        critics,
        temperature,
        adam_start(actor),
        adam_start(critics),
        adam_start(temperature),
        Normalizer.start(observation) if recipe.normalize_observations else None,
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


def draw_soft_randomness(recipe: SoftRecipe, memory: Memory, key: Array) -> SoftRandomness:
    """All randomness of one gradient step."""
    row_key, *noise_keys = jax.random.split(key, 3)
    rows = draw(memory, row_key, (recipe.batch_size,), planned=False)
    return SoftRandomness(rows, *(jax.random.normal(k, (recipe.batch_size, memory.rows.action.shape[-1])) for k in noise_keys))


def soft_value(learner: SoftLearner, state: Array, noise: Array) -> Array:
    """Soft values of states by the target critics: min Q' - temperature log pi, at sampled actions. [B, D] -> [B]."""
    action, density = learner.actor.draw_with_density(state, noise)
    return learner.target_critics(state, action).min(axis=0) - jnp.exp(learner.log_temperature) * density


def gradient_step(
    recipe: SoftRecipe, memory: Memory, learner: SoftLearner, drawn: SoftRandomness
) -> tuple[SoftLearner, tuple[Array, Array, Array]]:
    """One update of temperature, critics and actor, in this order; also returns both losses and the temperature."""
    index, noise, next_noise = drawn
    rows = jax.tree.map(lambda column: column[index.lane, index.position], memory.rows)
    state, next_state = (normalized(learner.normalizer, x) for x in (rows.observation, rows.next_observation))
    optimizer = adam(recipe.learning_rate)
    temperature = jnp.exp(learner.log_temperature)

    _, density = learner.actor.draw_with_density(state, noise)
    target_entropy = -recipe.target_entropy_scale * rows.action.shape[-1]
    gradient = -(density + target_entropy).mean()  # of the loss -log_temperature (log pi + target entropy)
    change, temperature_optimizer = optimizer.update(gradient, learner.temperature_optimizer)
    log_temperature = optax.apply_updates(learner.log_temperature, change)

    target = for_networks(learner, rows.reward) + rows.discount * soft_value(learner, next_state, next_noise)

    def critic_loss(critics: Critics) -> tuple[Array, Any]:
        q, statistics = critics.training(state, rows.action)
        return 0.5 * ((q - target) ** 2).mean(axis=-1).sum(), statistics

    critics, critic_optimizer, loss = descend(optimizer, critic_loss, learner.critics, learner.critic_optimizer)

    def actor_loss(actor: GaussianActor) -> tuple[Array, Any]:
        (action, density), statistics = actor.training(state, noise)
        return (temperature * density - critics(state, action).min(axis=0)).mean(), statistics

    actor, actor_optimizer, objective = descend(optimizer, actor_loss, learner.actor, learner.actor_optimizer)

    updates = learner.updates + 1
    tau = jnp.where(updates % recipe.target_update_interval == 0, recipe.tau, 0.0)
    targets = jax.tree.map(lambda old, new: tau * new + (1 - tau) * old, learner.target_critics, critics)
    learner = dataclasses.replace(
        learner,
        actor=actor,
        critics=critics,
        target_critics=targets,
        log_temperature=log_temperature,
        actor_optimizer=actor_optimizer,
        critic_optimizer=critic_optimizer,
        temperature_optimizer=temperature_optimizer,
        updates=updates,
    )
    return learner, (loss, objective, temperature)


@partial(jax.jit, static_argnums=(0, 5), donate_argnums=(1, 2), compiler_options=CPU_COMPILER_OPTIONS)
def train_round(
    recipe: SoftRecipe, learner: SoftLearner, memory: Memory, new: Rows, count: Array, due: bool
) -> tuple[SoftLearner, Memory, dict[str, Array]]:
    """One round: adds new rows to the memory, then takes gradient steps. It stores no returns, so it ignores `due`."""
    learner, memory = remember(learner, memory, new, count)
    key, step_key = jax.random.split(learner.key)
    drawn = jax.vmap(partial(draw_soft_randomness, recipe, memory))(jax.random.split(step_key, recipe.gradient_steps))
    learner = eqx.tree_at(lambda x: x.key, learner, key)
    learner, losses = jax.lax.scan(partial(gradient_step, recipe, memory), learner, drawn)
    names = ("critic_loss", "actor_loss", "ent_coef")
    return learner, memory, {name: loss.mean() for name, loss in zip(names, losses, strict=True)}


class Policy(NamedTuple):
    """The part of the learner that acting needs, on the host."""

    actor: GaussianActor
    normalizer: Normalizer | None


def act(recipe: SoftRecipe, policy: Policy, observation: np.ndarray) -> np.ndarray:
    """The mean action, squashed. [B, D] -> [B, A]."""
    mean, _ = policy.actor.parameters(normalized(policy.normalizer, observation))
    return np.tanh(mean)


def sample(recipe: SoftRecipe, policy: Policy, observation: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Actions drawn from the policy. [B, D] -> [B, A]."""
    observation = normalized(policy.normalizer, observation)
    mean, _ = policy.actor.parameters(observation)
    return policy.actor.draw(observation, rng.standard_normal(mean.shape).astype(np.float32))


def work(recipe: SoftRecipe, layout: Layout) -> Work:
    """What a round computes with, to estimate its memory."""
    return Work(*actor_critic_size(recipe.body, layout, recipe.n_critics + 1), 2 * recipe.batch_size, plans=False)


FAMILY = Family(
    work=work,
    init_learner=init_learner,
    train_round=train_round,
    update_period=lambda recipe: None,
    policy_of=lambda learner: on_host(Policy(learner.actor, learner.normalizer)),
    act=act,
    explore=lambda recipe, policy, observation, step, rng: sample(recipe, policy, observation, rng),
    sample=sample,
    values=mean_value,
    groups=lambda recipe: 1,
)
