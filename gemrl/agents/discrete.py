"""GEM for discrete actions, DQN and its variants: one compiled round of training."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gemrl.agents.compiling import compiled_round
from gemrl.agents.discrete_learner import Learner, grouped, init_learner, state_values
from gemrl.agents.discrete_memory import update_memory
from gemrl.agents.footprint import Work
from gemrl.agents.greedy import epsilon_greedy, in_powers_of_two
from gemrl.agents.memory.ring import Memory, RowIndex, Rows, draw
from gemrl.agents.memory.sampling import n_step
from gemrl.agents.networks.actor_critic import adam, current_rate, descend, normalized
from gemrl.agents.networks.convolution import feature_maps
from gemrl.agents.networks.q_networks import QNetworks
from gemrl.agents.normalization import Normalizer
from gemrl.agents.off_policy import Family, on_host
from gemrl.agents.reward_scale import for_networks, in_rewards, remember
from gemrl.algorithms.bodies import count_weights
from gemrl.algorithms.bootstraps import permitted
from gemrl.algorithms.recipes.discrete import DiscreteRecipe
from gemrl.core.arrays import Array
from gemrl.core.layout import Layout


def work(recipe: DiscreteRecipe, layout: Layout) -> Work:
    """What a round computes with, to estimate its memory."""
    layout = layout.unmasked
    convolutions = feature_maps(layout)
    inputs = convolutions[-1].features + layout.numbers if convolutions else layout.states or layout.size
    parameters = count_weights(inputs, (*recipe.net_arch, layout.choices)) + sum(one.weights for one in convolutions)
    activations = sum(recipe.net_arch) + sum(one.activations for one in convolutions)
    networks = recipe.n_networks
    return Work(networks * parameters, networks * activations, recipe.batch_size, recipe.stores_returns)


class Batch(NamedTuple):
    """A minibatch, with the targets of every network."""

    observation: Array  # [B, *O]
    action: Array  # [B]
    returns: Array  # [N, B]
    anchor: Array | None = None  # [N, B], the returns that Q-values are pulled towards; NaN where a row has none


def batch_of(recipe: DiscreteRecipe, learner: Learner, memory: Memory, index: RowIndex) -> Batch:
    """The minibatch of the drawn rows."""
    observation, _ = learner.networks.layout.split(memory.observation(index.lane, index.position))
    action = memory.rows.action[index.lane, index.position, 0]
    returns = for_networks(learner, _returns(recipe, learner, memory, index))
    anchor = None
    if recipe.anchor.stored:
        anchor = for_networks(learner, jnp.repeat(memory.planned[:, index.lane, index.position], recipe.n_critics, axis=0))
    return Batch(normalized(learner.normalizer, observation), action, returns, anchor)


def _returns(recipe: DiscreteRecipe, learner: Learner, memory: Memory, index: RowIndex) -> Array:
    """The targets of every network [N, B]: its group's returns.

    With students, only these learn the groups' returns; the other networks learn their own one-step targets.
    """
    rows = memory.rows
    if recipe.targets.stored:
        returns = memory.planned[:, index.lane, index.position]
    else:
        rewards, bootstrap_discount, end = n_step(memory, index, recipe.targets.planner.rollout_cap)
        returns = rewards + bootstrap_discount * state_values(recipe, learner, memory.next_observation(index.lane, end))
    if not recipe.students:
        return jnp.repeat(returns, recipe.n_critics, axis=0)
    following, allowed = learner.networks.layout.split(memory.next_observation(index.lane, index.position))
    own = permitted(learner.targets(normalized(learner.normalizer, following))[: -recipe.n_pairs], allowed).max(axis=-1)
    own = in_rewards(learner, own)
    one_step = rows.reward[index.lane, index.position] + rows.discount[index.lane, index.position] * own
    return jnp.concatenate([one_step, returns])


def loss(recipe: DiscreteRecipe, networks: QNetworks, batch: Batch) -> tuple[Array, Any]:
    """The loss summed over networks; and their running statistics, which are empty."""
    values = jnp.take_along_axis(networks(batch.observation), batch.action[None, :, None], axis=-1)[..., 0]
    cost = recipe.loss(values - batch.returns)
    if batch.anchor is not None:  # a row without a return is not pulled
        pull = values - jnp.where(jnp.isnan(batch.anchor), jax.lax.stop_gradient(values), batch.anchor)
        cost += recipe.anchor.weight * recipe.loss(pull)
    return cost.mean(axis=-1).sum(), ()


def gradient_step(recipe: DiscreteRecipe, memory: Memory, learner: Learner, index: RowIndex) -> tuple[Learner, Array]:
    """One update of all networks; and their loss."""
    batch = batch_of(recipe, learner, memory, index)
    optimizer = adam(current_rate(recipe, learner.optimizer[0].count), recipe.adam_epsilon)
    cost, clip = partial(loss, recipe, batch=batch), recipe.max_grad_norm
    networks, state, error = descend(optimizer, cost, learner.networks, learner.optimizer, clip)
    return eqx.tree_at(lambda x: (x.networks, x.optimizer), learner, (networks, state)), error


@compiled_round
def train_round(
    recipe: DiscreteRecipe, learner: Learner, memory: Memory, new: Rows, count: Array, due: bool
) -> tuple[Learner, Memory, dict[str, Array]]:
    """One round: adds new rows to the memory, updates targets and stored returns, then takes gradient steps."""
    learner, memory = remember(learner, memory, new, count)
    learner, memory = update_memory(recipe, learner, memory, due)
    key, step_key = jax.random.split(learner.key)
    shape = recipe.gradient_steps, recipe.batch_size
    drawn = draw(memory, step_key, shape, planned=recipe.targets.stored)
    learner = eqx.tree_at(lambda x: x.key, learner, key)
    learner, errors = jax.lax.scan(partial(gradient_step, recipe, memory), learner, drawn)
    return learner, memory, {"loss": errors.mean()}


def acting_values(recipe: DiscreteRecipe, networks: QNetworks, observation: Array) -> Array:
    """The Q-values that the agent acts on. [B, *O] -> [B, A]."""
    q = networks(observation)
    return q[-recipe.n_pairs :].mean(axis=0) if recipe.students else recipe.acting(grouped(recipe, q))


_compiled_values = jax.jit(acting_values, static_argnums=0)


class Policy(NamedTuple):
    """The part of the learner that acting needs."""

    networks: QNetworks
    normalizer: Normalizer | None


def policy_of(learner: Learner) -> Policy:
    """The policy. Small networks are copied to the host, where they run fastest; those for images stay on the device."""
    policy = Policy(learner.networks, learner.normalizer)
    return policy if learner.networks.layout.is_image else on_host(policy)


def act(recipe: DiscreteRecipe, policy: Policy, observation: np.ndarray) -> np.ndarray:
    """The greedy actions. [B, *O] -> [B, 1]."""
    networks = policy.networks
    state, allowed = networks.layout.split(observation)
    if networks.layout.is_image:
        values = in_powers_of_two(partial(_compiled_values, recipe, networks), state)
    else:
        values = acting_values(recipe, networks, normalized(policy.normalizer, state))
    values = permitted(values, allowed)
    return values.argmax(axis=-1).astype(np.int32)[:, None]


def explore(recipe: DiscreteRecipe, policy: Policy, observation: np.ndarray, step: int, rng: np.random.Generator) -> np.ndarray:
    """Epsilon-greedy actions; epsilon falls over time. [B, *O] -> [B, 1]."""
    return epsilon_greedy(partial(act, recipe, policy), policy.networks.layout, recipe.epsilon(step), observation, rng)


@jax.jit
def mean_value(learner: Learner, observation: Array, action: Array) -> Array:
    """The mean Q(s, a) of all networks. [B, *O], [B, 1] -> [B]."""
    state, _ = learner.networks.layout.split(observation)
    q = learner.networks(normalized(learner.normalizer, state))
    return in_rewards(learner, jnp.take_along_axis(q, action[None], axis=-1)[..., 0].mean(axis=0))


FAMILY = Family(
    work=work,
    init_learner=init_learner,
    train_round=train_round,
    update_period=lambda recipe: recipe.target_update_interval,
    policy_of=policy_of,
    act=act,
    explore=explore,
    sample=lambda recipe, policy, observation, _: act(recipe, policy, observation),
    values=mean_value,
    groups=lambda recipe: recipe.n_pairs,
    extra=lambda recipe: recipe.planner.extra if recipe.targets.stored else (),
)
