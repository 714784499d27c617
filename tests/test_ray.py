"""`gemrl study --executor ray`: on a cluster of two nodes of which one is killed, every run exactly once and the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gemrl.cli import main
from tests.test_study import same_runs

pytest.importorskip("ray", reason="ray is not installed")

OWN = """
algos = ["td3"]
envs = ["Pendulum-v1"]
seeds = 2
steps = 2000
eval_every = 500
eval_episodes = 1
settings = ["net_arch=(16,16)", "learning_starts=200", "batch_size=16", "buffer_size=1000"]
"""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head without cores, so that all work is on the two nodes, one core each."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # what makes the address of this machine 127.0.0.1
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    from ray.cluster_utils import Cluster

    made = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "node_ip_address": "127.0.0.1", "include_dashboard": False}
    )
    try:
        yield made
    finally:
        made.shutdown()  # type: ignore[no-untyped-call]


def wait_for(condition: Any, what: str) -> None:
    deadline = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_a_node_is_killed_in_the_middle(cluster: Any, tmp_path: Path) -> None:
    nodes = [cluster.add_node(num_cpus=1, node_ip_address="127.0.0.1") for _ in range(2)]
    own, out = tmp_path / "own.toml", tmp_path / "out"
    own.write_text(OWN)
    words = ["study", str(own), "--out", str(out), "--executor", "ray", "--address", cluster.address, "--checkpoint-every", "100"]
    with (tmp_path / "said.txt").open("w") as file:
        study = subprocess.Popen([sys.executable, "-m", "gemrl", *words], stdout=file, stderr=file, env=os.environ)
    try:
        places = [out / "td3" / "Pendulum-v1" / str(seed) for seed in range(2)]
        wait_for(lambda: all(any(place.glob("checkpoints/0*")) for place in places), (tmp_path / "said.txt").read_text())
        cluster.remove_node(nodes[0], allow_graceful=False)
        assert study.wait(120) == 0, (tmp_path / "said.txt").read_text()
    finally:
        study.kill()
        study.wait()
    said = (tmp_path / "said.txt").read_text()
    assert said.count(": done in") == 2
    assert f"all 2 runs are done: {out}" in said
    assert main(["study", str(own), "--out", str(tmp_path / "here"), "--workers", "2"]) == 0
    for seed in range(2):
        assert same_runs(places[seed], tmp_path / "here" / "td3" / "Pendulum-v1" / str(seed))
