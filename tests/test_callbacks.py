"""Callbacks of every kind, and Stable-Baselines3's tools with gemrl's models."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from gemrl import GEM, SAC, Callback, Model
from gemrl.training.loop import Event
from tests.conftest import SMALL

sb3_callbacks = pytest.importorskip("stable_baselines3.common.callbacks")
Monitor = pytest.importorskip("stable_baselines3.common.monitor").Monitor


def pendulum(**fields: Any) -> GEM:
    return GEM("Pendulum-v1", **({"seed": 0} | SMALL | fields))


class Recorder(Callback):
    """Counts its calls; stops the training at the second evaluation."""

    def __init__(self) -> None:
        self.steps, self.evaluations = 0, [0][:0]

    def on_step(self, model: Model, event: Event) -> None:
        self.steps += 1
        assert event.step == model.num_timesteps == self.steps

    def on_evaluation(self, model: Model, event: Event) -> bool:
        self.evaluations.append(event.step)
        assert event.evaluation is not None
        return len(self.evaluations) < 2


def test_gemrl_s_own_callbacks() -> None:
    recorder = Recorder()
    model = pendulum().learn(300, recorder, eval_env="Pendulum-v1", eval_every=60, eval_episodes=1)
    assert (recorder.steps, recorder.evaluations, model.num_timesteps) == (120, [60, 120], 120)


def test_callbacks_may_log_text(capsys: pytest.CaptureFixture[str]) -> None:
    model = pendulum(verbose=1)

    class LogText(sb3_callbacks.BaseCallback):  # type: ignore[name-defined]
        def _on_step(self) -> bool:
            self.logger.record("note", "a word")
            return True

    model.learn(450, LogText(), log_interval=2)
    assert "note a word" in capsys.readouterr().out


def test_a_list_of_all_kinds() -> None:
    recorder, shapes = Recorder(), []
    sb3_callback = sb3_callbacks.StopTrainingOnMaxEpisodes(max_episodes=1)

    def function(local: dict[str, Any], _: dict[str, Any]) -> None:
        shapes.append(local["rewards"].shape)

    model = pendulum().learn(1000, [recorder, function, sb3_callback])
    assert model.num_timesteps == 200  # the first episode's time limit
    assert (recorder.steps, len(shapes), shapes[0]) == (200, 200, (1,))


@pytest.mark.parametrize("kind", ["gemrl", "function", "sb3"])
def test_numpy_booleans_stop_the_training_too(kind: str) -> None:
    def unfinished(model: Any) -> Any:
        return np.float64(model.num_timesteps) < 10

    class Own(Callback):
        def on_step(self, model: Model, event: Event) -> bool:
            return unfinished(model)

    class SB3(sb3_callbacks.BaseCallback):  # type: ignore[name-defined]
        def _on_step(self) -> bool:
            return unfinished(self.model)

    callbacks = {"gemrl": Own(), "function": lambda local, _: unfinished(local["self"]), "sb3": SB3()}
    assert pendulum().learn(50, callbacks[kind]).num_timesteps == 10


class Rollouts(sb3_callbacks.BaseCallback):  # type: ignore[name-defined]
    """Counts rollouts and records a mean."""

    starts = ends = 0

    def _on_rollout_start(self) -> None:
        self.starts += 1

    def _on_rollout_end(self) -> None:
        self.ends += 1

    def _on_step(self) -> bool:
        self.logger.record_mean("calls", self.n_calls)
        return True


def test_a_logger_of_stable_baselines3(tmp_path: Path) -> None:
    """It gets gemrl's metrics and what callbacks record; a rollout is everything between two training rounds."""
    from stable_baselines3.common.logger import configure

    model, rollouts = pendulum(), Rollouts()
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(250, [rollouts, sb3_callbacks.LogEveryNTimesteps(100)], log_interval=None)
    assert (rollouts.starts, rollouts.ends) == (4, 4)  # rounds after 150, 200 and 250 steps, and the rest
    with (tmp_path / "progress.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["time/total_timesteps"] for line in lines] == ["100", "200"]
    assert [float(line["calls"]) for line in lines] == [50.5, 150.5]
    assert (lines[1]["train/n_updates"], model._n_updates, model._episode_num) == ("12", 18, 1)
    assert (model.learning_rate, model.exploration_rate, len(model.ep_info_buffer)) == (3e-4, 0.0, 1)


def test_a_second_call_continues_the_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its speed is measured separately."""
    clock = itertools.count()
    monkeypatch.setattr("gemrl.training.metrics.monotonic", lambda: float(next(clock)))
    model = pendulum().learn(400)
    first = model._metrics.row(400, None)
    model.learn(400, reset_num_timesteps=False)
    second = model._metrics.row(800, None)
    assert (second["time/episodes"], second["train/n_updates"]) == (4, 84)
    assert second["time/fps"] == pytest.approx(400 / second["time/time_elapsed"], rel=0.01)
    model.learn(200)
    assert model._metrics.row(200, None)["time/episodes"] == first["time/episodes"] - 1 == 1


def test_eval_callback_with_reward_threshold(tmp_path: Path) -> None:
    stop = sb3_callbacks.StopTrainingOnRewardThreshold(reward_threshold=-1e9)
    callback = sb3_callbacks.EvalCallback(
        Monitor(gym.make("Pendulum-v1")),
        callback_on_new_best=stop,
        n_eval_episodes=1,
        eval_freq=50,
        log_path=str(tmp_path),
        best_model_save_path=str(tmp_path),
        verbose=0,
    )
    model = pendulum().learn(300, callback)
    assert model.num_timesteps == 50
    assert np.load(tmp_path / "evaluations.npz")["timesteps"].tolist() == [50]
    best = GEM.load(tmp_path / "best_model")
    np.testing.assert_array_equal(best.predict(np.zeros(3))[0], model.predict(np.zeros(3))[0])


def test_checkpoint_callback(tmp_path: Path) -> None:
    pendulum().learn(100, sb3_callbacks.CheckpointCallback(40, str(tmp_path)))
    loaded = GEM.load(tmp_path / "rl_model_80_steps.zip")
    assert loaded.num_timesteps == 80
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        f"rl_model_{n}_steps.{ending}" for n in (40, 80) for ending in ("json", "safetensors")
    ]


def test_evaluate_policy_and_monitor(tmp_path: Path) -> None:
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import DummyVecEnv

    env = Monitor(gym.make("Pendulum-v1"), str(tmp_path / "log"))
    for model in (GEM(env, seed=0, **SMALL), SAC(DummyVecEnv([lambda: env]), seed=0, **SMALL)):
        model.learn(210)
        returns, lengths = evaluate_policy(model, env, n_eval_episodes=2, return_episode_rewards=True)
        assert lengths == [200, 200]
        assert np.max(returns) < 0
    assert (tmp_path / "log.monitor.csv").read_text().count("\n") >= 5


def test_a_tensorboard_folder(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    model = pendulum(tensorboard_log=str(tmp_path))
    callback = sb3_callbacks.EvalCallback(
        Monitor(gym.make("Pendulum-v1")), n_eval_episodes=1, eval_freq=50, verbose=0, warn=False
    )
    model.learn(60, callback)
    (events,) = (tmp_path / "gem_1").iterdir()
    assert b"eval/mean_reward" in events.read_bytes()
    model.learn(10, reset_num_timesteps=False)
    model.learn(10, tb_log_name="other")
    model.learn(10)
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["gem_1", "gem_2", "other_1"]


def test_rl_zoo_trains_gemrl_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zoo = pytest.importorskip("rl_zoo3")
    import rl_zoo3.exp_manager
    import rl_zoo3.train

    algorithms = zoo.ALGOS | {"gem": GEM}
    for module in (zoo, rl_zoo3.train, rl_zoo3.exp_manager):
        monkeypatch.setattr(module, "ALGOS", algorithms)
    config = "Pendulum-v1:\n  n_timesteps: 200\n  policy: MlpPolicy\n  n_envs: 2\n"
    config += "".join(f"  {name}: {list(value) if isinstance(value, tuple) else value}\n" for name, value in SMALL.items())
    (tmp_path / "gem.yml").write_text(config)
    command = ["train", "--algo", "gem", "--env", "Pendulum-v1", "-conf", str(tmp_path / "gem.yml"), "-f", str(tmp_path)]
    monkeypatch.setattr("sys.argv", [*command, "--eval-freq", "100", "--eval-episodes", "1", "--seed", "1", "--verbose", "0"])
    rl_zoo3.train.train()
    folder = tmp_path / "gem" / "Pendulum-v1_1"
    assert GEM.load(folder / "Pendulum-v1.zip").num_timesteps == 200
    assert (folder / "evaluations.npz").exists()


def test_presets_are_found_through_wrappers() -> None:
    from stable_baselines3.common.vec_env import DummyVecEnv

    for env in (gym.make("Swimmer-v5"), gym.make_vec("Swimmer-v5", 2), DummyVecEnv([lambda: gym.make("Swimmer-v5")])):
        assert GEM(env, **SMALL).recipe.settable()["depth"] == 1000
