"""What a run is started with: by its words here, and on a cluster with what decides its bits."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gemrl.algorithms.registry import algorithm_for, recipe_for
from gemrl.cli.main import parse
from gemrl.envs.arguments import parse_env_args, with_sticky
from gemrl.envs.making import make
from gemrl.envs.spaces import Spaces
from gemrl.experiments.executors import ray as executor
from gemrl.experiments.executors.base import KILLED, Job
from gemrl.experiments.run_folder import as_json
from gemrl.experiments.studies.folder import planned
from gemrl.experiments.studies.study import Study


def test_the_words_of_a_job_say_all_that_is_planned(tmp_path: Path) -> None:
    """Read as `gemrl train` reads them, they give the recipe, the seed and the arguments that the study means."""
    algos, words = ("gem-tabular depth=7", "nstep-q"), ["--env-timeout", "9", "--checkpoint-every", "11"]
    study = Study("own", "own", algos, ("FrozenLake-v1",), (3, 5), 70, ("gamma=0.9",), 30, 2, ("is_slippery=False",))
    plans = planned(study, tmp_path, words)
    for plan in plans:
        options = parse(list(plan.job.words))
        arguments = with_sticky(options.env, options.sticky, parse_env_args(options.env_args))
        layout = Spaces.of(make(options.env, **arguments)).layout
        algo = algorithm_for(options.algo, layout)
        read = {name: getattr(options, name) for name in ("env", "seed", "steps", "eval_every", "eval_episodes", "n_envs")}
        read |= {"algo": algo, "env_args": arguments}
        assert read | {"recipe": as_json(recipe_for(algo, options.env, layout, options.settings))} == plan.facts
        assert (options.run, options.env_timeout, options.checkpoint_every) == (plan.job.folder, 9, 11)
    assert [(plan.facts["algo"], plan.facts["seed"]) for plan in plans] == [
        (algo, seed) for seed in (3, 5) for algo in ("gem-tabular", "nstep-q")
    ]


class Exceptions:
    """Ray's, by the names that it has for them."""

    class RayError(Exception): ...

    class TaskCancelledError(RayError): ...

    class RayTaskError(RayError): ...

    class WorkerCrashedError(RayError): ...


class Cluster:
    """Ray as far as the executor uses it: it keeps what it is given, and answers what it is told to."""

    exceptions = Exceptions

    def __init__(self) -> None:
        self.given: list[tuple[Any, ...]] = []
        self.asked: dict[str, Any] = {}
        self.outcome: int | Exception = 0

    def init(self, **words: Any) -> None: ...

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 6.0}

    def remote(self, **asked: Any) -> Any:
        self.asked = asked
        return lambda function: SimpleNamespace(remote=lambda *given: self.given.append(given))

    def wait(self, references: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        return references, []

    def get(self, reference: Any) -> int:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(executor, "_imported", lambda: made)
    return made


def test_a_cluster_is_given_what_decides_bits(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"XLA_FLAGS": "--mine", "MUJOCO_GL": "egl", "SECRET": "x"}.items():
        monkeypatch.setenv(name, value)
    assert executor.Ray("auto", None, 0.0).at_once == 6
    assert cluster.asked["num_gpus"] == 0.0
    four = executor.Ray("auto", 4, 0.25)
    assert (four.slots, four.at_once, cluster.asked["num_gpus"]) == (4, 4, 0.25)
    four.start(Job(tmp_path / "run", ("train",), tmp_path / "log.txt"))
    ((*_, environment, cwd),) = cluster.given
    assert (environment["XLA_FLAGS"], environment["MUJOCO_GL"], cwd) == ("--mine", "egl", os.getcwd())
    assert environment["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.225"  # most of its share of a GPU
    assert "SECRET" not in environment


def test_what_became_of_a_task(cluster: Cluster, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "log.txt"
    process = executor.Ray("auto", 4, 0.0).start(Job(tmp_path / "run", ("train",), log))
    lost, broken = Exceptions.WorkerCrashedError(), Exceptions.RayTaskError("a\nno disk")
    outcomes: dict[int | Exception, int] = {0: 0, 3: 3, Exceptions.TaskCancelledError(): 130, lost: KILLED, broken: 1}
    for outcome, code in outcomes.items():
        cluster.outcome = outcome
        assert process.poll() == code
    assert log.read_text() == "no disk\n"
