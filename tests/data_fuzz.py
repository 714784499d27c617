"""Damages recorded trajectories: each time one line must name what is wrong, or what is read must still be valid."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gemrl.core.exceptions import GemrlError
from gemrl.core.steps import Trajectory
from gemrl.envs.spaces import Spaces
from gemrl.experiments.data.sources import read_source
from tests.fuzz import DAMAGE, TRAP
from tests.recordings import Episode, Walk, in_d4rl, joined, record, save

SECONDS = 60
"""A file that takes longer to read counts as a hang."""

NASTY = (np.nan, np.inf, -np.inf, 1e300, -1.0, 2.0, 0.0, 255.0, 1e-300)


def altered(recording: Episode, rng: random.Random) -> Episode:
    """The recording with one array removed, renamed, retyped, reshaped, shuffled, or with one other number in it."""
    changed = dict(recording)
    name = rng.choice(sorted(changed))
    array = changed[name]
    changes: list[Callable[[], Any]] = [
        lambda: array.astype(rng.choice(["f2", "f4", "i8", "u1", "U5", "c16", "?", "S3", "M8[s]"])),
        lambda: array[: rng.randrange(len(array))],
        lambda: np.concatenate([array, array[: rng.randrange(1, 5)]]),
        lambda: array[..., None],
        lambda: array.reshape(-1),
        lambda: array[rng.randrange(len(array))],
        lambda: array[np.random.default_rng(rng.randrange(10**6)).permutation(len(array))],
        lambda: changed[rng.choice(sorted(changed))],
        lambda: _with_number(array, rng),
        lambda: _with_number(array, rng),
        lambda: _with_number(array, rng),
    ]
    with np.errstate(all="ignore"), contextlib.suppress(ValueError):  # not every array has every dtype
        changed[name] = rng.choice(changes)()
    if rng.random() < 0.15:
        moved = changed.pop(name)
        if rng.random() < 0.5:
            changed[f"{name}x"] = moved
    return changed


def _with_number(array: np.ndarray, rng: random.Random) -> np.ndarray:
    """The array with one number replaced."""
    changed = array.copy()
    value = rng.choice(NASTY)
    changed.reshape(-1)[rng.randrange(changed.size)] = value if changed.dtype.kind == "f" else rng.choice((0, 1, 7))
    return changed


def invalid(trajectories: list[Trajectory]) -> str:
    """What is wrong with trajectories of the small environment that were accepted; "" if nothing is."""
    for one in trajectories:
        steps = len(one.reward)
        if steps < 1 or one.observation.shape != (steps + 1, 3) or one.action.shape != (steps, 2) or one.reward.shape != (steps,):
            return "shapes"
        if not all(np.isfinite(array).all() and array.dtype == np.float32 for array in one[:3]):
            return "numbers that are not finite"
        if (np.abs(one.action) > 1).any():
            return "actions out of bounds"
    return "" if trajectories else "no trajectories"


def read_verdict(path: Path) -> str:
    """ "accepted", "refused", or what went wrong instead."""
    try:
        found = read_source(path, Spaces.of(Walk()), print)
    except GemrlError as error:
        text = str(error)
        return "refused" if path.name in text and "\n" not in text else f"ERROR: not one line that names the file: {text}"
    except BaseException as error:
        return f"ERROR: {type(error).__name__}: {error}"
    return f"ERROR: accepted {problem}" if (problem := invalid(found)) else "accepted"


def _serve(pipe: Any) -> None:
    """Reads one path after the other."""
    while True:
        pipe.send(read_verdict(pipe.recv()))


class Reader:
    """Reads files in another process, so that a crash or a hang of a library is seen."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._start()

    def _start(self) -> None:
        self._pipe, other = self._context.Pipe()
        self._process = self._context.Process(target=_serve, args=(other,), daemon=True)
        self._process.start()

    def __call__(self, path: Path) -> str:
        """The verdict about a file."""
        self._pipe.send(path)
        try:
            if self._pipe.poll(SECONDS):
                verdict: str = self._pipe.recv()
                return verdict
            reason = "ERROR: hang"
        except EOFError:
            reason = "ERROR: crash"
        self.close()
        self._start()
        return reason

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.join()


def minari_file(folder: Path) -> bytes:
    """The main file of a dataset as Minari's HDF5 format has it."""
    import h5py

    path = folder / "main_data.hdf5"
    names = {"terminated": "terminations", "truncated": "truncations"}
    with h5py.File(path, "w") as file:
        for number, episode in enumerate(record(Walk(), 5)):
            for name, column in episode.items():
                shape = (None, *column.shape[1:])
                file.create_dataset(f"episode_{number}/{names.get(name, name)}", data=column, chunks=True, maxshape=shape)
    return path.read_bytes()


class DataFuzzer:
    """Damages recordings of every kind and reads them."""

    def __init__(self, workplace: Path, seed: int) -> None:
        from gemrl.training.models import model_class

        workplace.mkdir(parents=True, exist_ok=True)
        self._workplace, self._rng, self._read = workplace, random.Random(seed), Reader()
        self._episodes = record(Walk(), 8)
        buffer = io.BytesIO()
        save(buffer, joined(self._episodes), compressed=True)
        self._archive, self._hdf5 = buffer.getvalue(), minari_file(workplace)
        self._model = model_class("td3")(Walk(), seed=0, net_arch=(4,), buffer_size=5000)
        self._model.remember(self._episodes)
        self.verdicts: Counter[str] = Counter()
        self.failures: list[str] = []

    def damage(self, number: int) -> None:
        """One damage: of an archive's bytes or arrays, of a Minari dataset, of episodes in Python."""
        kinds = (self._archive_bytes, self._archive_arrays, self._minari_bytes, self._episodes_in_python)
        kind = kinds[number % len(kinds)]
        verdict = kind()
        if TRAP.exists():
            verdict = "ERROR: code from a file was run"
        self.verdicts[verdict.split(":")[0]] += 1
        if verdict.startswith("ERROR"):
            self.failures.append(f"{kind.__name__} {number}: {verdict}")

    def _archive_bytes(self) -> str:
        path = self._workplace / "data.npz"
        path.write_bytes(self._rng.choice(DAMAGE)(self._archive, self._rng))
        return self._read(path)

    def _archive_arrays(self) -> str:
        path, whole = self._workplace / "data.npz", self._rng.choice((joined, in_d4rl))
        save(path, altered(whole(self._episodes), self._rng))
        return self._read(path)

    def _minari_bytes(self) -> str:
        folder = self._workplace / "dataset"
        (folder / "data").mkdir(parents=True, exist_ok=True)
        (folder / "data" / "main_data.hdf5").write_bytes(self._rng.choice(DAMAGE)(self._hdf5, self._rng))
        return self._read(folder)

    def _episodes_in_python(self) -> str:
        """All episodes are remembered, or none."""
        number = self._rng.randrange(len(self._episodes))
        episodes = [altered(one, self._rng) if index == number else one for index, one in enumerate(self._episodes)]
        before = self._rows()
        try:
            self._model.remember(episodes)
        except GemrlError as error:
            same = all(np.array_equal(old, new) for old, new in zip(before, self._rows(), strict=True))
            named = f"episode {number}" in str(error)
            return "refused" if same and named else f"ERROR: {'not named' if same else 'half loaded'}: {error}"
        except BaseException as error:
            return f"ERROR: {type(error).__name__}: {error}"
        return "accepted" if all(np.isfinite(column).all() for column in self._rows()) else "ERROR: accepted NaN"

    def _rows(self) -> list[np.ndarray]:
        rows = self._model.memory.lane(0)
        return [rows[name] for name in ("observation", "action", "reward", "discount", "last")]

    def close(self) -> None:
        """Ends the process that reads."""
        self._read.close()


def damage_often(workplace: Path, count: int, seed: int = 1) -> tuple[str, list[str]]:
    """Damages recordings this many times; a row of the table of outcomes, and the failures."""
    fuzzer = DataFuzzer(workplace, seed)
    for number in range(count):
        fuzzer.damage(number)
    fuzzer.close()
    found = fuzzer.verdicts
    outcome = f"{found['refused']:,} refused with a line that names the place, {found['accepted']:,} still valid and accepted"
    failed = f", {len(fuzzer.failures):,} FAILED" if fuzzer.failures else ""
    return f"| damaged recordings (.npz, Minari, Python) | {count:,} | {outcome}{failed} |", fuzzer.failures


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        row, failures = damage_often(Path(name), 2000)
    print("\n".join([row, *failures]))
