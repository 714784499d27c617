"""Rounds that overlap with acting, compared with a plain agent that is made to act with the policy of the round before."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemrl.agents.making import make_agent
from gemrl.agents.off_policy import OffPolicyAgent
from gemrl.algorithms.registry import RECIPES
from gemrl.core.exceptions import Diverged
from gemrl.envs.vector import as_task
from gemrl.training.loop import Event, train
from gemrl.training.models import MODELS
from tests import probes
from tests.conftest import SMALL

FIELDS = SMALL | {"learning_starts": 50, "train_freq": 20, "gradient_steps": 3, "normalize_observations": True}
FAMILIES = {"gem": "InvertedPendulum-v5", "sac": "InvertedPendulum-v5", "gem-discrete": "CartPole-v1"}


class Delayed:
    """An agent without overlap, whose exploration uses the policy from before its newest round."""

    def __init__(self, agent: Any) -> None:
        self._agent, self._before = agent, None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._agent, name)

    def learn(self, step: int) -> dict[str, float]:
        before = jax.tree.map(np.array, self._agent._family.policy_of(self._agent.learner))
        losses = self._agent.learn(step)
        self._before = before
        return losses

    def explore(self, observation: np.ndarray, step: int) -> np.ndarray:
        agent = self._agent
        if self._before is None or step < agent.recipe.learning_starts:
            return agent.explore(observation, step)
        return agent._family.explore(agent.recipe, self._before, observation, step, agent.rng)


def trained(name: str, *, overlap: bool) -> tuple[OffPolicyAgent, list[Event]]:
    """An agent after 11 rounds, and all events. Without overlap it is delayed by the wrapper above."""
    recipe = RECIPES[name].but(**{key: value for key, value in FIELDS.items() if key in RECIPES[name].settable()})
    task = as_task(gym.make(FAMILIES[name]), 3)
    agent: Any = make_agent(recipe.but(overlap=overlap), task.spaces.layout, lanes=1, seed=3, device=None)
    events = list(train(agent if overlap else Delayed(agent), task, 270))
    return agent, [event for event in events if event.rounds]


@pytest.mark.parametrize("name", FAMILIES)
def test_acting_lags_by_exactly_one_round(name: str) -> None:
    (ours, events), (oracle, plain) = trained(name, overlap=True), trained(name, overlap=False)
    for mine, other in zip(jax.tree.leaves(ours.learner), jax.tree.leaves(oracle.learner), strict=True):
        if not jnp.issubdtype(other.dtype, jax.dtypes.prng_key):
            np.testing.assert_array_equal(mine, other)
    np.testing.assert_array_equal(ours.memory.rows.action, oracle.memory.rows.action)
    assert len(events) == 11
    np.testing.assert_equal([event.losses for event in events], [{}, *(event.losses for event in plain[:-1])])


def test_predictions_use_the_newest_policy() -> None:
    ours, oracle = (trained("gem", overlap=overlap)[0] for overlap in (True, False))
    states = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    np.testing.assert_array_equal(ours.act(states), oracle.act(states))


def test_it_changes_what_is_explored() -> None:
    model = MODELS["gem"]("InvertedPendulum-v5", seed=3, **FIELDS).learn(270)
    assert not np.array_equal(model.agent.memory.rows.action, trained("gem", overlap=True)[0].memory.rows.action)


def test_divergence_is_noticed_one_round_later() -> None:
    with pytest.raises(Diverged, match="diverged by step 200"):
        MODELS["td3"](probes.Constant(), seed=0, **SMALL | {"learning_rate": 1e30, "overlap": True}).learn(300)
