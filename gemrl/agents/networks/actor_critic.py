"""The actor and an ensemble of critics with any network body, their normalized inputs, and one optimizer step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from gemrl.agents.networks.body_network import BodyNetwork
from gemrl.agents.networks.vision import Vision
from gemrl.agents.normalization import Normalizer
from gemrl.algorithms.arguments import is_zero
from gemrl.core.arrays import Array


class Actor(eqx.Module):
    """The policy pi(s), in [-1, 1]."""

    body: BodyNetwork

    def __call__(self, observation: Array) -> Array:
        """observation [B, D] -> action [B, A]."""
        return observation.__array_namespace__().tanh(self.body(observation))

    def sample(self, observation: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The same actions: there is nothing to draw."""
        return self(observation)

    def bootstrap(self, observation: Array, noise: Array) -> Array:
        """The actions whose values the targets use: with smoothing noise [B, A]."""
        return observation.__array_namespace__().clip(self(observation) + noise, -1, 1)

    def training(self, observation: Array, noise: Array | None) -> tuple[tuple[Array, None], Any]:
        """Actions [B, A] for a gradient step, without a density, and the body's statistics after it; it needs no noise."""
        output, statistics = self.body.training(observation)
        return (observation.__array_namespace__().tanh(output), None), statistics

    def with_statistics(self, statistics: Any) -> Actor:
        """The same actor with the statistics that `training` returned."""
        return Actor(self.body.with_statistics(statistics))

    def fast(self) -> Actor:
        """The same function in the body's fast form."""
        return Actor(self.body.fast())

    def acting(self) -> Actor:
        """The same actor in the body's form for acting."""
        return Actor(self.body.acting())


class Critics(eqx.Module):
    """C critics Q(s, a), initialized independently. On a CPU, evaluating them in turn is faster than one batched product.

    If observations are images, critics share an encoder: they see its features. Critics `of_states` ignore the action: V(s).
    """

    members: tuple[BodyNetwork, ...]
    vision: Vision | None = None
    of_states: bool = eqx.field(static=True, default=False)

    def see(self, observation: Array) -> Array:
        """What critics and actors see of observations [*B, *O]: the features of images, or the vectors themselves. [*B, D]."""
        return observation if self.vision is None else self.vision(observation)

    def __call__(self, observation: Array, action: Array) -> Array:
        """Observations [B, *O] and actions [B, A], shared, or [C, B, *O] and [C, B, A] -> values [C, B]."""
        return self.values(self.see(observation), action)

    def values(self, seen: Array, action: Array) -> Array:
        """The same from what `see` returned. [B, D] or [C, B, D] -> [C, B]."""
        xp = seen.__array_namespace__()
        inputs = self._inputs(seen, action)
        return xp.stack([critic(*own)[:, 0] for critic, own in zip(self.members, inputs, strict=True)])

    def training(self, observation: Array, action: Array) -> tuple[Array, Any]:
        """Values [C, B] for a gradient step, and the bodies' statistics after it."""
        xp = observation.__array_namespace__()
        inputs = self._inputs(self.see(observation), action)
        outputs = [critic.training(*own) for critic, own in zip(self.members, inputs, strict=True)]
        return xp.stack([values[:, 0] for values, _ in outputs]), tuple(statistics for _, statistics in outputs)

    def with_statistics(self, statistics: Any) -> Critics:
        """The same critics with the statistics that `training` returned."""
        members = tuple(critic.with_statistics(own) for critic, own in zip(self.members, statistics, strict=True))
        return Critics(members, self.vision, self.of_states)

    def _inputs(self, observation: Array, action: Array) -> list[tuple[Array, Array]]:
        """The inputs of each critic: (s, a), and the action again."""
        action = self._seen(action)
        x = observation.__array_namespace__().concatenate([observation, action], axis=-1)
        if x.ndim == 2:
            return [(x, action)] * len(self.members)
        return [(x[number], action[number]) for number in range(len(self.members))]

    def _seen(self, action: Array) -> Array:
        """What critics see of actions: all, or nothing [..., 0]."""
        return action[..., :0] if self.of_states else action

    def __getitem__(self, which: slice) -> Critics:
        """A slice of the critics."""
        return Critics(self.members[which], self.vision, self.of_states)

    def fast(self) -> FastCritics:
        """The same functions in the bodies' fast form."""
        together = self.members[0].fast_ensemble(self.members)
        values = Critics(tuple(critic.fast() for critic in self.members)) if together is None else together
        return FastCritics(self.see, (lambda seen, action: values(seen, self._seen(action))) if self.of_states else values)


class FastCritics(NamedTuple):
    """Critics in a form that is fast for many rows without gradients."""

    see: Callable[[Array], Array]
    values: Callable[[Array, Array], Array]


def normalized(normalizer: Normalizer | None, observation: Array) -> Array:
    """The observation as the networks receive it."""
    return observation if normalizer is None else normalizer(observation)


def current_rate(recipe: Any, updates: Array) -> float | Array:
    """The learning rate after so many gradient steps; a Python number if it is constant."""
    return recipe.learning_rate_at(recipe.learning_starts + updates * (recipe.train_freq / recipe.gradient_steps))


def adam(learning_rate: float | Array, epsilon: float | Array = 1e-8, beta1: float | Array = 0.9) -> optax.GradientTransformation:
    """Adam, by default with the usual decay rates."""
    return optax.adam(learning_rate, b1=beta1, eps=epsilon)


def adam_start(parameters: Any) -> optax.OptState:
    """Adam's state before the first update, all zeros; made by numpy, so that nothing is compiled."""
    shapes = jax.eval_shape(adam(1.0).init, parameters)
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)


Network = TypeVar("Network", bound=Any)


def descend(
    optimizer: optax.GradientTransformation,
    loss: Callable[[Network], tuple[Array, Any]],
    network: Network,
    state: optax.OptState,
    max_norm: float | Array = 0.0,
) -> tuple[Network, optax.OptState, Array]:
    """One optimizer step. `loss` also returns the network's new statistics, if any.

    Gradients longer than `max_norm` are scaled down to it, unless it is 0. Returns the network, the optimizer state, and the loss
    before the step.
    """
    (value, statistics), gradient = jax.value_and_grad(loss, has_aux=True)(network)
    if not is_zero(max_norm):
        shrink = jnp.minimum(1.0, max_norm / jnp.maximum(optax.tree.norm(gradient), 1e-30))
        gradient = jax.tree.map(lambda x: x * shrink, gradient)
    change, state = optimizer.update(gradient, state)
    network = optax.apply_updates(network, change)
    return network.with_statistics(statistics) if jax.tree.leaves(statistics) else network, state, value
