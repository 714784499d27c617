"""What neural episodic control does to the memory: returns are planned once, and written to the dictionaries.

A row's return is final once as many rows follow as the planner looks ahead, or its trajectory has ended. Until then the row
waits: it is not drawn for minibatches, and `planned` holds its return so far. The value of a next state is computed in the round
after its row was stored, and never again.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from gemrl.agents.dictionary_learner import Learner
from gemrl.agents.memory.dictionary import Dictionary, Written
from gemrl.agents.memory.equals import digests
from gemrl.agents.memory.refreshing import NEWEST, Chunks, plan_newest
from gemrl.agents.memory.ring import Memory
from gemrl.algorithms.bootstraps import permitted
from gemrl.algorithms.recipes.dictionary import DictionaryRecipe
from gemrl.core.arrays import Array


def update_memory(recipe: DictionaryRecipe, learner: Learner, memory: Memory) -> tuple[Learner, Memory]:
    """Values new rows, plans their returns, and writes those that have become final to the dictionaries."""
    cap, unfinished = recipe.planner.rollout_cap, memory.unplanned
    learner, memory = value_new_rows(recipe, learner, memory)
    memory = plan_newest(memory, recipe.planner, NEWEST + cap)
    waiting = waiting_rows(memory, cap)
    memory = eqx.tree_at(lambda m: m.unplanned, memory, waiting)
    return write_rows(recipe, learner, memory, unfinished, waiting), memory


def value_new_rows(recipe: DictionaryRecipe, learner: Learner, memory: Memory) -> tuple[Learner, Memory]:
    """The memory with the value max_a Q(s', a) of the next state of each row that was never planned."""
    age = (memory.head[:, None] - 1 - jnp.arange(memory.capacity)) % memory.capacity
    new = jnp.isnan(memory.planned[0]) & (age < memory.unplanned[:, None])
    chunks = Chunks.newest(memory, new.sum(axis=-1), recipe.train_freq)

    def value(number: Array, carried: tuple[Array, Array]) -> tuple[Array, Array]:
        q_next, used = carried
        state, allowed = learner.policy.split(memory.observations(*chunks.next_observations(number)))
        q, near = learner.policy.values(state)
        exists = chunks.places(number)[2][:, None, None]
        dictionary = eqx.tree_at(lambda d: d.used, learner.dictionary, used)
        used = dictionary.touched(near._replace(filled=near.filled & exists), learner.updates).used
        return chunks.write(number, q_next, permitted(q, allowed).max(axis=-1)[None]), used

    start = memory.q_next, learner.dictionary.used
    q_next, used = jax.lax.fori_loop(0, chunks.count, value, start)
    return eqx.tree_at(lambda x: x.dictionary.used, learner, used), eqx.tree_at(lambda m: m.q_next, memory, q_next)


def waiting_rows(memory: Memory, ahead: int) -> Array:
    """How many of the newest rows of each lane have a return that may still change: it looks `ahead` steps [E]."""
    lanes, capacity = memory.rows.reward.shape
    age = jnp.arange(min(ahead - 1, capacity))
    ended = memory.rows.last[jnp.arange(lanes)[:, None], (memory.head[:, None] - 1 - age) % capacity]
    ended |= age >= memory.size[:, None]
    return jnp.concatenate([ended, jnp.ones((lanes, 1), bool)], axis=-1).argmax(axis=-1).astype(memory.unplanned.dtype)


def write_rows(recipe: DictionaryRecipe, learner: Learner, memory: Memory, unfinished: Array, waiting: Array) -> Learner:
    """Writes the newest unfinished[e] rows of each lane to the dictionaries, except for those that still wait, oldest first."""
    chunks = Chunks.newest(memory, unfinished, recipe.train_freq, but=waiting)

    def write(number: Array, dictionary: Dictionary) -> Dictionary:
        lane, position, exists = chunks.places(number)
        observation = memory.observation(lane, position)
        bare, _ = learner.embedding.layout.split(observation)
        key, digest = learner.embedding(learner.policy.split(observation)[0]), digests(bare.reshape(len(lane), -1))
        action, value = memory.rows.action[lane, position, 0], memory.planned[0, lane, position]
        return dictionary.written(Written(action, key, digest, value, exists), recipe.write_rate, learner.updates)

    dictionary = jax.lax.fori_loop(0, chunks.count, write, learner.dictionary)
    return eqx.tree_at(lambda x: x.dictionary, learner, dictionary)
