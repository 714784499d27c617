"""Files on disk: old models load, saved memories continue training, and damage is always detected."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from safetensors.numpy import load_file

import gemrl
from gemrl.core.exceptions import BadValue, ModelFileError
from gemrl.core.files import TEMPORARY, digest_of, read_arrays, replacing, write_arrays, write_bytes
from gemrl.training.models import GEM, SAC
from gemrl.training.pytrees import named_arrays
from tests.conftest import SMALL
from tests.fuzz import Fuzzer, peak_memory
from tests.test_resume import train

FIXTURE = Path(__file__).parent / "fixtures" / "model-format-2"


def test_a_model_of_this_format_always_loads() -> None:
    """The file is from `GEM("Pendulum-v1", seed=0, ...).learn(300)`. Every later version must load it and act the same."""
    model = gemrl.load(FIXTURE, "Pendulum-v1")
    assert (model.algo, model.num_timesteps, len(model.memory)) == ("gem", 300, 300)
    observations = np.array([[1, 0, 0], [0, 1, 0.5], [-1, 0, -8]], np.float32)
    expected = np.load(FIXTURE.parent / "model-format-2.actions.npy", allow_pickle=False)
    np.testing.assert_allclose(model.predict(observations, deterministic=True)[0], expected, atol=1e-5)
    model.learn(100, reset_num_timesteps=False)
    assert model.num_timesteps == 400


@pytest.mark.parametrize("kind", [GEM, SAC])
def test_training_continues_identically_from_a_saved_memory(kind: type[gemrl.Model], tmp_path: Path) -> None:
    fields = SMALL if kind is GEM else {"net_arch": (16,), "learning_starts": 100, "batch_size": 16, "buffer_size": 2000}
    model = kind("Pendulum-v1", seed=0, n_envs=2, **fields)
    model.learn(330)
    model.predict(np.zeros(3), deterministic=False)
    model.save(tmp_path / "model", memory=True)
    loaded = kind.load(tmp_path / "model", "Pendulum-v1")
    assert loaded.n_envs == 2
    for one in (model, loaded):
        one.learn(200, reset_num_timesteps=False)
    for name in ("learner", "memory"):
        mine, theirs = (named_arrays(getattr(one.agent, name)) for one in (model, loaded))
        for array in mine:
            np.testing.assert_array_equal(mine[array], theirs[array], err_msg=array)
    np.testing.assert_array_equal(model.predict(np.zeros(3))[0], loaded.predict(np.zeros(3))[0])


def test_a_saved_memory_of_a_vector_environment(tmp_path: Path) -> None:
    """The next episodes have the seeds that they would have had."""
    models = []
    for name in ("one", "two"):
        envs = gym.make_vec("Pendulum-v1", num_envs=2, vectorization_mode="sync")
        models.append(GEM(envs, seed=0, **SMALL).learn(300))
        if name == "two":
            models[1].save(tmp_path / "model", memory=True)
            models[1] = GEM.load(tmp_path / "model", gym.make_vec("Pendulum-v1", num_envs=2, vectorization_mode="sync"))
    for model in models:
        model.learn(100, reset_num_timesteps=False)
    for one, two in zip(*(named_arrays(model.memory).values() for model in models), strict=True):
        np.testing.assert_array_equal(one, two)


def test_a_memory_larger_than_the_machine_is_an_error() -> None:
    with pytest.raises(BadValue, match="set a smaller buffer_size"):
        GEM("Pendulum-v1", buffer_size=10**9).learn(1)


def test_a_killed_environment_process_is_an_error() -> None:
    envs = gym.make_vec("Pendulum-v1", num_envs=2, vectorization_mode="async")
    model = GEM(envs, seed=0, **SMALL).learn(50)
    envs.processes[0].kill()  # type: ignore[attr-defined]
    with pytest.raises(gemrl.GemrlError, match="the environment raised"):
        model.learn(50)


def test_arrays_are_plain_safetensors(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    whole = rng.normal(size=(3, 7, 5)).astype(np.float32)
    arrays = {
        "part": whole[:, :4],
        "values": whole[:, :, 1],
        "flags": rng.random(9) > 0.5,
        "count": np.array(3, np.int32),
        "none": np.zeros((0, 2), np.float64),
    }
    with replacing(tmp_path / "file.safetensors") as (file,):
        digest = write_arrays(file, arrays)
    for loaded in (load_file(tmp_path / "file.safetensors"), read_arrays(tmp_path / "file.safetensors", digest)):
        assert loaded.keys() == arrays.keys()
        for name, array in arrays.items():
            assert loaded[name].dtype == array.dtype
            np.testing.assert_array_equal(loaded[name], array)
    with pytest.raises(ModelFileError, match="checksum"):
        read_arrays(tmp_path / "file.safetensors", digest[::-1])


def test_a_failed_save_keeps_the_older_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full when the memory is written: the previous networks and header still exist and match each other."""
    model = GEM("Pendulum-v1", seed=0, **SMALL)
    model.save(tmp_path / "model")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    model.learn(300)
    real = write_arrays

    def full(file: Any, arrays: Any) -> str:
        if any(name.startswith("learning.memory") for name in arrays):
            raise OSError("No space left on device")
        return real(file, arrays)

    monkeypatch.setattr("gemrl.training.model_files.write_arrays", full)
    with pytest.raises(OSError, match="No space left"):
        model.save(tmp_path / "model", memory=True)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    monkeypatch.undo()
    model.save(tmp_path / "model", memory=True)
    assert GEM.load(tmp_path / "model").num_timesteps == 300
    assert not list(tmp_path.glob(f"{TEMPORARY}*"))


LARGE = """
import resource, sys
import numpy as np
from gemrl.core.files import write_arrays
arrays = {"frames": np.ones((1, 300, 1 << 20), np.uint8), "values": np.ones((2, 1, 1 << 20), np.float32)}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with open(sys.argv[1], "wb") as file:
    write_arrays(file, arrays)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_writing_large_arrays_needs_little_memory(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LARGE, str(tmp_path / "large.safetensors")]
    grown = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert (tmp_path / "large.safetensors").stat().st_size > 300 << 20
    assert grown < 30_000  # kB, for 300 MB


def test_hundreds_of_damaged_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is rejected with a known error or loads to the same bits; none runs code, hangs or takes gigabytes."""
    monkeypatch.chdir(tmp_path)
    assert train(tmp_path / "run", 300) == 0
    original = max((tmp_path / "run" / "checkpoints").iterdir())
    fuzzer = Fuzzer(original, tmp_path, seed=0)
    before = peak_memory()
    for _ in range(360):
        fuzzer.random_damage()
    assert fuzzer.rejected > 300
    for _ in range(40):
        fuzzer.hostile_damage()
    assert peak_memory() - before < 1 << 30
    assert digest_of(tmp_path / "copy" / "model.json") == digest_of(original / "model.json")  # the last copy was repaired


@pytest.mark.parametrize("memory", [False, True])
def test_an_interrupted_save_loses_nothing(memory: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old model can be loaded until the new one is complete; then no file of it is left."""
    model = GEM("Pendulum-v1", seed=0, **SMALL)
    model.learn(60)
    model.save(tmp_path / "model", memory=True)
    model.learn(40, reset_num_timesteps=False)
    real, calls = os.replace, [0]

    def interrupted(*paths: Any) -> None:
        calls[0] += 1
        if calls[0] == 2:
            raise KeyboardInterrupt
        real(*paths)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.save(tmp_path / "model", memory=memory)
    loaded = GEM.load(tmp_path / "model")
    assert (loaded.num_timesteps, len(loaded.memory)) == (60, 60)
    model.save(tmp_path / "model", memory=memory)
    assert GEM.load(tmp_path / "model").num_timesteps == 100
    assert {file.name for file in tmp_path.iterdir()} == {"model.json", "model.safetensors", "model.memory.safetensors"}


def test_files_obey_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_bytes(tmp_path / "file", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
