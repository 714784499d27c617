"""`gemrl study --executor ray` on two nodes, one of which is killed: every run once, with the same bytes as without Ray."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gemrl.cli.main import main
from tests.test_study import same_runs

pytest.importorskip("ray", reason="ray is not installed")

OWN = """
algos = ["td3"]
envs = ["mine:Mine-v0"]
seeds = 2
steps = 4000
eval_every = 2000
eval_episodes = 1
settings = ["net_arch=(16,)", "learning_starts=200", "batch_size=16", "buffer_size=1000"]
"""
SUBFOLDERS = ("td3/mine-Mine-v0/0", "td3/mine-Mine-v0/1")
MINE = """
import gymnasium
gymnasium.register("Mine-v0", "gymnasium.envs.classic_control:PendulumEnv", max_episode_steps=200)
"""
"""A module in the working directory of the study, which is not installed on the nodes."""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A cluster whose head has no cores, so that all runs are on the two nodes with one core each."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_worker_niceness", "0")  # otherwise its workers starve next to other tests
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # makes 127.0.0.1 the address of this machine
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    from ray.cluster_utils import Cluster

    made: Any = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "node_ip_address": "127.0.0.1", "include_dashboard": False}
    )
    try:
        yield made
    finally:
        made.shutdown()


class StudyProcess:
    """A study in a separate process, whose output goes to a file."""

    def __init__(self, folder: Path, address: str) -> None:
        self.out, self._log = folder / "out", folder / "log.txt"
        arguments = ["study", str(folder / "own.toml"), "--out", str(self.out), "--executor", "ray", "--address", address]
        code = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        code += "from gemrl.cli.main import main; sys.exit(main(sys.argv[1:]))"
        with self._log.open("a") as file:
            command = [sys.executable, "-c", code, *arguments, "--checkpoint-every", "300"]
            self.process = subprocess.Popen(command, stdout=file, stderr=file, env=os.environ, cwd=folder)

    @property
    def output(self) -> str:
        return self._log.read_text()

    def steps(self) -> list[int]:
        """The step of the newest checkpoint of each run."""
        folders = [list((self.out / subfolder / "checkpoints").glob("0*")) for subfolder in SUBFOLDERS]
        return [max((int(folder.name) for folder in found), default=0) for found in folders]

    def wait_for(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 600
        while not condition():
            assert time.monotonic() < deadline, self.output
            assert self.process.poll() is None, self.output
            time.sleep(0.05)

    def ends_with(self, code: int) -> None:
        assert self.process.wait(600) == code, self.output


def test_interrupt_and_loss_of_a_node(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [cluster.add_node(num_cpus=1, node_ip_address="127.0.0.1") for _ in range(2)]
    (tmp_path / "own.toml").write_text(OWN)
    (tmp_path / "mine.py").write_text(MINE)
    first = StudyProcess(tmp_path, cluster.address)
    try:
        first.wait_for(lambda: max(first.steps()) > 0)
        first.process.send_signal(signal.SIGINT)
        first.ends_with(130)
    finally:
        first.process.kill()
    assert "the same command continues" in first.output
    assert any(step % 300 for step in first.steps()), "no run wrote a checkpoint when it was asked to stop"
    second = StudyProcess(tmp_path, cluster.address)
    try:
        before = second.steps()
        second.wait_for(lambda: all(new > old for new, old in zip(second.steps(), before, strict=True)))
        assert max(second.steps()) < 4000, "a run was finished before the node was lost"
        cluster.remove_node(nodes[0], allow_graceful=False)
        second.ends_with(0)
    finally:
        second.process.kill()
    assert second.output.count(": done in") == 2
    assert f"2 runs done: {second.out}" in second.output
    monkeypatch.chdir(tmp_path)
    assert main(["study", str(tmp_path / "own.toml"), "--out", str(tmp_path / "here"), "--workers", "2"]) == 0
    for subfolder in SUBFOLDERS:
        assert same_runs(second.out / subfolder, tmp_path / "here" / subfolder)
