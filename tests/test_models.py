"""The Python interface: learn, predict, save, load, and reproducibility."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import gymnasium as gym
import jax
import numpy as np
import pytest

import gemrl
from gemrl import GEM
from gemrl.agents.device import CACHE_BYTES, keep_compiled
from gemrl.algorithms.registry import RECIPES
from gemrl.core.exceptions import BadValue, DeviceError, Diverged, GemrlError, ModelFileError, UnknownName, UnsupportedSpace
from gemrl.core.files import write_sealed
from gemrl.envs.making import make
from gemrl.training.evaluation import Evaluator
from gemrl.training.loop import Schedule
from gemrl.training.models import MODELS
from gemrl.training.pytrees import named_arrays
from tests import probes
from tests.conftest import SMALL


def pendulum(**fields: Any) -> GEM:
    return GEM("Pendulum-v1", **({"seed": 0} | SMALL | fields))


def equal(a: GEM, b: GEM) -> bool:
    first, second = named_arrays(a.agent.learner), named_arrays(b.agent.learner)
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


@pytest.fixture(scope="module")
def trained() -> GEM:
    return pendulum().learn(300)


def test_the_same_seed_gives_the_same_bits(trained: GEM) -> None:
    assert equal(trained, pendulum().learn(300))


def test_another_seed_changes_every_array(trained: GEM) -> None:
    other = pendulum(seed=1).learn(300)
    ours, theirs = named_arrays(trained.agent.learner), named_arrays(other.agent.learner)
    constant = {name for name in ours if name.endswith(("count", "updates"))}
    assert all(not np.array_equal(ours[name], theirs[name]) for name in ours.keys() - constant)
    first, second = trained.memory.lane(), other.memory.lane()
    assert all(not np.array_equal(first[name][:1], second[name][:1]) for name in ("observation", "action", "reward"))


def test_evaluation_does_not_affect_training(trained: GEM) -> None:
    evaluated = pendulum()
    schedule = Schedule(Evaluator(partial(make, "Pendulum-v1"), episodes=2, seed=0, cap=20), every=70)
    steps = [event.step for event in evaluated.training(300, schedule) if event.evaluation]
    assert steps == [70, 140, 210, 280, 300]
    assert equal(trained, evaluated)


def test_ways_to_pass_policy_and_environment() -> None:
    env = gym.make("Pendulum-v1")
    for model in (
        GEM("MlpPolicy", "Pendulum-v1", **SMALL),
        GEM("Pendulum-v1", **SMALL),
        GEM(env, **SMALL),
        GEM("MlpPolicy", env, **SMALL),
        GEM(env=env, **SMALL),
    ):
        assert model.observation_space.shape == (3,)
    for wrong in (partial(GEM, "LstmPolicy", env), GEM, partial(GEM, "MlpPolicy", 5)):
        with pytest.raises(BadValue):
            wrong()
    with pytest.raises(UnknownName, match="did you mean 'batch_size'"):
        GEM(env, batch_sise=3)
    with pytest.raises(BadValue, match="seed must be"):
        GEM(env, seed=-1)
    with pytest.raises(BadValue, match="device must be"):
        GEM(env, device="tpu9")


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="this machine has a GPU")
def test_a_missing_gpu_is_an_error() -> None:
    with pytest.raises(DeviceError, match="no gpu"):
        pendulum(device="gpu")


def test_presets_depend_on_the_environment() -> None:
    assert GEM("HalfCheetah-v5").recipe.settable()["depth"] == 1000
    assert GEM("HalfCheetah-v5", depth=3).recipe.settable()["depth"] == 3
    assert GEM(probes.Constant()).recipe.settable()["depth"] == 5


def test_predict_takes_one_observation_or_a_batch(trained: GEM) -> None:
    batch = np.stack([trained.observation_space.sample() for _ in range(5)])
    actions, state = trained.predict(batch, state="unchanged", deterministic=True)
    assert state == "unchanged"
    assert actions.shape == (5, 1)
    assert all(trained.action_space.contains(action) for action in actions)
    single, _ = trained.predict(batch[2])
    assert single.shape == (1,)
    np.testing.assert_allclose(single, actions[2], rtol=1e-5)
    for wrong in (np.zeros(4), np.zeros((2, 2, 3))):
        with pytest.raises(BadValue, match=r"must have shape \(3,\)"):
            trained.predict(wrong)
    with pytest.raises(BadValue, match="pass the observation only"):
        trained.predict(gym.make("Pendulum-v1").reset())


def test_learn_continues_or_resets_the_step_count() -> None:
    model = pendulum()
    assert model.learn(120) is model
    assert model.num_timesteps == 120
    model.learn(30, reset_num_timesteps=False)
    assert model.num_timesteps == 150
    model.learn(60)
    assert model.num_timesteps == 60
    assert len(model.memory) == 210
    # Each call began a new episode, so the unfinished ones are cut off where they stopped: after rows 120, 150 and 210.
    np.testing.assert_array_equal(np.flatnonzero(model.memory.lane()["last"][:-1]), [119, 149])
    for wrong in (0, -5, 2.5):
        with pytest.raises(BadValue, match="total_timesteps"):
            model.learn(wrong)  # type: ignore[arg-type]


def test_training_shorter_than_the_warm_up_gives_a_warning() -> None:
    model = pendulum(learning_starts=50)
    with pytest.warns(UserWarning, match="nothing is learned in 50 steps: learning_starts is 50"):
        model.learn(50)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.learn(1, reset_num_timesteps=False)


def test_get_and_set_parameters(trained: GEM) -> None:
    other, states = pendulum(seed=5), np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    assert not np.array_equal(other.predict(states)[0], trained.predict(states)[0])
    parameters = trained.get_parameters()
    other.set_parameters(parameters)
    np.testing.assert_array_equal(other.predict(states)[0], trained.predict(states)[0])
    last = max(name for name in parameters if name.startswith("actor.") and name.endswith("bias"))
    other.set_parameters({last: np.full_like(parameters[last], 100)}, exact_match=False)
    np.testing.assert_array_equal(other.predict(states)[0], np.full((6, 1), 2.0, np.float32))  # the largest action of Pendulum
    with pytest.raises(BadValue, match="parameters do not contain "):
        other.set_parameters({last: parameters[last]})
    with pytest.raises(UnknownName, match=r"unknown parameter 'actor\.bias'"):
        other.set_parameters(parameters | {"actor.bias": parameters[last]})
    with pytest.raises(ModelFileError, match=last):
        other.set_parameters(parameters | {last: np.zeros(7)})


def test_load_can_change_fields(trained: GEM, tmp_path: Path) -> None:
    trained.save(tmp_path / "model")
    for loaded in (GEM.load(tmp_path / "model", learning_rate=1e-5), gemrl.load(tmp_path / "model", learning_rate=1e-5)):
        assert loaded.recipe == trained.recipe.but(learning_rate=1e-5)
    assert GEM.load(tmp_path / "model", force_reset=False).recipe == trained.recipe  # as in Stable-Baselines3; it has no effect
    with pytest.raises(UnknownName, match="did you mean 'learning_rate'"):
        GEM.load(tmp_path / "model", learnin_rate=1e-5)
    with pytest.raises(UnknownName, match="unknown field 'custom_objects': here fields are arguments of their own"):
        GEM.load(tmp_path / "model", custom_objects={})
    with pytest.raises(ModelFileError, match="does not match its recipe"):
        GEM.load(tmp_path / "model", net_arch=(7,))


def test_a_callback_can_stop_the_training() -> None:
    model, calls = pendulum(), []

    def callback(local: dict[str, Any], _: dict[str, Any]) -> bool:
        calls.append(local["self"].num_timesteps)
        return len(calls) < 40

    model.learn(300, callback)
    assert calls == list(range(1, 41))
    assert model.num_timesteps == 40


def test_the_memory_can_be_inspected(trained: GEM) -> None:
    memory = trained.memory
    assert (len(memory), memory.n_trajectories) == (300, 2)
    assert memory.planned_returns().shape == (2, 300)
    planner = trained.recipe.settable()["planner"]
    lengths = memory.chosen_lengths(planner)
    assert lengths.min() >= 1
    assert lengths.max() <= planner.rollout_cap


def test_save_and_load(trained: GEM, tmp_path: Path) -> None:
    trained.save(tmp_path / "deep" / "model")
    assert sorted(file.name for file in (tmp_path / "deep").iterdir()) == ["model.json", "model.safetensors"]
    loaded = GEM.load(tmp_path / "deep" / "model.safetensors")
    assert equal(trained, loaded)
    assert (loaded.recipe, loaded.seed, loaded.num_timesteps) == (trained.recipe, 0, 300)
    assert loaded.action_space == trained.action_space
    batch = np.stack([trained.observation_space.sample() for _ in range(5)])
    np.testing.assert_array_equal(loaded.predict(batch)[0], trained.predict(batch)[0])
    with pytest.raises(GemrlError, match="has no environment"):
        loaded.learn(10)
    again = gemrl.load(tmp_path / "deep" / "model", "Pendulum-v1")
    assert isinstance(again, GEM)
    again.learn(100, reset_num_timesteps=False)
    assert again.num_timesteps == 400
    with pytest.raises(BadValue, match="observation_space"):
        GEM.load(tmp_path / "deep" / "model", "InvertedPendulum-v5")


def test_saving_twice_writes_the_same_bytes(trained: GEM, tmp_path: Path) -> None:
    for name in ("a", "b"):
        trained.save(tmp_path / name)
    for ending in (".safetensors", ".json"):
        assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()


def altered(header: dict[str, Any], how: str) -> dict[str, Any]:
    """The header of a model file with one error in it."""
    match how:
        case "other format":
            return header | {"format": 99}
        case "no recipe":
            return {key: value for key, value in header.items() if key != "recipe"}
        case "evil recipe":
            return header | {"recipe": header["recipe"] | {"targets": "__import__('os')"}}
        case "other recipe":
            return header | {"recipe": header["recipe"] | {"net_arch": [17, 16]}}
        case "other algorithm":
            return header | {"algo": "td3"}
        case "bad space":
            return header | {"action_space": {"shape": [-1]}}
    raise AssertionError(how)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("other format", "has format 99"),
        ("no recipe", "is damaged: recipe is missing"),
        ("evil recipe", "unknown part '__import__'"),
        ("other recipe", "does not match its recipe"),
        ("other algorithm", "contains a 'td3' model, not 'gem'"),
        ("bad space", "a space in the model's JSON is damaged"),
    ],
)
def test_an_altered_model_is_rejected_even_with_a_valid_seal(trained: GEM, tmp_path: Path, how: str, message: str) -> None:
    trained.save(tmp_path / "model")
    header = json.loads((tmp_path / "model.json").read_text())
    changed = altered(header, how)
    (tmp_path / "model.json").write_text(json.dumps(changed))
    with pytest.raises(ModelFileError, match=r"checksum does not match|has format 99"):
        GEM.load(tmp_path / "model")
    changed.pop("seal")
    write_sealed(tmp_path / "model.json", changed)
    with pytest.raises((ModelFileError, BadValue), match=message):
        GEM.load(tmp_path / "model")


@pytest.mark.parametrize("how", ["no json", "not json", "no arrays", "truncated", "pickle"])
def test_a_damaged_model_is_rejected(trained: GEM, tmp_path: Path, how: str) -> None:
    trained.save(tmp_path / "model")
    header, arrays = tmp_path / "model.json", tmp_path / "model.safetensors"
    match how:
        case "no json":
            header.unlink()
        case "not json":
            header.write_text("{")
        case "no arrays":
            arrays.unlink()
        case "truncated":
            arrays.write_bytes(arrays.read_bytes()[:-100])
        case "pickle":
            arrays.write_bytes(b"\x80\x04cos\nsystem\n(S'false'\ntR.")
    with pytest.raises(ModelFileError):
        GEM.load(tmp_path / "model")


def test_stable_baselines3_evaluates_gemrl_models(trained: GEM) -> None:
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    mean, std = evaluation.evaluate_policy(trained, gym.make("Pendulum-v1"), n_eval_episodes=3, warn=False)
    assert -2000 < mean < 0
    assert std >= 0


def test_the_package_exports_every_public_name() -> None:
    assert set(gemrl.__all__) <= set(dir(gemrl))
    for name in gemrl.__all__:
        assert getattr(gemrl, name) is not None
    with pytest.raises(AttributeError):
        _ = gemrl.no_such_name


def test_a_second_learn_keeps_updating_the_target_networks() -> None:
    model = pendulum().learn(300)
    before = named_arrays(model.agent.learner)
    model.learn(300)
    after = named_arrays(model.agent.learner)
    assert all(not np.array_equal(before[name], after[name]) for name in before if name.startswith("target"))


def test_a_model_that_only_predicts_allocates_no_memory(trained: GEM, tmp_path: Path) -> None:
    trained.save(tmp_path / "model")
    loaded = GEM.load(tmp_path / "model")
    loaded.predict(np.zeros(3))
    assert loaded.agent._ring is None  # type: ignore[attr-defined]


def test_spaces_must_match(trained: GEM, tmp_path: Path) -> None:
    trained.save(tmp_path / "model")
    model = GEM.load(tmp_path / "model")
    other = gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), np.float32(-1), np.float32(1))
    with pytest.raises(BadValue, match="action_space"):
        model.set_env(other)
    with pytest.raises(BadValue, match="action_space"):
        GEM.load(tmp_path / "model", other)


def test_a_memory_needs_its_number_of_environments(tmp_path: Path) -> None:
    GEM("Pendulum-v1", n_envs=2, seed=0, **SMALL).learn(20).save(tmp_path / "model", memory=True)
    assert GEM.load(tmp_path / "model").n_envs == 2
    with pytest.raises(BadValue, match="memory is for 2 environments, not 1"):
        GEM.load(tmp_path / "model", gym.make("Pendulum-v1"))


def test_load_with_the_wrong_class_names_the_algorithm(tmp_path: Path) -> None:
    GEM("FrozenLake-v1", seed=0).save(tmp_path / "model")
    for algo in ("td3", "dqn"):
        with pytest.raises(ModelFileError, match=f"contains a 'gem-tabular' model, not '{algo}'"):
            MODELS[algo].load(tmp_path / "model")


def test_a_recipe_of_another_family_is_rejected() -> None:
    with pytest.raises(BadValue, match="a DiscreteRecipe cannot be used for gem, the algorithm that fits"):
        GEM.from_recipe(RECIPES["gem-discrete"], gym.make("Pendulum-v1"))
    with pytest.raises(UnsupportedSpace, match="td3 needs a Box of observations and continuous actions"):
        MODELS["td3"].from_recipe(RECIPES["td3"], gym.make("CartPole-v1"))
    model = GEM.from_recipe(RECIPES["gem-discrete"], "CartPole-v1", n_envs=2)  # an id works too
    assert (model.algo, model.agent.lanes) == ("gem-discrete", 2)


@pytest.mark.parametrize(
    ("name", "hint"), [("policy_kwargs", "net_arch"), ("n_steps", "depth"), ("exploration_fraction", "steps")]
)
def test_stable_baselines3_keywords_get_a_hint(name: str, hint: str) -> None:
    with pytest.raises(UnknownName, match=f"unknown field '{name}': here it is .*{hint}"):
        pendulum(**{name: 1})


def test_fields_of_the_recipe_are_attributes() -> None:
    model = pendulum(batch_size=17, depth=3)
    read = attrgetter("batch_size", "depth", "gamma")
    assert read(model) == (17, 3, 0.99)
    assert not hasattr(model, "replay_buffer")
    with pytest.raises(AttributeError, match="'GEM' object has no attribute 'batch_sise'"):
        attrgetter("batch_sise")(model)
    for name in ("batch_size", "gamma"):
        with pytest.raises(AttributeError, match=rf"{name} cannot be changed in a model; load\(path, {name}=...\)"):
            setattr(model, name, 1)
    assert read(model) == (17, 3, 0.99)
    assert not hasattr(GEM.__new__(GEM), "batch_size")  # nothing is set yet


def test_invalid_arguments_of_learn() -> None:
    model = pendulum()
    for arguments in (
        {"callback": 5},
        {"callback": gemrl.Callback},
        {"eval_env": gym.make("Pendulum-v1")},
        {"eval_env": "Pendulum-v1", "eval_every": 0},
    ):
        with pytest.raises(BadValue):
            model.learn(10, **arguments)
    for seed in (2**32, 1.5, "7"):
        with pytest.raises(BadValue, match="seed must be"):
            pendulum(seed=seed)
    assert pendulum(seed=np.int64(3)).seed == 3


def test_rejected_arguments_change_nothing(tmp_path: Path) -> None:
    model = pendulum(learning_starts=1000, tensorboard_log=str(tmp_path))
    model.num_timesteps = 30
    for arguments in ({"callback": object}, {"eval_env": "Pendulum-v1", "eval_every": 0}, {"eval_env": "CartPole-v1"}):
        with pytest.raises(GemrlError):
            model.learn(10, **arguments)
        assert model.num_timesteps == 30
    assert not list(tmp_path.iterdir())


def test_the_progress_bar_ends_with_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the traceback, as in an interactive session, keeps the loop's frame alive."""
    ended: list[str] = []
    monkeypatch.setattr("gemrl.cli.console.Progress.stop", lambda self: ended.append("bar"))

    def fails(step: int, *_: Any) -> bool:
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more") as kept:
        pendulum(learning_starts=1000).learn(20, callback=fails, progress_bar=True)
    assert ended == ["bar"]
    assert kept.value.__traceback__


def test_verbose_prints_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    model = pendulum(verbose=1).learn(450, log_interval=1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "rollout/ep_rew_mean" in lines[1]
    assert "train/critic_loss" in lines[1]
    assert model.num_timesteps == 450


def test_divergence_is_an_error() -> None:
    with pytest.raises(Diverged, match=r"training diverged by step \d+: loss is (nan|inf); try a smaller learning_rate"):
        MODELS["dqn"]("CartPole-v1", seed=0, learning_rate=1e38, learning_starts=50, train_freq=10).learn(400)


def test_numpy_numbers_can_be_saved(tmp_path: Path) -> None:
    n = np.arange(9)
    model = GEM("Pendulum-v1", seed=n[2], batch_size=n[4], depth=n[3], net_arch=(n[8], 8), gamma=np.float64(0.9))
    model.save(tmp_path / "model")
    loaded = GEM.load(tmp_path / "model")
    assert (loaded.seed, loaded.recipe) == (2, GEM("Pendulum-v1", batch_size=4, depth=3, net_arch=(8, 8), gamma=0.9).recipe)


def test_the_evaluation_environment_must_match_the_model() -> None:
    model = GEM("Pendulum-v1", seed=0, **SMALL)
    with pytest.raises(BadValue, match="observation_space has shape"):
        model.learn(10, eval_env="CartPole-v1")
    env = gym.make("Pendulum-v1")
    with pytest.raises(BadValue, match="must return a new one each time"):
        model.learn(10, eval_env=lambda: env)


def test_a_loaded_model_continues_its_episodes(tmp_path: Path) -> None:
    GEM("Pendulum-v1", seed=0, **SMALL).learn(450).save(tmp_path / "model", memory=True)
    early, late = GEM.load(tmp_path / "model", env="Pendulum-v1"), GEM.load(tmp_path / "model")
    late.set_env("Pendulum-v1")
    for model in (early, late):
        model.learn(60, reset_num_timesteps=False)
    np.testing.assert_array_equal(*(model.memory.lane()["observation"] for model in (early, late)))


def test_compiled_programs_are_stored_in_the_user_s_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config: Any = jax.config
    before = config.jax_compilation_cache_dir
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    try:
        keep_compiled.__wrapped__()
        assert Path(config.jax_compilation_cache_dir).parent == tmp_path / "gemrl"
        assert config.jax_compilation_cache_max_size == CACHE_BYTES
    finally:
        config.update("jax_compilation_cache_dir", before)
        config.update("jax_compilation_cache_max_size", -1)


def test_the_cache_of_compiled_programs_stays_below_its_limit(tmp_path: Path) -> None:
    """In a process of its own, with a limit that ten programs exceed."""
    code = """
import jax, jax.numpy as jnp, numpy as np
from gemrl.agents import device
device.CACHE_BYTES = 12_000
device.keep_compiled()
for size in range(1, 11):
    jax.jit(lambda x: jnp.sin(x @ x.T).sum() * size)(np.ones((size, size), np.float32))
"""
    own = {"XDG_CACHE_HOME": str(tmp_path), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    environment = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"} | own
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    programs = [path for path in tmp_path.rglob("*-cache") if path.is_file()]
    assert 0 < sum(path.stat().st_size for path in programs) <= 12_000
    assert 0 < len(programs) < 10
