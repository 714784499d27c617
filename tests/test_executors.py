"""How executors start runs: the arguments of a job, and what is sent to a Ray cluster."""

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


def test_arguments_of_a_job_describe_the_planned_run(tmp_path: Path) -> None:
    """Parsed by `gemrl train`, they give the recipe, seed and environment arguments of the study."""
    algos, extra = ("gem-tabular depth=7", "nstep-q"), ["--env-timeout", "9", "--checkpoint-every", "11"]
    study = Study("own", "own", algos, ("FrozenLake-v1",), (3, 5), 70, ("gamma=0.9",), 30, 2, ("is_slippery=False",))
    plans = planned(study, tmp_path, extra)
    for plan in plans:
        options = parse(list(plan.job.arguments))
        env_args = with_sticky(options.env, options.sticky, parse_env_args(options.env_args))
        layout = Spaces.of(make(options.env, **env_args)).layout
        algo = algorithm_for(options.algo, layout)
        parsed = {name: getattr(options, name) for name in ("env", "seed", "steps", "eval_every", "eval_episodes", "n_envs")}
        parsed |= {"algo": algo, "env_args": env_args}
        assert parsed | {"recipe": as_json(recipe_for(algo, options.env, layout, options.settings))} == plan.facts
        assert (options.run, options.env_timeout, options.checkpoint_every) == (plan.job.folder, 9, 11)
    assert [(plan.facts["algo"], plan.facts["seed"]) for plan in plans] == [
        (algo, seed) for seed in (3, 5) for algo in ("gem-tabular", "nstep-q")
    ]


class Exceptions:
    """The exceptions of Ray, with its names."""

    class RayError(Exception): ...

    class TaskCancelledError(RayError): ...

    class RayTaskError(RayError): ...

    class WorkerCrashedError(RayError): ...


class Cluster:
    """The part of Ray's interface that the executor uses. It records arguments and returns prepared outcomes."""

    exceptions = Exceptions

    def __init__(self) -> None:
        self.submitted: list[tuple[Any, ...]] = []
        self.options: dict[str, Any] = {}
        self.outcome: int | Exception = 0

    def init(self, **options: Any) -> None: ...

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 6.0}

    def remote(self, **options: Any) -> Any:
        self.options = options
        return lambda function: SimpleNamespace(remote=lambda *arguments: self.submitted.append(arguments))

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


def test_cluster_gets_everything_that_affects_results(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"XLA_FLAGS": "--mine", "MUJOCO_GL": "egl", "SECRET": "x"}.items():
        monkeypatch.setenv(name, value)
    assert executor.Ray("auto", None, 0.0).at_once == 6
    assert cluster.options["num_gpus"] == 0.0
    four = executor.Ray("auto", 4, 0.25)
    assert (four.slots, four.at_once, cluster.options["num_gpus"]) == (4, 4, 0.25)
    four.start(Job(tmp_path / "run", ("train",), tmp_path / "log.txt"))
    ((*_, environment, cwd),) = cluster.submitted
    assert (environment["XLA_FLAGS"], environment["MUJOCO_GL"], cwd) == ("--mine", "egl", os.getcwd())
    assert environment["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.225"  # most of its share of a GPU
    assert "SECRET" not in environment


def test_exit_codes_of_tasks(cluster: Cluster, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "log.txt"
    process = executor.Ray("auto", 4, 0.0).start(Job(tmp_path / "run", ("train",), log))
    lost, broken = Exceptions.WorkerCrashedError(), Exceptions.RayTaskError("a\nno disk")
    outcomes: dict[int | Exception, int] = {0: 0, 3: 3, Exceptions.TaskCancelledError(): 130, lost: KILLED, broken: 1}
    for outcome, code in outcomes.items():
        cluster.outcome = outcome
        assert process.poll() == code
    assert log.read_text() == "no disk\n"
