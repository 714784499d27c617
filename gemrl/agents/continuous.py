"""GEM and its relatives with a deterministic policy: Algorithms 1 and 2 of the paper as one compiled round of training.

Read it from top to bottom: a round (Algorithm 1), the update of the memory (Algorithm 2), and the gradient steps with their
losses. What a gradient step draws is in drawing.py; its minibatch, and the state values that the memory stores too, are in
minibatches.py; acting is in acting.py.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from gemrl.agents.acting import Policy, act, acting_form, explore, for_acting, sample
from gemrl.agents.averaging import follow, judge, try_out
from gemrl.agents.calibration import next_alpha
from gemrl.agents.compiling import compiled_round
from gemrl.agents.drawing import Randomness, draw_round, smoothing_noise
from gemrl.agents.footprint import Work, actor_critic_size
from gemrl.agents.learner import Learner, init_learner
from gemrl.agents.memory.reach import newest, reached
from gemrl.agents.memory.refreshing import Chunks, plan, plan_newest, stale_rows
from gemrl.agents.memory.ring import FOLLOWED, Memory, RowIndex, Rows
from gemrl.agents.memory.similar import with_mean_returns, with_nearest
from gemrl.agents.minibatches import Batch, Ends, batch_of, bootstrapped, joint_values, pair_values, target_view
from gemrl.agents.networks.actor_critic import Actor, Critics, adam, current_rate, descend, normalized
from gemrl.agents.networks.encoder import Encoders, encoder_loss, seen_pairs, seen_states
from gemrl.agents.networks.gaussian import GaussianActor, Temperature
from gemrl.agents.networks.products import multiplying
from gemrl.agents.normalization import freezing, frozen
from gemrl.agents.off_policy import Family, Trial, on_host
from gemrl.agents.reward_scale import in_rewards, remember
from gemrl.algorithms.imitation import PolicyBatch
from gemrl.algorithms.losses import Calibrated, weighted_square
from gemrl.algorithms.planning import NStep
from gemrl.algorithms.recipes.continuous import Recipe
from gemrl.algorithms.targets import SelfImitation, Tightening
from gemrl.core.arrays import Array
from gemrl.core.layout import Layout

REFRESH_CHUNK = 512
"""Next states evaluated at a time in a refresh: few enough that the activations stay in cache."""

IMAGES_AT_ONCE = 64
"""The same for images, whose convolutions compute many more numbers."""


@compiled_round
def train_round(
    recipe: Recipe, learner: Learner, memory: Memory, new: Rows, count: Array, due: bool
) -> tuple[Learner, Memory, dict[str, Array]]:
    """One round of Algorithm 1: adds new rows to the memory, updates its returns, then takes gradient steps."""
    learner, memory = remember(learner, memory, new, count)
    key, refresh_key, step_key = jax.random.split(learner.key, 3)
    drawn = draw_round(recipe, memory, step_key)
    with multiplying(recipe.bfloat16):
        learner, memory = update_memory(recipe, learner, memory, due, refresh_key, drawn.rows)
        learner, losses = gradient_steps(recipe, memory, eqx.tree_at(lambda x: x.key, learner, key), drawn)
    learner = follow(recipe, learner)
    critic_losses, actor_losses = losses
    metrics = {"critic_loss": critic_losses.mean(), "actor_loss": jnp.nanmean(actor_losses)}
    if learner.temperature is not None:
        metrics["ent_coef"] = learner.temperature.value
    if learner.alpha is not None:
        metrics["alpha"] = learner.alpha
    return learner, memory, metrics


def update_memory(
    recipe: Recipe, learner: Learner, memory: Memory, due: bool, key: Array, drawn: RowIndex | None = None
) -> tuple[Learner, Memory]:
    """Algorithm 2. If due, moves the target networks and refreshes rows, else only new ones; then plans returns.

    If it is known which rows this round's minibatches have `drawn`, only rows that their rollouts reach are refreshed where that
    is enough: their returns are those that a refresh of all rows would give.
    """
    if recipe.targets.stored:
        learner = move_targets(recipe, learner) if due else learner
        memory = refresh(recipe, learner, memory, _stale(recipe, memory, due, drawn), key)
        memory = plan(memory, recipe.targets.planner) if due else plan_newest(memory, recipe.targets.planner)
    elif recipe.targets.every and due:
        memory = refresh(recipe, learner, memory, memory.size, key)
        memory = plan(memory, recipe.targets.planner)
    elif isinstance(recipe.bound, SelfImitation) and due:
        memory = refresh(recipe, learner, memory, memory.size, key)
        memory = plan(memory, NStep(recipe.bound.horizon))
    elif recipe.anchor.planner is not None and due:
        keys, memory = with_nearest(memory, learner.projection)  # before the plan, which counts its rows as old ones
        memory = plan(refresh(recipe, learner, memory, memory.size, key), recipe.anchor.planner)
        memory = with_mean_returns(memory, keys)
    if due and learner.alpha is not None and isinstance(recipe.loss, Calibrated):
        learner = eqx.tree_at(lambda x: x.alpha, learner, next_alpha(recipe.loss, learner.alpha, memory))
    return learner, memory


def _stale(recipe: Recipe, memory: Memory, due: bool, drawn: RowIndex | None) -> Array:
    """The rows to value again: how many of the newest ones of each lane [E], or whether a row is one of them [E, N]."""
    if not due:
        return stale_rows(memory)
    if drawn is None or not recipe.moves_every_round or isinstance(recipe.loss, Calibrated):
        return memory.size
    return reached(memory, drawn, recipe.targets.planner.rollout_cap) | newest(memory, stale_rows(memory))


def move_targets(recipe: Recipe, learner: Learner) -> Learner:
    """theta' <- tau theta + (1 - tau) theta', for actor and critics; and what they see, if features are learned."""

    def moved(target: Array, online: Array) -> Array:
        return recipe.tau * online + (1 - recipe.tau) * target

    networks = jax.tree.map(moved, (learner.target_actor, learner.target_critics), (learner.actor, learner.critics))
    learner = freezing(eqx.tree_at(lambda x: (x.target_actor, x.target_critics), learner, networks))
    return learner if learner.encoders is None else eqx.tree_at(lambda x: x.encoders, learner, learner.encoders.moved())


def without_targets(learner: Learner) -> Learner:
    """The learner with its online networks as targets. Learned features are still copied only when targets would move."""
    learner = eqx.tree_at(lambda x: (x.target_actor, x.target_critics), learner, (learner.actor, learner.critics))
    return learner if learner.encoders is None else eqx.tree_at(lambda x: x.encoders.target, learner, learner.encoders.fixed)


def refresh(recipe: Recipe, learner: Learner, memory: Memory, stale: Array, key: Array) -> Memory:
    """The memory with the values of stale rows computed again: the newest stale[e] of each lane, or those with stale[e, n]."""
    networks = learner.target_actor.fast(), learner.target_critics.fast()
    learner = frozen(eqx.tree_at(lambda x: (x.target_actor, x.target_critics), learner, networks))
    at_once = REFRESH_CHUNK if memory.frames is None else IMAGES_AT_ONCE
    chunks = (Chunks.newest if stale.ndim == 1 else Chunks.wanted)(memory, stale, at_once)
    actions = memory.rows.action.shape[-1]

    def noise_of(row: Array) -> Array:
        return smoothing_noise(recipe, jax.random.fold_in(key, row), (actions,))

    def value_chunk(number: Array, columns: tuple[Array, Array | None]) -> tuple[Array, Array | None]:
        q_next, q_stored = columns
        view = target_view(learner, memory.observations(*chunks.next_observations(number)))
        noise = jax.vmap(noise_of)(chunks.row_numbers(number))
        q_next = chunks.write(number, q_next, bootstrapped(recipe, learner, view, noise))
        if q_stored is not None:
            q_stored = chunks.write(number, q_stored, pair_values(recipe, learner, view, chunks.next_actions(number)))
        return q_next, q_stored

    q_next, q_stored = jax.lax.fori_loop(0, chunks.count, value_chunk, (memory.q_next, memory.q_stored))
    return eqx.tree_at(lambda x: (x.q_next, x.q_stored), memory, (q_next, q_stored), is_leaf=lambda x: x is None)


def gradient_steps(recipe: Recipe, memory: Memory, learner: Learner, drawn: Randomness) -> tuple[Learner, tuple[Array, Array]]:
    """Takes all gradient steps of a round; also returns both losses of each step."""
    return jax.lax.scan(partial(gradient_step, recipe, memory), learner, drawn)


def gradient_step(recipe: Recipe, memory: Memory, learner: Learner, drawn: Randomness) -> tuple[Learner, tuple[Array, Array]]:
    """One update of the critics and, every policy_delay-th time, of the actor; and both losses (NaN if not computed)."""
    batch = batch_of(recipe, learner, memory, drawn)
    optimizer = adam(current_rate(recipe, learner.updates), beta1=recipe.adam_beta1)
    loss = partial(critic_loss, recipe, batch=batch, alpha=learner.alpha)
    clip = recipe.max_grad_norm
    critics, critic_optimizer, critic_error = descend(optimizer, loss, learner.critics, learner.critic_optimizer, clip)

    def improve(state: PolicyState) -> tuple[PolicyState, Array]:
        seen = batch._replace(states=jax.lax.stop_gradient(critics.see(batch.states)))
        loss = partial(actor_loss, recipe, critics=critics, batch=seen, temperature=state.temperature)
        actor, actor_optimizer, error = descend(optimizer, loss, state.actor, state.optimizer, clip)
        return PolicyState(actor, actor_optimizer, next_temperature(recipe, optimizer, state, seen)), error

    updates = learner.updates + 1
    due = updates % recipe.policy_delay == 0
    policy = PolicyState(learner.actor, learner.actor_optimizer, learner.temperature)
    policy, actor_error = jax.lax.cond(due, improve, lambda state: (state, jnp.nan), policy)
    learner = eqx.tree_at(
        lambda x: (x.actor, x.critics, x.actor_optimizer, x.critic_optimizer, x.updates, x.temperature),
        learner,
        (policy.actor, critics, policy.optimizer, critic_optimizer, updates, policy.temperature),
        is_leaf=lambda x: x is None,
    )
    if learner.encoders is not None:
        learner = eqx.tree_at(lambda x: x.encoders, learner, improved_encoders(recipe, optimizer, learner.encoders, batch))
    if not recipe.targets.stored:  # with planned returns they move once per round, in update_memory
        moves = updates % recipe.target_update_interval == 0
        learner = jax.lax.cond(moves, partial(move_targets, recipe), lambda learner: learner, learner)
    if recipe.joint_critics:
        learner = without_targets(learner)
    return learner, (critic_error, actor_error)


def critic_loss(recipe: Recipe, critics: Critics, batch: Batch, alpha: Array | None = None) -> tuple[Array, Any]:
    """The loss against the returns R, and against an anchor, plus the penalty for leaving the bounds, over all critics.

    Also returns the bodies' statistics.
    """
    if isinstance(batch.returns, Ends):
        q, returns, statistics = joint_values(critics, batch, batch.returns)
    else:
        returns = batch.returns
        q, statistics = critics.training(batch.observation, batch.action)
    costs = recipe.loss(q - returns) if alpha is None else weighted_square(q - returns, alpha)
    if batch.anchor is not None:
        anchor = jnp.where(jnp.isnan(batch.anchor), returns, batch.anchor)  # NaN: a row added since the last update
        costs = (1 - recipe.anchor.weight) * costs + recipe.anchor.weight * recipe.loss(q - anchor)
    loss = costs.mean(axis=-1).sum()
    if batch.lower is not None and batch.upper is not None:
        outside = jnp.maximum(batch.lower - q, 0) ** 2 + jnp.maximum(q - batch.upper, 0) ** 2
        loss = loss + recipe.bound.weight * outside.mean(axis=-1).sum()
    return loss, statistics


def actor_loss(
    recipe: Recipe, actor: Actor | GaussianActor, critics: Critics, batch: Batch, temperature: Temperature | None
) -> tuple[Array, Any]:
    """What the policy minimizes: the loss of its values and of stored actions, without its entropy if it has one; statistics."""
    objective = recipe.actor_objective
    (action, density), statistics = actor.training(seen_states(batch.encoder, batch.states), batch.noise)
    q = critics[objective.critics_used].values(seen_pairs(batch.encoder, batch.states, action), action)
    value, distance, advantage = objective(q), ((action - batch.actions) ** 2).mean(axis=-1), None
    constant = jax.lax.stop_gradient(value)
    if recipe.imitation.weighs and not isinstance(batch.returns, Ends):
        advantage = batch.returns.reshape(-1, len(value)).min(axis=0) - constant
    loss = recipe.imitation(PolicyBatch(value, constant, distance, advantage))
    return loss if temperature is None or density is None else loss + temperature.value * density.mean(), statistics


class PolicyState(NamedTuple):
    """What an update of the policy changes."""

    actor: Actor | GaussianActor
    optimizer: optax.OptState
    temperature: Temperature | None


def next_temperature(
    recipe: Recipe, optimizer: optax.GradientTransformation, policy: PolicyState, batch: Batch
) -> Temperature | None:
    """The temperature of a Gaussian policy after a gradient step, as in sac; a deterministic policy has none."""
    if policy.temperature is None or not isinstance(policy.actor, GaussianActor):
        return None
    _, density = policy.actor.draw_with_density(seen_states(batch.encoder, batch.states), batch.noise)
    return policy.temperature.improved(optimizer, density, -recipe.distribution.entropy * batch.actions.shape[-1])


def improved_encoders(recipe: Recipe, optimizer: optax.GradientTransformation, encoders: Encoders, batch: Batch) -> Encoders:
    """The encoders after a gradient step on the prediction of next states' features."""
    loss = partial(encoder_loss, observation=batch.states, action=batch.actions, following=batch.following)
    online, state, _ = descend(optimizer, loss, encoders.online, encoders.optimizer, recipe.max_grad_norm)
    return eqx.tree_at(lambda x: (x.online, x.optimizer), encoders, (online, state))


@jax.jit
def mean_values(learner: Learner, observation: Array, action: Array) -> Array:
    """The mean Q(s, a) of the critics. [B, D], [B, A] -> [B]."""
    observation = normalized(learner.normalizer, observation)
    return in_rewards(learner, learner.critics(seen_pairs(learner.encoder, observation, action), action).mean(axis=0))


def work(recipe: Recipe, layout: Layout) -> Work:
    """What a round computes with, to estimate its memory."""
    drawn = recipe.batch_size * (recipe.n_pairs if recipe.separate_batches else 1)
    if isinstance(recipe.bound, Tightening):
        drawn *= 1 + 2 * recipe.bound.reach  # the rows before and after each one
    plans = bool(recipe.targets.stored or update_period(recipe))
    networks = recipe.n_pairs * recipe.n_critics + 1
    compared = recipe.anchor.projection if recipe.anchor.others else 0
    return Work(*actor_critic_size(recipe.body, layout, networks, recipe.embedding.features), drawn, plans, compared=compared)


def update_period(recipe: Recipe) -> int | None:
    """Environment steps between two updates of what the memory stores; None if it stores neither returns nor rollouts."""
    if recipe.targets.stored:
        return recipe.target_update_interval
    return recipe.targets.every or recipe.bound.every or recipe.anchor.every


def extra_columns(recipe: Recipe) -> tuple[str, ...]:
    """What the memory stores in addition: values of next actions that the planner needs, and rollouts to follow."""
    if recipe.targets.every:
        return *recipe.planner.extra, *FOLLOWED
    return recipe.planner.extra if recipe.targets.stored else ()


FAMILY = Family(
    work=work,
    init_learner=init_learner,
    train_round=train_round,
    update_period=update_period,
    policy_of=lambda learner: for_acting(
        Policy(learner.actor, learner.normalizer, learner.encoder, learner.steady, learner.critics.vision)
    ),
    act=act,
    explore=explore,
    sample=sample,
    values=mean_values,
    groups=lambda recipe: recipe.n_pairs,
    extra=extra_columns,
    trial=Trial(try_out, judge, lambda learner: acting_form(on_host(jax.tree.map(lambda x: x[0], learner.tried.policies)))),
    neighbours=lambda recipe: recipe.anchor.others,
)
