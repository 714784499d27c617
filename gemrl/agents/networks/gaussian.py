"""The squashed Gaussian policy of SAC (Haarnoja et al., 2018) with any network body, and its temperature."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from gemrl.agents.networks.actor_critic import adam_start
from gemrl.agents.networks.body_network import BodyNetwork
from gemrl.core.arrays import Array

LOG_STD = (-20.0, 2.0)
"""Bounds of the policy's log standard deviation, as in the authors' code."""


class GaussianActor(eqx.Module):
    """A normal distribution over actions, squashed into [-1, 1] by tanh."""

    body: BodyNetwork

    def __call__(self, observation: Array) -> Array:
        """The mean action, squashed. [B, D] -> [B, A]."""
        mean, _ = self.parameters(observation)
        return observation.__array_namespace__().tanh(mean)

    def parameters(self, observation: Array) -> tuple[Array, Array]:
        """Mean and log standard deviation before squashing. [B, D] -> [B, A], [B, A]."""
        return _parameters(self.body(observation))

    def sample(self, observation: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Actions drawn on the host. [B, D] -> [B, A]."""
        mean, log_std = self.parameters(observation)
        return np.tanh(mean + np.exp(log_std) * rng.standard_normal(mean.shape).astype(np.float32))

    def draw(self, observation: Array, noise: Array) -> Array:
        """Squashed actions [B, A] for standard normal noise [B, A]."""
        mean, log_std = self.parameters(observation)
        xp = observation.__array_namespace__()
        return xp.tanh(mean + xp.exp(log_std) * noise)

    def bootstrap(self, observation: Array, noise: Array) -> Array:
        """The actions whose values the targets use: drawn from the policy, with standard normal noise [B, A]."""
        return self.draw(observation, noise)

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

    def fast(self) -> GaussianActor:
        """The same function in the body's fast form."""
        return GaussianActor(self.body.fast())

    def acting(self) -> GaussianActor:
        """The same actor in the body's form for acting."""
        return GaussianActor(self.body.acting())


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


class Temperature(eqx.Module):
    """The weight of a policy's entropy, learned so that the entropy stays near a target."""

    log: Array  # []
    optimizer: optax.OptState

    @staticmethod
    def start(value: float) -> Temperature:
        """A temperature before the first update."""
        log = np.asarray(np.log(value), np.float32)
        return Temperature(log, adam_start(log))

    @property
    def value(self) -> Array:
        """The temperature []."""
        return jnp.exp(self.log)

    def improved(self, optimizer: optax.GradientTransformation, density: Array, target_entropy: float) -> Temperature:
        """The temperature after one step, from log densities [B]."""
        return Temperature(*improved_temperature(optimizer, self.log, self.optimizer, density, target_entropy))


def improved_temperature(
    optimizer: optax.GradientTransformation, log: Array, state: optax.OptState, density: Array, target_entropy: float
) -> tuple[Array, optax.OptState]:
    """log(temperature) and the optimizer's state after one step on -log(temperature) (log pi + target entropy)."""
    change, state = optimizer.update(-(density + target_entropy).mean(), state)
    return optax.apply_updates(log, change), state
