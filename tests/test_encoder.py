"""State-action embeddings compared with PyTorch and plain numpy versions of TD7's equations."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gemrl.agents.continuous import FAMILY, gradient_step, move_targets
from gemrl.agents.learner import Learner, init_learner
from gemrl.agents.networks.encoder import Encoder
from gemrl.algorithms.embeddings import NoEmbedding, StateAction
from gemrl.algorithms.registry import Recipe
from gemrl.core.exceptions import BadValue
from tests.compiled import draw_randomness, state_values
from tests.test_continuous import LAYOUT, A, D, forward, random_memory, small, torch_arrays

torch = pytest.importorskip("torch")

FEATURES = 5


def recipe_with_features(**fields: Any) -> Recipe:
    return small("gem", embedding=StateAction(FEATURES), layer_norm=False, **fields)


def distinct_encoders(recipe: Recipe) -> Learner:
    """A learner whose three encoders differ, as they do in training."""
    learner = init_learner(recipe, LAYOUT, seed=3)
    encoders = [Encoder.init(np.random.default_rng(seed), D, A, FEATURES) for seed in (1, 2, 3)]
    encoders = [jax.tree.map(jnp.array, encoder) for encoder in encoders]
    return eqx.tree_at(lambda x: (x.encoders.online, x.encoders.fixed, x.encoders.target), learner, tuple(encoders))


def features(arrays: dict[str, Any], states: Any, actions: Any) -> tuple[Any, Any]:
    """z_s and z_sa by PyTorch, from the arrays of an encoder."""

    def through(name: str, x: Any) -> Any:
        for number in range(3):
            x = torch.nn.functional.linear(x, arrays[f"z.{name}.{number}.weight"].T, arrays[f"z.{name}.{number}.bias"])
            x = torch.nn.functional.elu(x) if number < 2 else x
        return x

    of_states = through("state", states)
    of_states = of_states / of_states.abs().mean(-1, keepdim=True).clamp(min=1e-8)
    return of_states, through("pair", torch.cat([of_states, actions], -1))


def test_gradient_steps_equal_pytorch() -> None:
    """Critics, the actor, whose gradient passes through z_sa, and the encoder after two updates."""
    recipe, memory = recipe_with_features(), random_memory()
    learner = distinct_encoders(recipe)
    assert learner.encoders is not None
    actor, critics = torch_arrays(learner.actor, "actor"), torch_arrays(learner.critics, "critics")
    online, fixed = torch_arrays(learner.encoders.online, "z"), torch_arrays(learner.encoders.fixed, "z")
    optimizers = [torch.optim.Adam(part.values(), lr=recipe.learning_rate) for part in (critics, actor, online)]

    def q(states: Any, actions: Any) -> list[Any]:
        seen = torch.cat([states, *features(fixed, states, actions), actions], -1)
        return [forward(critics, f"critics.{number}", seen)[:, 0] for number in range(4)]

    def update(which: int, loss: Any) -> None:
        optimizers[which].zero_grad()
        loss.backward()
        optimizers[which].step()

    for step in (1, 2):
        randomness = draw_randomness(recipe, memory, jax.random.key(step))
        lane, position = (x[0] for x in randomness.rows[:2])
        rows = memory.rows
        columns = rows.observation, rows.action, rows.next_observation
        states, actions, following = (torch.tensor(np.array(x[lane, position])) for x in columns)
        returns = torch.tensor(np.array(memory.planned[:, lane, position]))
        deltas = [value - returns[number // 2] for number, value in enumerate(q(states, actions))]
        update(0, sum((d.clamp(min=0) ** 2 + 0.25 * (-d).clamp(min=0) ** 2).mean() for d in deltas))
        if step == 2:
            chosen = torch.tanh(forward(actor, "actor", torch.cat([states, features(fixed, states, actions)[0]], -1)))
            update(1, -torch.stack(q(states, chosen)).mean())
        goal = features(online, following, actions)[0].detach()
        update(2, ((features(online, states, actions)[1] - goal) ** 2).mean())
        learner, _ = jax.jit(gradient_step, static_argnums=0)(recipe, memory, learner, randomness)
    assert learner.encoders is not None
    ours = torch_arrays(learner.actor, "actor") | torch_arrays(learner.critics, "critics")
    ours |= torch_arrays(learner.encoders.online, "z")
    for name, theirs in (actor | critics | online).items():
        np.testing.assert_allclose(ours[name].detach(), theirs.detach(), rtol=1e-3, atol=2e-5, err_msg=name)
    for name, array in torch_arrays(learner.encoders.fixed, "z").items():
        np.testing.assert_array_equal(array.detach(), fixed[name].detach())


def test_targets_see_states_with_the_encoder_of_the_move_before() -> None:
    recipe = recipe_with_features(tau=1.0)
    learner = distinct_encoders(recipe)
    moved = move_targets(recipe, learner)
    assert learner.encoders is not None
    assert moved.encoders is not None
    assert eqx.tree_equal(moved.encoders.target, learner.encoders.fixed)
    assert eqx.tree_equal(moved.encoders.fixed, learner.encoders.online)
    assert eqx.tree_equal(moved.encoders.online, learner.encoders.online)


def test_state_values_equal_pytorch() -> None:
    recipe = recipe_with_features()
    learner = distinct_encoders(recipe)
    assert learner.encoders is not None
    rng = np.random.default_rng(0)
    states, noise = rng.normal(size=(7, D)).astype(np.float32), rng.normal(size=(7, A)).astype(np.float32)
    target = torch_arrays(learner.encoders.target, "z")
    actor, critics = torch_arrays(learner.target_actor, "actor"), torch_arrays(learner.target_critics, "critics")
    given = torch.tensor(states)
    z_s = features(target, given, torch.zeros(7, A))[0]
    action = (torch.tanh(forward(actor, "actor", torch.cat([given, z_s], -1))) + torch.tensor(noise)).clamp(-1, 1)
    seen = torch.cat([given, *features(target, given, action), action], -1)
    q = torch.stack([forward(critics, f"critics.{number}", seen)[:, 0] for number in range(4)])
    expected = q.reshape(2, 2, 7).min(dim=1).values.detach()
    np.testing.assert_allclose(state_values(recipe, learner, states, noise), expected, rtol=1e-4, atol=1e-5)


def test_policy_acts_with_the_encoder_that_it_was_trained_with() -> None:
    """On the host, by numpy."""
    recipe = recipe_with_features()
    learner = distinct_encoders(recipe)
    assert learner.encoders is not None
    states = np.random.default_rng(0).normal(size=(7, D)).astype(np.float32)
    z_s = features(torch_arrays(learner.encoders.fixed, "z"), torch.tensor(states), torch.zeros(7, A))[0]
    output = forward(torch_arrays(learner.actor, "actor"), "actor", torch.cat([torch.tensor(states), z_s], -1))
    action = FAMILY.act(recipe, FAMILY.policy_of(learner), states)
    assert isinstance(action, np.ndarray)
    np.testing.assert_allclose(action, torch.tanh(output).detach(), rtol=1e-4, atol=1e-6)


def test_features_are_counted_from_one() -> None:
    assert NoEmbedding().features == 0
    with pytest.raises(BadValue, match="features"):
        StateAction(0)
