"""Random and hostile damage to model and checkpoint files: each must be rejected with an error or load unchanged."""

from __future__ import annotations

import contextlib
import hashlib
import json
import pickle
import random
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gemrl.core.exceptions import GemrlError
from gemrl.core.files import digest_of, read_json, write_sealed
from gemrl.experiments import checkpoints
from gemrl.experiments.loading import load
from gemrl.training.model import Model
from gemrl.training.pytrees import named_arrays

TRAP = Path("tests-fuzz-trap")
"""Unpickling one of the damaged files would create this file."""


class _Trap:
    def __reduce__(self) -> Any:
        return (Path.touch, (TRAP,))


def flipped(data: bytes, rng: random.Random) -> bytes:
    """The data with one to eight bits flipped."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def truncated(data: bytes, rng: random.Random) -> bytes:
    """The data without its end."""
    return data[: rng.randrange(len(data))]


def extended(data: bytes, rng: random.Random) -> bytes:
    """The data with random bytes appended."""
    return data + rng.randbytes(rng.randrange(1, 64))


def moved(data: bytes, rng: random.Random) -> bytes:
    """The data with two adjacent parts swapped."""
    a, b, c = sorted(rng.randrange(len(data) + 1) for _ in range(3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def noise(data: bytes, rng: random.Random) -> bytes:
    """Different data altogether."""
    return rng.choice((b"", b"\x00" * 64, b"[" * 200_000, b'{"a":' * 100_000, pickle.dumps(_Trap()), rng.randbytes(300)))


def disguised(data: bytes, rng: random.Random) -> bytes:
    """A pickle disguised as an npy file."""
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + pickle.dumps(np.array([_Trap()], object))


DAMAGE: tuple[Callable[[bytes, random.Random], bytes], ...] = (flipped, truncated, extended, moved, noise, disguised)

HUGE: tuple[Any, ...] = (10**18, 2**63, -1, 0, 1e308, "9" * 400, None, [], {}, "../../etc/passwd", True, [10**9, 10**9])


def hostile_json(content: Any, rng: random.Random) -> Any:
    """The JSON content with one value, anywhere in it, removed or replaced by a huge one or one of the wrong type."""
    owner, key = rng.choice(list(positions(content)))
    if rng.random() < 0.2 and isinstance(owner, dict):
        del owner[key]
    else:
        owner[key] = rng.choice(HUGE)
    return content


def positions(content: Any) -> Any:
    """Every dict or list in the content, with each of its keys or indices."""
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        yield content, key
        yield from positions(value)


def hostile_tensors(data: bytes, rng: random.Random) -> bytes:
    """A safetensors file whose header has wrong types, shapes, offsets or a wrong length."""
    size = int.from_bytes(data[:8], "little")
    header = hostile_json(json.loads(data[8 : 8 + size]), rng)
    text = json.dumps(header).encode()
    length = rng.choice((len(text), len(text), len(text), 2**62, 0, len(text) + 1000))
    return length.to_bytes(8, "little") + text + data[8 + size :]


def sign(folder: Path) -> None:
    """Recomputes all checksums, as an attacker would."""
    header = read_json(folder / "model.json")
    header.pop("seal", None)
    names = {"learner": "model.safetensors", "memory": "model.memory.safetensors"}
    if isinstance(header.get("sha256"), dict):
        for key, name in names.items():
            if header["sha256"].get(key) is not None and (folder / name).exists():
                header["sha256"][key] = digest_of(folder / name)
    write_sealed(folder / "model.json", header)
    if (folder / "state.json").exists():
        state = read_json(folder / "state.json")
        state.pop("seal", None)
        if isinstance(state.get("sha256"), dict):
            state["sha256"] |= {name: digest_of(folder / name) for name in state["sha256"] if (folder / name).is_file()}
        write_sealed(folder / "state.json", state)


class Fuzzer:
    """Damages copies of a checkpoint and loads them."""

    def __init__(self, original: Path, workplace: Path, seed: int) -> None:
        self._original, self._copy, self._rng = original, workplace / "copy", random.Random(seed)
        shutil.copytree(original, self._copy)
        self._names = sorted(file.name for file in original.iterdir())
        self._expected = self._fingerprint(load(original / "model"))
        self.rejected = self.loaded = 0

    @staticmethod
    def _fingerprint(model: Model) -> str:
        digest = hashlib.sha256()
        for arrays in (named_arrays(model.agent.learner), named_arrays(model.memory)):
            for name, array in sorted(arrays.items()):
                digest.update(name.encode() + array.tobytes())
        return digest.hexdigest()

    def random_damage(self) -> None:
        """Damage that leaves checksums alone: it must be detected or have no effect."""
        names = self._rng.sample(self._names, 2)
        if self._rng.random() < 0.15:
            self._swap(*names)
        else:
            file = self._copy / names[0]
            file.write_bytes(self._rng.choice(DAMAGE)(file.read_bytes(), self._rng))
        self._load(unchanged=True)

    def hostile_damage(self) -> None:
        """Damage with correct checksums: it must be rejected or load, without running code."""
        file = self._copy / self._rng.choice(self._names)
        if file.suffix == ".json":
            file.write_text(json.dumps(hostile_json(read_json(file), self._rng)))
        elif file.suffix == ".safetensors":
            file.write_bytes(self._rng.choice((hostile_tensors, hostile_tensors, disguised))(file.read_bytes(), self._rng))
        with contextlib.suppress(GemrlError):
            sign(self._copy)
        self._load(unchanged=False)

    def _swap(self, one: str, other: str) -> None:
        first, second = ((self._copy / name).read_bytes() for name in (one, other))
        (self._copy / one).write_bytes(second)
        (self._copy / other).write_bytes(first)

    def _load(self, *, unchanged: bool) -> None:
        try:
            found = checkpoints.read(self._copy)
            model = load(found.model)
            if unchanged:
                assert self._fingerprint(model) == self._expected
            self.loaded += 1
        except GemrlError:
            self.rejected += 1
        assert not TRAP.exists(), "code from a file was run"
        for name in self._names:
            shutil.copyfile(self._original / name, self._copy / name)


def peak_memory() -> int:
    """The peak memory of this process in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
