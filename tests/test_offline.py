"""Training on recorded data alone: vem and td3-bc by their definitions, on probes with known values, and as runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gemrl
from gemrl.agents.continuous import update_memory
from gemrl.agents.learner import init_learner
from gemrl.algorithms.embeddings import StateAction
from gemrl.algorithms.imitation import AdvantageWeighted, BehaviorCloning, NoImitation, PolicyBatch
from gemrl.algorithms.losses import Asymmetric, Expectile
from gemrl.algorithms.planning import Stopping
from gemrl.algorithms.registry import RECIPES, difference
from gemrl.algorithms.targets import Fresh
from gemrl.analysis.labels import step_label
from gemrl.analysis.results.collection import collect
from gemrl.cli.main import main
from gemrl.core.exceptions import BadValue
from gemrl.experiments.run_folder import describe
from gemrl.experiments.run_logs import read_evaluations
from gemrl.training.model import Model
from gemrl.training.models import model_class
from tests import probes
from tests.compiled import draw_randomness, fresh_returns
from tests.conftest import SMALL_WORDS
from tests.recordings import joined, record, save
from tests.test_continuous import LAYOUT, forward, random_memory, small, step_once, torch_arrays
from tests.torture import differences

torch = pytest.importorskip("torch")


def test_fields_of_both() -> None:
    """Fujimoto and Gu (2021), appendix: lr 3e-4, batch 256, two layers of 256, alpha 2.5, and otherwise TD3."""
    bc: Any = RECIPES["td3-bc"]
    assert (bc.learning_rate, bc.batch_size, bc.tau, bc.policy_delay, bc.gamma) == (3e-4, 256, 0.005, 2, 0.99)
    assert (bc.settable()["net_arch"], bc.imitation, bc.train_freq == bc.gradient_steps) == (
        (256, 256),
        BehaviorCloning(2.5),
        True,
    )
    rounds = {"train_freq", "gradient_steps", "learning_starts"}
    assert difference(RECIPES["td3"], bc).keys() == rounds | {
        "learning_rate",
        "batch_size",
        "net_arch",
        "imitation",
        "normalize_observations",
    }
    changed = difference(RECIPES["gem"], RECIPES["vem"]).keys()
    assert changed == {"learning_starts", "policy_average", "n_critics", "planner", "loss", "imitation", "state_values"}
    assert RECIPES["vem"].for_environment("Hopper-v5", LAYOUT) == RECIPES["vem"], "plans along whole episodes"


def test_expectile_regression() -> None:
    """Its minimum over constants is the expectile: where the weighted errors above and below are equal."""
    rng = np.random.default_rng(0)
    returns, grid = rng.normal(size=200), np.linspace(-2, 2, 4001)
    for expectile in (0.2, 0.5, 0.9):
        best = grid[Expectile(expectile)(grid[:, None] - returns).mean(axis=1).argmin()]
        above, below = (returns - best).clip(min=0).sum(), (best - returns).clip(min=0).sum()
        assert expectile * above == pytest.approx((1 - expectile) * below, rel=0.01)
        delta = rng.normal(size=9)
        np.testing.assert_allclose(
            Expectile(expectile)(delta), (1 - expectile) * Asymmetric(expectile / (1 - expectile))(delta), rtol=1e-6
        )


def test_losses_of_policies() -> None:
    value, distance, advantage = np.array([3.0, -1.0, 4.0]), np.array([0.1, 0.4, 0.7]), np.array([2.0, 0.0, -4.0])
    batch = PolicyBatch(value, value, distance, advantage)
    assert NoImitation()(batch) == -2.0
    assert BehaviorCloning(2.5)(batch) == pytest.approx(0.4 - 2.5 / (8 / 3) * 2.0)
    weights = np.exp(1.5 * advantage / np.std(advantage)).clip(max=2.5)
    assert weights.max() == 2.5
    assert AdvantageWeighted(1.5, weight_cap=2.5)(batch) == pytest.approx((weights * distance).sum() / weights.sum())
    for plain in (BehaviorCloning(0.0), AdvantageWeighted(0.0)):
        assert plain(batch) == pytest.approx(0.4)


@pytest.mark.parametrize("name", ["td3-bc", "vem"])
def test_gradient_steps_equal_pytorch(name: str) -> None:
    """Two updates, of which the second one updates the policy, by the equations of the papers."""
    recipe = small(name)
    memory, learner = random_memory(pairs=recipe.n_pairs), init_learner(recipe, LAYOUT, seed=3)
    actor, critics = torch_arrays(learner.actor, "actor"), torch_arrays(learner.critics, "critics")
    optimizers = [torch.optim.Adam(arrays.values(), lr=recipe.learning_rate) for arrays in (critics, actor)]

    def update(optimizer: Any, loss: Any) -> None:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    for step in (1, 2):
        drawn = draw_randomness(recipe, memory, jax.random.key(step))
        lane, position, _ = drawn.rows
        state, action = (torch.tensor(np.array(x[lane, position][0])) for x in (memory.rows.observation, memory.rows.action))
        if name == "vem":
            returns = torch.tensor(np.array(memory.planned[:, lane, position]))[:, 0]
            values = [forward(critics, f"critics.{i}", state)[:, 0] for i in range(2)]
            loss = sum((abs(0.2 - (v > r).float()) * (r - v) ** 2).mean() for v, r in zip(values, returns, strict=True))
        else:
            returns = torch.tensor(np.array(fresh_returns(recipe, learner, memory, drawn)))[0, 0]
            q = [forward(critics, f"critics.{i}", torch.cat([state, action], -1))[:, 0] for i in range(2)]
            loss = sum(((x - returns) ** 2).mean() for x in q)
        update(optimizers[0], loss)
        if step == 2:
            chosen = torch.tanh(forward(actor, "actor", state))
            if name == "vem":
                v = torch.stack([forward(critics, f"critics.{i}", state)[:, 0] for i in range(2)]).mean(0).detach()
                advantage = returns.min(dim=0).values - v
                weight = torch.exp(3.0 * advantage / advantage.std(correction=0)).clamp(max=20.0)
                policy_loss = (weight * ((chosen - action) ** 2).mean(-1)).sum() / weight.sum()
            else:
                first = forward(critics, "critics.0", torch.cat([state, chosen], -1))[:, 0]
                policy_loss = -2.5 / first.detach().abs().mean() * first.mean() + torch.nn.functional.mse_loss(chosen, action)
            update(optimizers[1], policy_loss)
        learner, losses = step_once(recipe, memory, learner, drawn)
        np.testing.assert_allclose(losses[0], loss.detach(), rtol=1e-4)
    np.testing.assert_allclose(losses[1], policy_loss.detach(), rtol=1e-4, atol=1e-5)
    ours = torch_arrays(learner.actor, "actor") | torch_arrays(learner.critics, "critics")
    for array_name, theirs in (actor | critics).items():
        np.testing.assert_allclose(ours[array_name].detach(), theirs.detach(), rtol=1e-3, atol=2e-5, err_msg=array_name)


def test_the_returns_of_vem() -> None:
    """R[t] = r[t] + gamma max(R[t+1], V'(s[t+1])), backwards along each trajectory, for each of two target networks."""
    recipe = small("vem", tau=1.0)
    learner, memory = init_learner(recipe, LAYOUT, seed=2), random_memory(count=40)
    learner, memory = jax.jit(update_memory, static_argnums=(0, 3))(recipe, learner, memory, True, jax.random.key(0))
    rows = memory.lane(0)
    arrays = torch_arrays(learner.critics, "critics")  # the targets are copies, since tau is 1
    following = torch.tensor(rows["next_observation"])
    for pair in range(2):
        v = forward(arrays, f"critics.{pair}", following)[:, 0].detach().numpy()
        expected = np.zeros(40)
        for t in reversed(range(40)):
            after = v[t] if rows["last"][t] or t == 39 else max(expected[t + 1], v[t])
            expected[t] = rows["reward"][t] + rows["discount"][t] * after
        np.testing.assert_allclose(rows["planned"][pair], expected, rtol=1e-4, atol=1e-4)
    assert (memory.chosen_lengths(recipe.planner) > 2).any()


def test_values_of_states_ignore_actions() -> None:
    learner = init_learner(small("vem"), LAYOUT, seed=1)
    states, actions = jnp.ones((4, 3)), jax.random.normal(jax.random.key(0), (4, 2))
    found = learner.critics(states, actions)
    np.testing.assert_array_equal(found, learner.critics(states, -actions))
    assert len({float(x) for x in found[:, 0]}) == 2, "twins differ"
    np.testing.assert_allclose(learner.critics.fast().values(states, actions), found, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"imitation": NoImitation()}, "set imitation=AdvantageWeighted"),
        ({"planner": Stopping()}, "compares values of actions"),
        ({"embedding": StateAction(4)}, "StateAction needs values of actions"),
        ({"separate_batches": True}, "set separate_batches=False"),
        ({"targets": Fresh(), "n_pairs": 1, "joint_critics": True}, "set imitation=NoImitation"),
    ],
)
def test_fields_that_do_not_go_together(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadValue, match=message):
        RECIPES["vem"].but(**fields)


class Counted(gym.Wrapper):
    """Counts its steps."""

    steps = 0

    def step(self, action: Any) -> Any:
        self.steps += 1
        return super().step(action)


FAST: dict[str, Any] = {"net_arch": (32,), "learning_rate": 3e-3, "gamma": 0.9, "batch_size": 64, "buffer_size": 2000}


def offline(name: str, env: gym.Env, steps: int, episodes: int = 150, **fields: Any) -> tuple[Model, Counted]:
    """A model that trained on episodes of random actions in a probe, and the environment, which it should not step."""
    counted = Counted(env)
    model = model_class(name)(counted, seed=1, **FAST | fields)
    model.remember(record(env, episodes))
    return model.learn_offline(steps), counted


@pytest.mark.parametrize("name", ["td3-bc", "vem"])
def test_the_best_actions_in_the_data(name: str) -> None:
    """Rewards are -(a - 1)^2 for random actions in [-2, 2], whose mean is 0."""
    fields = {"tau": 0.05, "net_arch": (32, 32), "learning_rate": 1e-3} if name == "td3-bc" else {"beta": 5.0}
    model, env = offline(name, probes.ActionDependent(), 1000, **fields)
    assert (env.steps, model.num_timesteps) == (0, 1000)
    action, _ = model.predict(np.zeros(1), deterministic=True)
    np.testing.assert_allclose(action, [1.0], atol=0.3)


def test_the_values_of_vem_on_probes() -> None:
    """A terminated episode has no value after its end, a truncated one has."""
    model, _ = offline("vem", probes.Terminated(), 1000)
    values = model.q_values(np.array([[1.0], [0.0], [-1.0]]), np.zeros((3, 1)))
    np.testing.assert_allclose(values, [1 + 0.9 + 0.81, 1.9, 1.0], atol=0.1)
    model, _ = offline("vem", probes.Truncated(), 3000, tau=1.0, gradient_steps=100)
    np.testing.assert_allclose(model.q_values(np.zeros(1)), 10.0, rtol=0.05)


def test_learn_offline() -> None:
    """It counts gradient steps, in whole rounds, tells callbacks and evaluates; the data stays what it was."""
    seen: list[tuple[int, bool]] = []

    class Watch(gemrl.Callback):
        def on_step(self, model: Any, event: Any) -> bool:
            seen.append((event.step, event.evaluation is not None))
            return len(seen) < 7

    model = model_class("gem")("Pendulum-v1", seed=0, **SMALL_FIELDS | {"target_update_interval": 100})
    with pytest.raises(BadValue, match="call remember before learn_offline"):
        model.learn_offline(10)
    model.remember(record(gym.make("Pendulum-v1"), 3, limit=40))
    before = {name: column.copy() for name, column in model.memory.lane().items() if name in ("reward", "action", "last")}
    model.learn_offline(30, Watch(), eval_env="Pendulum-v1", eval_every=12, eval_episodes=1)
    assert seen == [(6, False), (12, True), (18, False), (24, True), (30, True)]
    assert model.num_timesteps == model._n_updates == 30
    assert all(np.array_equal(model.memory.lane()[name], column) for name, column in before.items())
    # Rounds are those that would be due at steps 150, 200, ..., 350; targets moved at 150, 200 and 300.
    assert model.agent.snapshot().part("agent").facts["updated"] == 300
    model.learn_offline(100, Watch(), reset_num_timesteps=False)
    assert model.num_timesteps == 42, "the callback stopped it"
    model.learn(150)  # and on in the environment
    assert len(model.memory) == 120 + 150


SMALL_FIELDS: dict[str, Any] = {"net_arch": (16,), "buffer_size": 2000, "learning_starts": 100, "train_freq": 50}
SMALL_FIELDS |= {"gradient_steps": 6, "batch_size": 16}


@pytest.mark.parametrize(("algo", "env"), [("sac", "Pendulum-v1"), ("dqn", "CartPole-v1")])
def test_other_agents_train_on_data_alone(algo: str, env: str) -> None:
    model = model_class(algo)(env, seed=0, **SMALL_FIELDS)
    model.remember(record(gym.make(env), 5, limit=30))
    before = model.get_parameters()
    after = model.learn_offline(12).get_parameters()
    changed = [name for name in before if name.endswith("weight") and not np.array_equal(before[name], after[name])]
    assert changed
    assert all(np.isfinite(after[name]).all() for name in changed)


def test_an_agent_that_cannot() -> None:
    for algo in ("mfec", "gem-tabular"):
        with pytest.raises(BadValue, match="cannot train on recorded data alone: it learns each episode once"):
            model_class(algo)("FrozenLake-v1", seed=0).learn_offline(10)


def data_file(folder: Path, env: str = "Pendulum-v1") -> Path:
    save(folder / "data.npz", joined(record(gym.make(env), 3, limit=40)))
    return folder / "data.npz"


RUN = ["--offline", "--eval-every", "60", "--eval-episodes", "1", "--checkpoint-every", "60"]
WORDS = [word for word in SMALL_WORDS if not word.startswith("target_update")]


@pytest.mark.parametrize("algo", ["vem", "td3-bc"])
def test_a_resumed_run(tmp_path: Path, algo: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It has the bytes of an uninterrupted one, and does not read the data again; run.json and reports say what it is."""
    data = data_file(tmp_path)
    arguments = ["train", "Pendulum-v1", "--algo", algo, *RUN, "--data", str(data), *WORDS]
    assert main([*arguments, "--steps", "180", "--run", str(tmp_path / "one")]) == 0
    shown = capsys.readouterr().out
    assert f"{algo} on Pendulum-v1, seed 0, 180 gradient steps offline" in shown
    assert f"the memory is 120 rows of 3 trajectories from {data}" in shown
    assert main([*arguments, "--steps", "60", "--run", str(tmp_path / "two")]) == 0
    data.unlink()
    assert main(["resume", str(tmp_path / "two"), "--steps", "180"]) == 0
    assert "resumed at gradient step 60" in capsys.readouterr().out
    assert differences(tmp_path / "one", tmp_path / "two") == []
    assert read_evaluations(tmp_path / "one")["step"].tolist() == [60, 120, 180]
    description = describe(tmp_path / "one")
    assert (description["offline"], description["data"][0]["rows"], description["steps"]) == (True, 120, 180)
    (run,) = collect(tmp_path / "one").runs
    assert (run.env, step_label(run.env), run.learning_starts) == ("Pendulum-v1 (offline)", "gradient steps", 0)
    assert main(["memory", str(tmp_path / "one")]) == (0 if algo == "vem" else 2)


def test_the_memory_has_the_size_of_the_data(tmp_path: Path) -> None:
    """Unless buffer_size is set, which must then be large enough."""
    arguments = ["train", "CartPole-v1", "--algo", "dqn", *RUN, "--steps", "6", "--data", str(data_file(tmp_path, "CartPole-v1"))]
    words = ["--set", "net_arch=(16,)", "gradient_steps=6", "batch_size=16"]
    assert main([*arguments, "--run", str(tmp_path / "run"), *words]) == 0
    description = describe(tmp_path / "run")
    (entry,) = description["data"]
    assert description["recipe"]["buffer_size"] == entry["rows"] + entry["trajectories"]
    assert main([*arguments, "--run", str(tmp_path / "small"), *words, "buffer_size=10"]) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["Pendulum-v1"], "--offline trains on recorded trajectories alone: name them with --data PATH"),
        (["Pendulum-v1", "--data", "x.npz", "--n-envs", "2"], "--offline steps no environments: leave out --n-envs"),
        (["Pendulum-v1", "--data", "x.npz", "--keep-data"], "--offline never overwrites its data: leave out --keep-data"),
        (["CartPole-v1", "--data", "x.npz", "--algo", "mfec"], "mfec cannot train on recorded data alone: it learns each"),
        (["FrozenLake-v1", "--data", "x.npz"], "gem-tabular cannot train on recorded data alone"),
        (
            ["Pendulum-v1", "--data", "x.npz", "--set", "hindsight=2"],
            "it takes its goals from episodes that it plays: set hindsight=0",
        ),
        (["Pendulum-v1", "--data", "x.npz", "--algo", "vem", "--steps", "0"], "--steps"),
    ],
)
def test_errors(words: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    try:
        code = main(["train", *words, "--offline", "--run", str(tmp_path / "run")])
    except SystemExit as error:  # of argparse
        code = int(str(error.code))
    assert code == 2
    said = capsys.readouterr().err
    assert message in said
    assert not (tmp_path / "run").exists()


def test_statistics_are_those_of_the_data() -> None:
    """td3-bc normalizes states by the mean and variance of the data, which nothing changes later."""
    episodes = record(gym.make("Pendulum-v1"), 5, limit=40)
    model = model_class("td3-bc")("Pendulum-v1", seed=0, **SMALL_FIELDS)
    model.remember(episodes)
    states = np.concatenate([episode["observations"][:-1] for episode in episodes])
    for _ in range(2):
        normalizer = model.agent.learner.normalizer
        np.testing.assert_allclose(normalizer.mean, states.mean(axis=0), atol=1e-5)
        np.testing.assert_allclose(normalizer.variance, states.var(axis=0), rtol=1e-4)
        model.learn_offline(6)


def test_other_recipes_have_the_gradients_that_they_had() -> None:
    """Without imitation, the policy's loss is exactly the negative mean of its values."""
    recipe = small("gem")
    learner, memory = init_learner(recipe, LAYOUT, 0), random_memory()
    cloned = recipe.but(imitation=BehaviorCloning(0.0))
    drawn = draw_randomness(recipe, memory, jax.random.key(0))
    due = eqx.tree_at(lambda x: x.updates, learner, jnp.array(1, jnp.int32))
    plain, other = (step_once(one, memory, due, drawn) for one in (recipe, cloned))
    states, actions = (x[drawn.rows.lane, drawn.rows.position][0] for x in (memory.rows.observation, memory.rows.action))
    values = plain[0].critics(states, learner.actor(states)).mean(axis=0)
    np.testing.assert_allclose(plain[1][1], -values.mean(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(other[1][1], ((learner.actor(states) - actions) ** 2).mean(), rtol=1e-4, atol=1e-5)
