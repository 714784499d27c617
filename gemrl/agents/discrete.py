"""GEM for discrete actions, DQN and its variants: one compiled round of training."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from gemrl.agents.device import CPU_COMPILER_OPTIONS
from gemrl.agents.footprint import Work
from gemrl.agents.memory.ring import Chunks, Memory, RowIndex, Rows, draw, plan, plan_newest, stale_rows
from gemrl.agents.memory.sampling import n_step
from gemrl.agents.networks.actor_critic import adam, adam_start, descend, normalized
from gemrl.agents.networks.convolution import feature_maps
from gemrl.agents.networks.q_networks import QNetworks
from gemrl.agents.normalization import Normalizer, freezing, frozen
from gemrl.agents.off_policy import CHUNK, Family, on_host
from gemrl.agents.reward_scale import RewardScale, for_networks, in_rewards, remember
from gemrl.algorithms.bodies import count_weights
from gemrl.algorithms.recipes.discrete import DiscreteRecipe
from gemrl.core.arrays import Array
from gemrl.core.exceptions import BadValue
from gemrl.core.layout import Layout
from gemrl.core.seeding import stream


class Learner(eqx.Module):
    """Everything that learning changes, except the memory."""

    networks: QNetworks
    targets: QNetworks
    optimizer: optax.OptState
    normalizer: Normalizer | None
    key: Array
    target_normalizer: Normalizer | None
    """The normalizer when the targets last moved; None unless values of the target networks are stored."""
    reward_scale: RewardScale | None
    target_reward_scale: RewardScale | None
    """The same for the reward scale."""


def init_learner(recipe: DiscreteRecipe, layout: Layout, seed: int) -> Learner:
    """Networks, their targets and the optimizer before the first step."""
    rng = stream(seed, "networks")
    networks = QNetworks.init(rng, recipe.n_networks, layout, recipe.net_arch, dueling=recipe.dueling)
    if recipe.normalize_observations and (layout.is_image or layout.states):
        raise BadValue("normalize_observations is for vectors, but these observations are images or discrete states")
    normalizer = Normalizer.start(layout.size) if recipe.normalize_observations else None
    scale = RewardScale.start() if recipe.normalize_rewards else None
    frozen = (normalizer, scale) if recipe.targets.stored else (None, None)
    learner = Learner(networks, networks, adam_start(networks), normalizer, jax.random.key(seed), frozen[0], scale, frozen[1])
    return jax.tree.map(jnp.array, learner)  # copies: a round overwrites its arguments, so no two may share an array


def work(recipe: DiscreteRecipe, layout: Layout) -> Work:
    """What a round computes with, to estimate its memory."""
    convolutions = feature_maps(layout)
    inputs = convolutions[-1].features if convolutions else layout.states or layout.size
    parameters = count_weights(inputs, (*recipe.net_arch, layout.choices)) + sum(one.weights for one in convolutions)
    activations = sum(recipe.net_arch) + sum(one.activations for one in convolutions)
    networks = recipe.n_networks
    return Work(networks * parameters, networks * activations, recipe.batch_size, recipe.targets.stored)


def grouped(recipe: DiscreteRecipe, q: Array) -> Array:
    """The Q-values of all networks but the students, by group. [N, ...] -> [K, C, ...]."""
    return q[: recipe.n_pairs * recipe.n_critics].reshape(recipe.n_pairs, recipe.n_critics, *q.shape[1:])


def state_values(recipe: DiscreteRecipe, learner: Learner, observation: Array) -> Array:
    """Each group's value of states. [B, *O] -> [K, B]."""
    return in_rewards(learner, recipe.bootstrap(*action_values(recipe, learner, observation)))


def action_values(recipe: DiscreteRecipe, learner: Learner, observation: Array) -> tuple[Array, Array]:
    """Q-values of all actions by the online and the target networks. [B, *O] -> [K, C, B, A] each."""
    observation = normalized(learner.normalizer, observation)
    return grouped(recipe, learner.networks(observation)), grouped(recipe, learner.targets(observation))


def refresh(recipe: DiscreteRecipe, learner: Learner, memory: Memory, stale: Array, at_once: int | None = None) -> Memory:
    """The memory with the values of the newest stale[e] rows of each lane computed again, at most `at_once` rows at a time."""
    learner, layout = frozen(learner), learner.networks.layout
    chunk = CHUNK[layout.is_image]

    chunks = Chunks(memory, stale, min(chunk, at_once or chunk))

    def value_chunk(number: Array, columns: tuple[Array, Array | None]) -> tuple[Array, Array | None]:
        q_next, q_stored = columns
        lane, kept = chunks.next_observations(number)
        online, target = action_values(recipe, learner, memory.observations(lane, kept, layout.frames))
        q_next = chunks.write(number, q_next, in_rewards(learner, recipe.bootstrap(online, target)))
        if q_stored is not None:
            taken = jnp.take_along_axis(target.min(axis=1), chunks.next_actions(number)[None], axis=-1)[..., 0]
            q_stored = chunks.write(number, q_stored, in_rewards(learner, taken))
        return q_next, q_stored

    q_next, q_stored = jax.lax.fori_loop(0, chunks.count, value_chunk, (memory.q_next, memory.q_stored))
    return eqx.tree_at(lambda x: (x.q_next, x.q_stored), memory, (q_next, q_stored), is_leaf=lambda x: x is None)


class Batch(NamedTuple):
    """A minibatch, with the targets of every network."""

    observation: Array  # [B, *O]
    action: Array  # [B]
    returns: Array  # [N, B]


def batch_of(recipe: DiscreteRecipe, learner: Learner, memory: Memory, index: RowIndex) -> Batch:
    """The minibatch of the drawn rows."""
    rows, frames = memory.rows, learner.networks.layout.frames
    observation = memory.observations(index.lane, rows.observation[index.lane, index.position], frames)
    action = rows.action[index.lane, index.position, 0]
    returns = for_networks(learner, _returns(recipe, learner, memory, index))
    return Batch(normalized(learner.normalizer, observation), action, returns)


def _returns(recipe: DiscreteRecipe, learner: Learner, memory: Memory, index: RowIndex) -> Array:
    """The targets of every network [N, B]: its group's returns.

    With students, only these learn the groups' returns; the other networks learn their own one-step targets.
    """
    rows, frames = memory.rows, learner.networks.layout.frames
    if recipe.targets.stored:
        returns = memory.planned[:, index.lane, index.position]
    else:
        rewards, bootstrap_discount, end = n_step(memory, index, recipe.targets.planner.rollout_cap)
        following = memory.observations(index.lane, rows.next_observation[index.lane, end], frames)
        returns = rewards + bootstrap_discount * state_values(recipe, learner, following)
    if not recipe.students:
        return jnp.repeat(returns, recipe.n_critics, axis=0)
    following = memory.observations(index.lane, rows.next_observation[index.lane, index.position], frames)
    own = learner.targets(normalized(learner.normalizer, following))[: -recipe.n_pairs].max(axis=-1)
    own = in_rewards(learner, own)
    one_step = rows.reward[index.lane, index.position] + rows.discount[index.lane, index.position] * own
    return jnp.concatenate([one_step, returns])


def loss(recipe: DiscreteRecipe, networks: QNetworks, batch: Batch) -> tuple[Array, Any]:
    """The loss summed over networks; and their running statistics, which are empty."""
    values = jnp.take_along_axis(networks(batch.observation), batch.action[None, :, None], axis=-1)[..., 0]
    return recipe.loss(values - batch.returns).mean(axis=-1).sum(), ()


def gradient_step(recipe: DiscreteRecipe, memory: Memory, learner: Learner, index: RowIndex) -> tuple[Learner, Array]:
    """One update of all networks; and their loss."""
    batch = batch_of(recipe, learner, memory, index)
    optimizer = adam(recipe.learning_rate, recipe.adam_epsilon)
    networks, state, error = descend(optimizer, partial(loss, recipe, batch=batch), learner.networks, learner.optimizer)
    return eqx.tree_at(lambda x: (x.networks, x.optimizer), learner, (networks, state)), error


def update_memory(recipe: DiscreteRecipe, learner: Learner, memory: Memory, due: bool) -> tuple[Learner, Memory]:
    """Algorithm 2. If due, copies the target networks and refreshes all rows, else only new ones; then plans returns."""
    if due:
        learner = freezing(eqx.tree_at(lambda x: x.targets, learner, learner.networks))
    if recipe.targets.stored:
        if due:
            memory = plan(refresh(recipe, learner, memory, memory.size), recipe.targets.planner)
        else:  # a round adds about train_freq rows, so larger chunks would waste work
            memory = refresh(recipe, learner, memory, stale_rows(memory), recipe.train_freq)
            memory = plan_newest(memory, recipe.targets.planner)
    return learner, memory


@partial(jax.jit, static_argnums=(0, 5), donate_argnums=(1, 2), compiler_options=CPU_COMPILER_OPTIONS)
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
    if networks.layout.is_image:
        count = len(observation)
        padding = (1 << (count - 1).bit_length()) - count  # one compiled program per power of two, not per batch size
        padded = np.concatenate([observation, np.repeat(observation[:1], padding, axis=0)])
        values = np.asarray(_compiled_values(recipe, networks, padded))[:count]
    else:
        values = acting_values(recipe, networks, normalized(policy.normalizer, observation))
    return values.argmax(axis=-1).astype(np.int32)[:, None]


def explore(recipe: DiscreteRecipe, policy: Policy, observation: np.ndarray, step: int, rng: np.random.Generator) -> np.ndarray:
    """Epsilon-greedy actions; epsilon falls over time. [B, *O] -> [B, 1]."""
    random = policy.networks.layout.random_actions(len(observation), rng)
    explores = rng.random((len(observation), 1)) < recipe.epsilon(step)
    return random if explores.all() else np.where(explores, random, act(recipe, policy, observation))


@jax.jit
def mean_value(learner: Learner, observation: Array, action: Array) -> Array:
    """The mean Q(s, a) of all networks. [B, *O], [B, 1] -> [B]."""
    q = learner.networks(normalized(learner.normalizer, observation))
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
    uses_stored=lambda recipe: recipe.targets.stored and recipe.planner.uses_stored,
)
