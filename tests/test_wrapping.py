"""Wrappers and reset options by name: from the command line to evaluate and resume, and nothing else is called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import gemrl
from gemrl.cli.main import main
from gemrl.core.exceptions import BadValue, CannotMake, UnknownName
from gemrl.envs.arguments import parse_env_args, with_wrappers
from gemrl.envs.making import make
from gemrl.envs.vector import make_like
from gemrl.experiments.new_run import new_run
from gemrl.experiments.run_folder import describe
from gemrl.experiments.run_interface import TrainOptions
from tests import probes

MODULE = """
import gymnasium as gym


def make(env):
    return gym.wrappers.TransformReward(env, lambda reward: 10 * reward)


def forget(env):
    return 3


def fails(env):
    raise ValueError("no such door")


class Other:
    pass
"""

QUICK = ["--algo", "q-learning", "--eval-every", "300", "--eval-episodes", "2", "--set", "exploration_steps=100"]
FLATTEN = "gymnasium.wrappers:FlattenObservation"


@pytest.fixture(autouse=True)
def my_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_wrappers.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_wrappers_are_applied_in_order() -> None:
    env = make("FrozenLake-v1", is_slippery=False, wrap=["my_wrappers:make", FLATTEN])
    assert isinstance(env, gym.wrappers.FlattenObservation)
    assert isinstance(env.env, gym.wrappers.TransformReward)
    assert env.observation_space.shape == (16,)


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("FlattenObservation", BadValue, "a wrapper is named as module:name, .* not 'FlattenObservation'"),
        ("gymnasium.wrappers:Flatten Observation", BadValue, "a wrapper is named as module:name"),
        ("gymnasium.wrappers:FlattenObservations", UnknownName, "did you mean 'gymnasium.wrappers:FlattenObservation'"),
        ("no_such_module:make", CannotMake, "No module named 'no_such_module'"),
        ("my_wrappers:Other", BadValue, "is neither a class of gymnasium.Wrapper nor a function"),
        ("os:system", BadValue, "is neither a class of gymnasium.Wrapper nor a function"),
        ("my_wrappers:forget", CannotMake, "my_wrappers:forget must return a gymnasium.Env, not int"),
        ("my_wrappers:fails", CannotMake, "cannot wrap the environment in my_wrappers:fails: no such door"),
        (
            "gymnasium.wrappers:TimeLimit",
            CannotMake,
            "cannot wrap the environment in gymnasium.wrappers:TimeLimit: .*max_episode_steps",
        ),
    ],
)
def test_wrong_wrappers(name: str, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make("FrozenLake-v1", wrap=[name])


def test_wrappers_in_arguments() -> None:
    assert with_wrappers({"size": 3}, ()) == {"size": 3}
    assert with_wrappers({"wrap": ["a:b"]}, ["c:d"]) == {"wrap": ["a:b", "c:d"]}
    with pytest.raises(BadValue, match="wrap must be a list of wrappers, not 'a:b'"):
        parse_env_args(["wrap='a:b'"])
    with pytest.raises(BadValue, match="reset_options must be a dict"):
        parse_env_args(["reset_options=3"])


def test_a_run_keeps_its_wrappers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The reward of the goal is 10 in training, in evaluations and after a resume."""
    run = tmp_path / "run"
    words = ["--run", str(run), "--steps", "600", "--wrap", "my_wrappers:make", "--env-args", "is_slippery=False", *QUICK]
    assert main(["train", "FrozenLake-v1", *words]) == 0
    assert describe(run)["env_args"] == {"is_slippery": False, "wrap": ["my_wrappers:make"]}
    assert main(["resume", str(run), "--steps", "900"]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(run), "--episodes", "2"]) == 0
    assert "return       10.0 ± 0.0" in capsys.readouterr().out
    rows = gemrl.load(sorted((run / "checkpoints").iterdir())[-1] / "model").memory.lane(0)
    assert set(rows["reward"]) == {0.0, 10.0}


def test_a_wrapper_decides_the_algorithm() -> None:
    options = TrainOptions("FrozenLake-v1", env_args=with_wrappers({}, [FLATTEN]))
    assert new_run(options, print).description["algo"] == "gem-discrete"
    assert new_run(TrainOptions("FrozenLake-v1"), print).description["algo"] == "gem-tabular"


@pytest.mark.parametrize("wrap", [["os:system"], ["builtins:eval"], ["subprocess:run"], "os:abort", [3], {"a": 1}, ["os.path"]])
def test_wrappers_of_a_stranger_s_run(tmp_path: Path, wrap: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    assert main(["train", "FrozenLake-v1", "--run", str(run), "--steps", "100", *QUICK]) == 0
    description = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(description | {"env_args": {"wrap": wrap}}))
    for command in (["evaluate", str(run)], ["resume", str(run), "--steps", "200"]):
        capsys.readouterr()
        assert main(command) == 2
        error = capsys.readouterr().err
        assert error.startswith("gemrl: ")
        assert error.count("\n") == 1


class Recorded(probes.Constant):
    """Writes down the options of each reset."""

    given: list[dict[str, Any] | None] = []  # noqa: RUF012

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.given.append(options)
        return super().reset(seed=seed)


gym.register("Recorded-v0", entry_point="tests.test_wrapping:Recorded")


def test_reset_options_reach_every_reset() -> None:
    """Those of training, of evaluations, and of environments that are made again."""
    arguments = parse_env_args(["reset_options={'low': -0.1, 'goal': [1, 2]}"])
    env = make("Recorded-v0", **arguments)
    Recorded.given.clear()
    model = gemrl.TD3(env, seed=0, learning_starts=1000)
    with pytest.warns(UserWarning, match="nothing is learned"):
        model.learn(5)
    model.evaluate(episodes=2)
    make_like(env).reset(options={"low": 3})
    assert Recorded.given == [{"low": -0.1, "goal": [1, 2]}] * 8 + [{"low": 3, "goal": [1, 2]}]
    with pytest.raises(BadValue, match="Atari games have no reset options"):
        make("ALE/Pong-v5", reset_options={"a": 1})


def test_reset_options_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """CartPole starts where the options say: at the edge an episode ends at once."""
    words = ["--steps", "60", "--eval-every", "60", "--eval-episodes", "2", "--run", str(tmp_path / "run")]
    assert main(["train", "CartPole-v1", *words, "--env-args", "reset_options={'low': 2.3, 'high': 2.31}"]) == 0
    assert main(["evaluate", str(tmp_path / "run")]) == 0
    assert "return        1.0 ± 0.0  length 1" in capsys.readouterr().out
    assert main(["train", "CartPole-v1", "--env-args", "reset_options=[1]"]) == 2
    assert "reset_options must be a dict" in capsys.readouterr().err
