"""Neural episodic control (Pritzel et al., 2017): one compiled round of training."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from gemrl.agents.compiling import compiled_round
from gemrl.agents.dictionary_learner import Embedding, Learner, Policy, init_learner
from gemrl.agents.dictionary_memory import update_memory
from gemrl.agents.footprint import Work
from gemrl.agents.greedy import epsilon_greedy, in_powers_of_two
from gemrl.agents.memory.dictionary import NEVER, Neighbours, kernel_mean
from gemrl.agents.memory.ring import Memory, RowIndex, Rows, draw
from gemrl.agents.networks.actor_critic import adam, current_rate
from gemrl.agents.networks.convolution import feature_maps
from gemrl.agents.off_policy import Family
from gemrl.agents.reward_scale import remember
from gemrl.algorithms.bodies import count_weights
from gemrl.algorithms.bootstraps import permitted
from gemrl.algorithms.recipes.dictionary import DictionaryRecipe
from gemrl.core.arrays import Array
from gemrl.core.layout import Layout

DECAY, SMALLEST = 0.99, 1e-8
"""RMSprop for keys: the decay rate of its mean of squared gradients, and what is added to its root."""


def work(recipe: DictionaryRecipe, layout: Layout) -> Work:
    """What a round computes with, to estimate its memory."""
    seen = layout.unmasked
    maps = feature_maps(seen)
    inputs = maps[-1].features + seen.numbers if maps else seen.states or seen.size
    parameters = count_weights(inputs, (*recipe.net_arch, recipe.key_size)) + sum(one.weights for one in maps)
    activations = sum(recipe.net_arch) + sum(one.activations for one in maps)
    lookup = layout.choices * (2 * recipe.rows_per_action + recipe.neighbours * recipe.key_size)
    tables = recipe.dictionary_size(layout.choices)
    return Work(parameters, activations + lookup, recipe.batch_size, True, tables)


class Batch(NamedTuple):
    """A minibatch."""

    state: Array  # [B, *O]
    action: Array  # [B]
    returns: Array  # [B]
    known: Array  # [] bool, False before the first final return: then there is nothing to learn


class Nudges(NamedTuple):
    """Changes of the keys and values of neighbours; gradients by them are those by keys and values."""

    key: Array  # [B, k, D]
    value: Array  # [B, k]


def batch_of(learner: Learner, memory: Memory, index: RowIndex) -> Batch:
    """The minibatch of the drawn rows."""
    place = index.lane, index.position
    state, _ = learner.policy.split(memory.observation(*place))
    known = memory.unplanned.sum() < memory.size.sum()
    return Batch(state, memory.rows.action[*place, 0], memory.planned[0, *place], known)


def loss(learner: Learner, batch: Batch, embedding: Embedding, nudges: Nudges) -> tuple[Array, Neighbours]:
    """Half the mean squared error of Q(s, a); and the neighbours that it comes from."""
    h, dictionary = embedding(batch.state), learner.dictionary
    near = dictionary.nearest(jax.lax.stop_gradient(h), batch.action)
    at = near.action, near.row
    values = kernel_mean(h, dictionary.key[at] + nudges.key, dictionary.value[at] + nudges.value, near.filled, dictionary.delta)
    error = jnp.where(batch.known, values - batch.returns, 0)
    return (error**2).mean() / 2, near


def gradient_step(recipe: DictionaryRecipe, memory: Memory, learner: Learner, index: RowIndex) -> tuple[Learner, Array]:
    """One update of the network, by Adam, and of the keys and values of neighbours; and the loss."""
    batch, rate = batch_of(learner, memory, index), current_rate(recipe, learner.updates)
    shape = recipe.batch_size, recipe.neighbours
    nudges = Nudges(jnp.zeros((*shape, recipe.key_size)), jnp.zeros(shape))
    slope = jax.value_and_grad(partial(loss, learner, batch), argnums=(0, 1), has_aux=True)
    (value, near), (by_network, by_rows) = slope(learner.embedding, nudges)
    change, optimizer = adam(rate, recipe.adam_epsilon).update(by_network, learner.optimizer)
    square = DECAY * learner.key_square + (1 - DECAY) * (by_rows.key**2).mean()
    size = jnp.sqrt(square / (1 - DECAY ** optimizer[0].count)) + SMALLEST
    dictionary = learner.dictionary.moved(near, -rate * by_rows.key / size, -recipe.value_rate * by_rows.value)
    dictionary = dictionary.touched(near, learner.updates)
    parts = optax.apply_updates(learner.embedding, change), dictionary, optimizer, square
    return eqx.tree_at(lambda x: (x.embedding, x.dictionary, x.optimizer, x.key_square), learner, parts), value


@compiled_round
def train_round(
    recipe: DictionaryRecipe, learner: Learner, memory: Memory, new: Rows, count: Array, due: bool
) -> tuple[Learner, Memory, dict[str, Array]]:
    """One round: adds new rows to the memory, writes final returns to the dictionaries, then takes gradient steps."""
    learner, memory = remember(learner, memory, new, count)
    learner, memory = update_memory(recipe, learner, memory)
    key, step_key = jax.random.split(learner.key)
    drawn = draw(memory, step_key, (recipe.gradient_steps, recipe.batch_size), planned=True)
    learner = eqx.tree_at(lambda x: x.key, learner, key)
    learner, errors = jax.lax.scan(partial(gradient_step, recipe, memory), learner, drawn)
    return learner, memory, {"loss": errors.mean()}


@jax.jit
def _action_values(policy: Policy, observation: Array) -> Array:
    """Q(s, .). [B, *O] -> [B, A]."""
    return policy.values(policy.split(observation)[0])[0]


def act(recipe: DictionaryRecipe, policy: Policy, observation: np.ndarray) -> np.ndarray:
    """The greedy actions. [B, *O] -> [B, 1]."""
    layout = policy.embedding.layout
    values = in_powers_of_two(partial(_action_values, policy), observation)
    return permitted(values, layout.split(observation)[1]).argmax(axis=-1).astype(np.int32)[:, None]


def explore(recipe: DictionaryRecipe, policy: Policy, observation: np.ndarray, step: int, rng: np.random.Generator) -> np.ndarray:
    """Epsilon-greedy actions; epsilon falls over time. [B, *O] -> [B, 1]."""
    return epsilon_greedy(partial(act, recipe, policy), policy.embedding.layout, recipe.epsilon(step), observation, rng)


@jax.jit
def taken_value(learner: Learner, observation: Array, action: Array) -> Array:
    """Q(s, a). [B, *O], [B, 1] -> [B]."""
    return jnp.take_along_axis(_action_values(learner.policy, observation), action, axis=-1)[:, 0]


def notes(learner: Learner) -> dict[str, str]:
    """How many rows the dictionaries have, and between which numbers their values are."""
    rows = learner.dictionary
    sizes, values = np.asarray(rows.sizes), np.asarray(rows.value)[np.asarray(rows.used) != NEVER]
    filled = " + ".join(f"{size:,}" for size in sizes)
    found = f"values from {values.min():,.2f} to {values.max():,.2f}" if values.size else "no values yet"
    return {"dictionaries": f"{filled} rows of at most {rows.value.shape[1]:,} for each action; {found}"}


FAMILY = Family(
    work=work,
    init_learner=init_learner,
    train_round=train_round,
    update_period=lambda recipe: None,
    policy_of=lambda learner: learner.policy,
    act=act,
    explore=explore,
    sample=lambda recipe, policy, observation, _: act(recipe, policy, observation),
    values=taken_value,
    groups=lambda recipe: 1,
    notes=notes,
)
