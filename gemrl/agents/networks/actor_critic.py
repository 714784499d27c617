"""The deterministic actor and an ensemble of critics."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from gemrl.agents.networks.mlp import MLP, Folded, FoldedMLP
from gemrl.core.arrays import Array


class Actor(eqx.Module):
    """The policy pi(s), in [-1, 1]."""

    body: MLP | FoldedMLP

    @staticmethod
    def init(rng: np.random.Generator, observation: int, action: int, hidden: Sequence[int], **norm: bool) -> Actor:
        """An actor; `norm` is what MLP.init takes: layer_norm and norm_first."""
        return Actor(MLP.init(rng, observation, hidden, action, **norm))

    def __call__(self, observation: Array) -> Array:
        """observation [B, D] -> action [B, A]."""
        return observation.__array_namespace__().tanh(self.body(observation))

    def folded(self) -> Actor:
        """The same function, with its perceptron in folded form."""
        return Actor(self.body.folded()) if isinstance(self.body, MLP) and not self.body.norm_first else self


class Critics(eqx.Module):
    """C critics Q(s, a), each initialised on its own: on a CPU one after the other is faster than one batched product."""

    members: tuple[MLP, ...]
    action_twice: bool = eqx.field(static=True)

    @staticmethod
    def init(
        rng: np.random.Generator,
        count: int,
        observation: int,
        action: int,
        hidden: Sequence[int],
        *,
        action_twice: bool,
        **norm: bool,
    ) -> Critics:
        """So many critics; `norm` is what MLP.init takes: layer_norm and norm_first."""
        again = action if action_twice else 0
        each = (MLP.init(rng, observation + action, hidden, 1, **norm, again=again) for _ in range(count))
        return Critics(tuple(each), action_twice)

    def __call__(self, observation: Array, action: Array) -> Array:
        """observation [B, D] and action [B, A], common to all or with a leading axis C of their own -> values [C, B]."""
        xp = observation.__array_namespace__()
        x = xp.concatenate([observation, action], axis=-1)
        values = []
        for number, critic in enumerate(self.members):
            own, again = (x, action) if x.ndim == 2 else (x[number], action[number])
            values.append(critic(own, again if self.action_twice else None)[:, 0])
        return xp.stack(values)

    def __getitem__(self, which: slice) -> Critics:
        """Some of them."""
        return Critics(self.members[which], self.action_twice)

    def folded(self) -> Critics | FoldedCritics:
        """The same function, with every perceptron in folded form."""
        if self.members[0].norm_first:
            return self
        each = [critic.folded().layers for critic in self.members]
        weight, bias = (jnp.concatenate([getattr(layers[0], name) for layers in each], axis=-1) for name in ("weight", "bias"))
        first = Folded(weight, bias, None)
        return FoldedCritics(first, tuple(FoldedMLP(layers[1:]) for layers in each), self.action_twice)


class FoldedCritics(eqx.Module):
    """Critics in folded form. They share their input, so their first layers are one product."""

    first: Folded
    rest: tuple[FoldedMLP, ...]
    action_twice: bool = eqx.field(static=True)

    def __call__(self, observation: Array, action: Array) -> Array:
        """observation [B, D] and action [B, A] -> values [C, B]."""
        hidden = jnp.maximum(self.first(jnp.concatenate([observation, action], axis=-1)), 0)
        parts = jnp.split(hidden, len(self.rest), axis=-1)
        if self.action_twice:
            parts = [jnp.concatenate([part, action], axis=-1) for part in parts]
        return jnp.stack([critic(part)[:, 0] for critic, part in zip(self.rest, parts, strict=True)])
