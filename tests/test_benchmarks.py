"""The reference implementations of the benchmarks must be correct, or the comparisons are meaningless."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import cost, dense, screen
from benchmarks.against_sb3 import Theirs
from benchmarks.episodic_control import SIDE, Walk, sparse_grid, start_value
from benchmarks.q_learning import QLearning
from benchmarks.round import Case, refreshed_rows
from gemrl.algorithms.planning import Twin
from gemrl.algorithms.registry import RECIPES, NearestRecipe, Recipe
from gemrl.analysis.results.collection import collect
from gemrl.analysis.theory.mdps import policy_value, q_star
from gemrl.envs.making import make
from gemrl.envs.vector import as_task
from gemrl.training.evaluation import Evaluator
from gemrl.training.loop import train
from tests.folders import write_run


@pytest.mark.parametrize("depth", [1, 2, 7, 30, 1000])
@pytest.mark.parametrize("ending", [0.0, 0.05, 0.5, 1.0])
def test_dense_method_matches_twin(depth: int, ending: float) -> None:
    rng = np.random.default_rng(depth)
    for count in (1, 2, 30, 61):
        terminated, truncated = rng.random((2, count)) < ending / 2
        reward, q_next = rng.normal(size=count), 10 * rng.normal(size=(2, count))
        data = reward, np.where(terminated, 0.0, 0.99), terminated | truncated, q_next
        np.testing.assert_allclose(dense.twin(*data, depth), Twin(depth)(*data), rtol=1e-9, atol=1e-9)


def test_trajectories_terminate_or_are_truncated() -> None:
    _, discount, last, q_next = dense.trajectories(60, 20)
    np.testing.assert_array_equal(np.flatnonzero(last), [19, 39, 59])
    np.testing.assert_allclose(discount[last], [0, 0.99, 0])
    assert q_next.shape == (2, 60)
    assert np.all(discount[~last] > 0)


def test_dense_values_beyond_the_end_are_minus_infinity() -> None:
    values = dense.rollouts(np.ones(4), np.full(4, 0.5), np.zeros(4), 3)
    np.testing.assert_allclose(values, [[1, 1.5, 1.75], [1, 1.5, 1.75], [1, 1.5, -np.inf], [1, -np.inf, -np.inf]])


def test_sparse_grid_rewards_only_the_far_corner() -> None:
    assert q_star(sparse_grid(0.0))[0, 0].max() == pytest.approx(0.99 ** (2 * SIDE - 3))
    slippery = sparse_grid(0.2)
    np.testing.assert_allclose(slippery.transition[0, 0, 1, [0, 1, SIDE]], [0.1, 0.05, 0.85])  # down, from the first cell
    env, counts = Walk(slippery), np.zeros(SIDE**2)
    for seed in range(2000):
        env.reset(seed=seed)
        counts[env.step(1)[0]] += 1
    np.testing.assert_allclose(counts[[0, 1, SIDE]] / 2000, [0.1, 0.05, 0.85], atol=0.03)


@pytest.mark.parametrize("copy_every", [1, 10])
def test_replayed_q_learning_finds_the_optimal_values(copy_every: int) -> None:
    """On a sparse grid of 9 cells, where every pair is tried and replayed, Q converges to Q* and its greedy policy is optimal."""
    room = sparse_grid(0.0, 3)
    recipe = NearestRecipe(exploration_initial_eps=0.5, exploration_final_eps=0.5)
    agent = QLearning(recipe, 9, 4, 0, 1.0, replays=20, copy_every=copy_every)
    for _ in train(agent, as_task(Walk(room), 0), 1500):
        pass
    np.testing.assert_allclose(agent.q[:8], q_star(room)[0, :8], atol=1e-9)
    down_and_right = np.eye(4)[[1, 1, 1, 1, 1, 1, 3, 3, 0]]
    assert start_value(room, agent) == pytest.approx(policy_value(room, down_and_right[None])[0, 0])


def test_stable_baselines3_models_can_be_evaluated() -> None:
    sb3 = pytest.importorskip("stable_baselines3")
    model = sb3.TD3("MlpPolicy", "Pendulum-v1", policy_kwargs={"net_arch": [8]}, seed=0)
    evaluation = Evaluator(lambda: make("Pendulum-v1"), episodes=2)(Theirs(model))  # type: ignore[arg-type]
    assert evaluation.lengths == (200, 200)
    assert -2000 < evaluation.return_mean < -100


def test_scores_of_screened_runs(tmp_path: Path) -> None:
    """By hand: the mean of the last three evaluations up to the mark, from random play (0) to TD3 (1); not for short runs."""
    low, high = -282.5, 10136.0
    for seed, last in enumerate((1000.0, 4000.0)):
        write_run(tmp_path / "gem" / "HalfCheetah-v5" / str(seed), "gem", "HalfCheetah-v5", seed, [0, 0, last, last + 3000, 9e9])
    write_run(tmp_path / "gem" / "HalfCheetah-v5" / "2", "gem", "HalfCheetah-v5", 2, [5.0])
    write_run(tmp_path / "gem" / "Hopper-v5" / "0", "gem", "Hopper-v5", 0, [3237.0] * 4)
    write_run(tmp_path / "td3" / "Hopper-v5" / "0", "td3", "Hopper-v5", 0, [16.7] * 4)
    found = collect(tmp_path)
    expected = [(5000 / 3 - low) / (high - low), (11000 / 3 - low) / (high - low)]
    ours = screen.scores(found, "gem", ["HalfCheetah-v5", "Hopper-v5"], 4000)
    np.testing.assert_allclose(ours[:, 0], expected)
    np.testing.assert_allclose(ours[:, 1], [1.0, np.nan])
    lines = screen.table(found, 4000).splitlines()
    assert lines[0] == "| method | HalfCheetah-v5 | Hopper-v5 | score |"
    score = (np.mean(expected) + 1) / 2
    assert lines[2].startswith(f"| gem | 2,667 (1,667, 3,667) | 3,237 | {score:.2f} (")
    assert lines[3] == "| td3 |  | 17 |  |"


def test_cost_of_td3_counts_every_product() -> None:
    """By hand: forward passes, gradients of weights, and gradients of inputs except those that nobody needs."""
    recipe = RECIPES["td3"]
    assert isinstance(recipe, Recipe)
    actor, critic = ((17, 400), (400, 300), (300, 6)), ((23, 400), (400, 300), (300, 1))

    def products(layers: tuple[tuple[int, int], ...]) -> int:
        return sum(inputs * outputs for inputs, outputs in layers)

    targets = products(actor) + 2 * products(critic)
    critics = 2 * (2 * products(critic) + products(critic[1:]))
    policy = 2 * products(actor) + products(actor[1:]) + 2 * products(critic)  # through one critic, whose weights stay
    assert cost.gradient_flops(recipe) == 2 * recipe.batch_size * (targets + critics + policy / 2)
    assert cost.refresh_flops(recipe) == 0


def test_cost_of_a_refresh_is_that_of_its_networks() -> None:
    recipe = RECIPES["gem"]
    assert isinstance(recipe, Recipe)
    each = 17 * 400 + 400 * 300 + 300 * 6 + 4 * (23 * 400 + 400 * 300 + 300)
    assert cost.refresh_flops(recipe) == pytest.approx(2 * each, rel=0.01)  # folding LayerNorm into the weights costs a little


def test_mean_number_of_refreshed_rows() -> None:
    """All rows where targets move rarely; else those that random draws reach, counted here by drawing."""
    recipe = RECIPES["gem"]
    assert isinstance(recipe, Recipe)
    recipe = recipe.but(buffer_size=1000, depth=3, gradient_steps=2, batch_size=100)
    rarely = recipe.but(target_update_interval=recipe.train_freq + 1)
    assert cost.mean_refreshed(rarely, 4000) == pytest.approx(np.minimum(np.arange(1, 4001), 1000).mean())
    rng, counted = np.random.default_rng(0), []
    for _ in range(200):
        reached = (rng.integers(1000, size=200)[:, None] + np.arange(3)) % 1000
        counted.append(len(set(reached.ravel())))
    later, sooner = cost.mean_refreshed(recipe, 4000), cost.mean_refreshed(recipe, 1000)
    assert (4000 * later - 1000 * sooner) / 3000 == pytest.approx(np.mean(counted), rel=0.01)


def test_refreshed_rows_of_a_round_in_episodes() -> None:
    """A rollout ends with its episode of 1000 steps."""
    case, rng, counted = Case(rows=10_000, depth=1000, batch=5, gradient_steps=4), np.random.default_rng(0), []
    for _ in range(200):
        reached = np.zeros(10_000, bool)
        for row in rng.integers(10_000, size=20):
            reached[row : row - row % 1000 + 1000] = True
        counted.append(reached.sum())
    assert refreshed_rows(case) == pytest.approx(np.mean(counted), rel=0.05)
