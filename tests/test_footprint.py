"""The memory that is left, from files as Linux writes them, and estimates of what training takes, beside measured ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

from gemrl.agents import continuous, discrete, soft
from gemrl.agents.footprint import Shape, check_fits, network_needs, training_needs
from gemrl.agents.memory.ring import Memory, column_bytes, memory_bytes
from gemrl.agents.off_policy import CHUNK, Family
from gemrl.algorithms.registry import RECIPES
from gemrl.cli.main import main
from gemrl.core import resources
from gemrl.core.exceptions import BadValue
from gemrl.core.layout import Layout
from gemrl.core.resources import Need, check_memory, memory_left

GB = 10**9
VERSION_2 = {
    "proc/meminfo": "MemTotal:  32000000 kB\nMemFree:  1 kB\nMemAvailable:   20000000 kB\n",
    "proc/self/cgroup": "0::/job/run\n",
    "proc/self/mountinfo": "30 24 0:26 / {root}/cg rw,nosuid shared:4 - cgroup2 cgroup2 rw\n",
    "cg/job/run/memory.max": "max\n",
    "cg/job/run/memory.current": "3000000000\n",
    "cg/job/memory.max": "8000000000\n",
    "cg/job/memory.current": "6000000000\n",
    "cg/job/memory.stat": "anon 1\nfile 1500000000\ninactive_file 900000000\nactive_file 100000000\n",
}
VERSION_1 = {
    "proc/meminfo": VERSION_2["proc/meminfo"],
    "proc/self/cgroup": "5:cpu,cpuacct:/other\n4:memory:/docker/abc/job\n0::/\n",
    "proc/self/mountinfo": "31 24 0:27 /docker/abc {root}/cpu rw - cgroup cgroup rw,cpu\n"
    "32 24 0:28 /docker/abc {root}/cg rw - cgroup cgroup rw,memory\n33 24 0:29 / {root}/unified rw - cgroup2 cgroup2 rw\n",
    "cg/memory.limit_in_bytes": "9223372036854771712\n",
    "cg/memory.usage_in_bytes": "1000\n",
    "cg/job/memory.limit_in_bytes": "5000000000\n",
    "cg/job/memory.usage_in_bytes": "4000000000\n",
    "cg/job/memory.stat": "inactive_file 7\nactive_file 7\ntotal_inactive_file 200000000\ntotal_active_file 300000000\n",
}
UNLIMITED = VERSION_2 | {"cg/job/memory.max": "max\n"}
OUTSIDE = VERSION_1 | {"proc/self/cgroup": "4:memory:/elsewhere\n", "cg/memory.limit_in_bytes": "2000001000\n"}


@pytest.mark.parametrize(
    ("files", "left"),
    [(VERSION_2, 3 * GB), (VERSION_1, 1.5 * GB), (UNLIMITED, 20.48 * GB), (OUTSIDE, 2 * GB), ({}, None)],
    ids=["version 2", "version 1", "no limit", "cgroup outside the mount", "no Linux"],
)
def test_memory_left(tmp_path: Path, files: dict[str, str], left: float | None) -> None:
    """The limit of every cgroup around the process counts; file caches count as left."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text.format(root=tmp_path))
    found = memory_left(tmp_path / "proc")
    assert found == left if left is not None else found > 0


def test_an_estimate_that_does_not_fit_names_the_fields_to_lower() -> None:
    needs = [
        Need("networks", GB // 500, "net_arch"),
        Need("rows", 8 * GB, "buffer_size"),
        Need("minibatches", GB // 2, "batch_size"),
    ]
    needs.append(Need("planning", 3 * GB // 2, "buffer_size"))
    check_memory(needs, 11 * GB)
    with pytest.raises(BadValue) as caught:
        check_memory(needs, 4 * GB)
    assert str(caught.value) == (
        "training would take about 10.0 GB of memory (rows 8.0 GB, planning 1.5 GB, minibatches 0.5 GB), "
        "but only 4.0 GB are left here: set a smaller buffer_size"
    )


VECTOR, IMAGES = Layout((17,), 6), Layout((4, 84, 84), 1, 6, "uint8", frames=4)


@pytest.mark.parametrize(
    "layout", [VECTOR, IMAGES, Layout((4, 40, 40), 1, 3, "float32", frames=4), Layout((10, 10, 4), 1, 3, "bool")]
)
def test_memory_bytes_are_those_of_the_arrays(layout: Layout) -> None:
    memory = Memory.empty(2, 70, layout, 2, host=True)
    counters = sum(array.nbytes for array in (memory.head, memory.size, memory.unplanned))
    counters += memory.frames.written.nbytes if memory.frames is not None else 0
    sizes = [array.nbytes for array in jax.tree.leaves(memory)]
    assert (sum(sizes) - counters, max(sizes)) == (memory_bytes(2, 70, layout, 2), column_bytes(2, 70, layout, 2))


@pytest.mark.parametrize(
    ("family", "name", "layout"),
    [
        (continuous.FAMILY, "gem", Layout((300,), 6)),
        (soft.FAMILY, "sac", Layout((300,), 6)),
        (continuous.FAMILY, "gem", Layout((96, 96, 3), 3, dtype="uint8")),
        (soft.FAMILY, "sac", Layout((4, 84, 84), 3, dtype="uint8", frames=4)),
        (discrete.FAMILY, "gem-discrete", Layout((30,), 1, 5)),
        (discrete.FAMILY, "gem-discrete", IMAGES),
        (discrete.FAMILY, "dqn", Layout((210, 160, 3), 1, 6, "uint8")),
        (discrete.FAMILY, "gem-discrete-released", Layout((10, 10, 4), 1, 6, "bool")),
    ],
)
def test_networks_are_as_large_as_estimated(family: Family, name: str, layout: Layout) -> None:
    """A learner has each parameter about four times: online, target, and two averages of Adam; sac has no target actor."""
    recipe = RECIPES[name].for_environment("", layout)
    learner = family.init_learner(recipe, layout, 0)
    held = sum(leaf.nbytes for leaf in jax.tree.leaves(eqx.tree_at(lambda x: x.key, learner, np.zeros(0))))
    (need,) = network_needs(family.work(recipe, layout))
    assert 0.9 * held <= need.size * 4 / 6 <= 1.3 * held


MEASURE = """
import sys
import gymnasium as gym, numpy as np
from gemrl.training.models import MODELS
from gemrl.agents.footprint import network_needs
name, space, choices, fields = eval(sys.argv[1])
class Env(gym.Env):
    observation_space = gym.spaces.Box(*space)
    action_space = gym.spaces.Discrete(choices) if choices else gym.spaces.Box(-1, 1, (3,))
    def reset(self, *, seed=None, options=None):
        return np.zeros(self.observation_space.shape, self.observation_space.dtype), {}
    def step(self, action):
        return self.reset()[0], 0.0, False, False, {}
def kilobytes(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))
small = MODELS[name](Env(), seed=0, **fields | {"net_arch": (2,), "buffer_size": 60, "batch_size": 2}).learn(40)
before = kilobytes("VmRSS")
open("/proc/self/clear_refs", "w").write("5")  # the peak is counted from here
model = MODELS[name](Env(), seed=0, **fields)
needs = network_needs(model.agent._family.work(model.recipe, model.spaces.layout)) + model.agent._needs()
model.learn(40)
print(sum(need.size for need in needs), 1024 * (kilobytes("VmHWM") - before))
"""
ROUND: dict[str, Any] = {"learning_starts": 20, "train_freq": 20, "gradient_steps": 1, "target_update_interval": 20}


@pytest.mark.parametrize(
    "case",
    [
        ("gem", (-1, 1, (5000,)), 0, ROUND | {"buffer_size": 10_000, "net_arch": (64, 64), "batch_size": 100}),
        ("gem", (-1, 1, (3,)), 0, ROUND | {"buffer_size": 2_000_000, "net_arch": (100, 100), "batch_size": 8000, "depth": 100}),
        ("emac", (-1, 1, (3,)), 0, ROUND | {"buffer_size": 1_000_000, "net_arch": (16,), "batch_size": 100, "k": 4}),
    ],
    ids=["long rows", "many rows, large batches", "neighbours"],
)
def test_training_takes_about_as_much_as_estimated(case: Any) -> None:
    """The resident memory of a process that trains, beyond that of one that trained a tiny model."""
    shown = subprocess.run([sys.executable, "-c", MEASURE, repr(case)], capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    estimated, measured = map(int, shown.stdout.split())
    assert 0.6 * measured < estimated < 2 * measured, (estimated, measured)


def test_too_many_images_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With a million rows of 27,648 bytes each. The networks are small here, to be made quickly."""
    monkeypatch.setattr(resources, "memory_left", lambda: 19 * GB)
    monkeypatch.setattr("gemrl.agents.footprint.memory_left", lambda: 19 * GB)
    words = ["train", "CarRacing-v3", "--run", str(tmp_path / "run"), "--set", "net_arch=(8,)", "buffer_size=1000000"]
    assert main(words) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "(rows 28.1 GB, copying a column 28.1 GB)" in line
    assert "but only 19.0 GB are left here: set a smaller buffer_size" in line
    assert not (tmp_path / "run" / "run.json").exists()


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"batch_size": 10**9}, "batch_size"),
        ({"gradient_steps": 10**9}, "batch_size or gradient_steps"),
        ({"buffer_size": 10**9}, "buffer_size"),
    ],
)
def test_sizes_beyond_any_machine(fields: dict[str, Any], named: str) -> None:
    recipe = RECIPES["gem"].but(**fields)
    shape = Shape(1, recipe.settable()["buffer_size"], VECTOR, 2)
    needs = training_needs(shape, continuous.FAMILY.work(recipe, VECTOR), recipe.gradient_steps, CHUNK[False])
    with pytest.raises(BadValue, match=f"set a smaller {named}$"):
        check_memory(needs, 64 * GB)
    with pytest.raises(BadValue, match=r"set a smaller net_arch$"):
        check_fits(network_needs(continuous.FAMILY.work(recipe.but(net_arch=(10**6, 10**6)), VECTOR)), None)
