"""The learner of neural episodic control: a network that embeds states, and the dictionaries of their values."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from gemrl.agents.memory.dictionary import Dictionary, Neighbours
from gemrl.agents.networks.actor_critic import adam_start, normalized
from gemrl.agents.networks.q_networks import QNetwork, inputs_of
from gemrl.agents.normalization import Normalizer
from gemrl.algorithms.recipes.dictionary import DictionaryRecipe
from gemrl.core.arrays import Array
from gemrl.core.layout import Layout
from gemrl.core.seeding import stream


class Embedding(eqx.Module):
    """The network h = f(s), which has as many outputs as a key has numbers."""

    network: QNetwork
    layout: Layout = eqx.field(static=True)

    def __call__(self, state: Array) -> Array:
        """States without their mask [B, *O] -> embeddings [B, D]."""
        return self.network(*inputs_of(self.layout.unmasked, state))


class Policy(eqx.Module):
    """The part of a learner that gives states their values."""

    embedding: Embedding
    dictionary: Dictionary
    normalizer: Normalizer | None

    def split(self, observation: Array) -> tuple[Array, Array | None]:
        """Observations [B, *O] as the network takes them, and which actions are allowed [B, A]."""
        state, allowed = self.embedding.layout.split(observation)
        return normalized(self.normalizer, state), allowed

    def values(self, state: Array) -> tuple[Array, Neighbours]:
        """Q(s, .) of states from `split` [B, *O] -> [B, A], and the rows of dictionaries that it comes from."""
        return self.dictionary.values(self.embedding(state))


class Learner(eqx.Module):
    """Everything that learning changes, except the memory."""

    embedding: Embedding
    dictionary: Dictionary
    optimizer: optax.OptState
    key_square: Array
    """The running mean of squared gradients of keys, one number for all of them []."""
    normalizer: Normalizer | None
    key: Array

    @property
    def reward_scale(self) -> None:
        """None: the values in dictionaries are in the units of rewards."""

    @property
    def updates(self) -> Array:
        """Gradient steps so far [], the clock of the dictionaries."""
        return self.optimizer[0].count

    @property
    def policy(self) -> Policy:
        """What acting needs."""
        return Policy(self.embedding, self.dictionary, self.normalizer)


def init_learner(recipe: DictionaryRecipe, layout: Layout, seed: int) -> Learner:
    """The network, its optimizer and empty dictionaries."""
    rng, seen = stream(seed, "networks"), layout.unmasked
    network = QNetwork.init(rng, seen._replace(choices=recipe.key_size), recipe.net_arch, dueling=False)
    embedding = Embedding(network, layout)
    shape = layout.choices, recipe.rows_per_action, recipe.key_size
    dictionary = Dictionary.empty(*shape, recipe.neighbours, recipe.delta)
    normalizer, square = Normalizer.wanted(recipe, seen), np.zeros((), np.float32)
    learner = Learner(embedding, dictionary, adam_start(embedding), square, normalizer, jax.random.key(seed))
    return jax.tree.map(jnp.array, learner)  # copies: a round overwrites its arguments, so no two may share an array
