"""What agents with Q-networks keep in their memory: values of next states, planned returns, and best returns."""

from __future__ import annotations

import equinox as eqx
import jax

from gemrl.agents.discrete_learner import Learner, action_values
from gemrl.agents.memory.equals import with_best_returns
from gemrl.agents.memory.refreshing import Chunks, plan, plan_newest, stale_rows
from gemrl.agents.memory.ring import Memory
from gemrl.agents.normalization import freezing, frozen
from gemrl.agents.off_policy import CHUNK
from gemrl.agents.reward_scale import in_rewards
from gemrl.algorithms.bootstraps import NEXT_ACTIONS
from gemrl.algorithms.recipes.discrete import DiscreteRecipe
from gemrl.core.arrays import Array


def update_memory(recipe: DiscreteRecipe, learner: Learner, memory: Memory, due: bool) -> tuple[Learner, Memory]:
    """Algorithm 2. If due, moves the target networks and refreshes all rows, else only new ones; then plans returns."""
    if due:
        learner = freezing(move_targets(recipe, learner))
    if recipe.targets.stored:
        if due:
            memory = plan(refresh(recipe, learner, memory, memory.size), recipe.targets.planner)
        else:  # a round adds about train_freq rows, so larger chunks would waste work
            memory = refresh(recipe, learner, memory, stale_rows(memory), recipe.train_freq)
            memory = plan_newest(memory, recipe.targets.planner)
    elif recipe.anchor.planner is not None and due:
        memory = plan(refresh(recipe, learner, memory, memory.size), recipe.anchor.planner)
        memory = with_best_returns(memory)
    return learner, memory


def move_targets(recipe: DiscreteRecipe, learner: Learner) -> Learner:
    """theta' <- tau theta + (1 - tau) theta'; a copy if tau is 1."""

    def moved(target: Array, online: Array) -> Array:
        return recipe.tau * online + (1 - recipe.tau) * target

    return eqx.tree_at(lambda x: x.targets, learner, jax.tree.map(moved, learner.targets, learner.networks))


def refresh(recipe: DiscreteRecipe, learner: Learner, memory: Memory, stale: Array, at_once: int | None = None) -> Memory:
    """The memory with the values of the newest stale[e] rows of each lane computed again, at most `at_once` rows at a time."""
    learner, layout = frozen(learner), learner.networks.layout
    chunk = CHUNK[layout.is_image]

    chunks = Chunks.newest(memory, stale, min(chunk, at_once or chunk))

    def value_chunk(number: Array, columns: dict[str, Array]) -> dict[str, Array]:
        lane, kept = chunks.next_observations(number)
        q = action_values(recipe, learner, memory.observations(lane, kept))
        values = {"q_next": recipe.bootstrap(q.online_allowed, q.target_allowed)}
        for name in NEXT_ACTIONS:
            if name in columns:
                values[name] = NEXT_ACTIONS[name](q.target.min(axis=1), q.allowed, chunks.next_actions(number)[None, :, 0])
        return {name: chunks.write(number, column, in_rewards(learner, values[name])) for name, column in columns.items()}

    columns = {name: column for name, column in memory.values().items() if name != "planned"}
    valued = jax.lax.fori_loop(0, chunks.count, value_chunk, columns)
    return eqx.tree_at(lambda x: [getattr(x, name) for name in columns], memory, [valued[name] for name in columns])
