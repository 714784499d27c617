"""The CSV files of a run: written during training, truncated when it is resumed, and read by reports and studies."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from gemrl.algorithms.registry import AnyRecipe
from gemrl.core.exceptions import MissingFile, ModelFileError, RunFolderError
from gemrl.core.files import write_bytes
from gemrl.core.reading import CSV_BYTES, csv_rows, read_limited
from gemrl.core.schema import MAX_STEPS
from gemrl.training.loop import Event
from gemrl.training.metrics import PROGRESS_COLUMNS, Metrics
from gemrl.training.trackers.csv_file import CSVFile

EVALUATION_COLUMNS = ("step", "return_mean", "return_std", "length_mean", "estimation_error")

EVALUATIONS, PROGRESS = LOGS = ("evaluations.csv", "progress.csv")
"""The files that Recorder writes."""

SCORED = 3
"""The score of a run is the mean return of this many last evaluations, since a single one may be far from its neighbours."""

PROGRESS_INTERVAL = 1000
"""Steps between lines of progress.csv."""


MAX_SIZE = 1e100
"""The largest absolute value in evaluations.csv: its square is still a number."""

MAX_SECONDS = 1e12
"""The largest time in progress.csv."""


def read_evaluations(folder: str | os.PathLike[str], *, links: bool = True) -> dict[str, np.ndarray]:
    """The columns of evaluations.csv, each an array [evaluations]. Raises RunFolderError if it is missing or damaged.

    Steps increase, and returns are finite. Without `links`, the file must not be a link.
    """
    file = Path(folder) / EVALUATIONS
    try:
        rows = csv_rows(read_limited(file, CSV_BYTES, links=links), file)
        positions = _positions(next(rows, (0, []))[1], EVALUATION_COLUMNS)
        table = np.array([[float(row[at]) for at in positions] for _, row in rows]).reshape(-1, len(positions))
    except MissingFile:
        raise RunFolderError(f"{folder} has no {EVALUATIONS}") from None
    except ModelFileError as error:
        raise RunFolderError(str(error)) from None
    except (ValueError, IndexError):
        raise RunFolderError(f"{file} is damaged") from None
    steps, returns = table[:, 0], table[:, 1]
    if not (np.isfinite(steps).all() and np.isfinite(returns).all() and (np.diff(steps) > 0).all()):
        raise RunFolderError(f"{file} is damaged: steps must increase and returns must be finite")
    if (steps < 0).any() or (steps > MAX_STEPS).any() or (steps % 1).any() or (np.abs(table[:, 1:]) > MAX_SIZE).any():
        raise RunFolderError(f"{file} is damaged: a number in it is out of range")
    return dict(zip(EVALUATION_COLUMNS, table.T.copy(), strict=True))


def _positions(header: list[str], columns: Sequence[str]) -> list[int]:
    """The positions of these columns in the header of a CSV file. Raises ValueError if one is missing."""
    return [header.index(name) for name in columns]


class Timing(NamedTuple):
    """The number of steps that a run had taken after some seconds of training."""

    steps: int
    seconds: float


def read_timings(folder: str | os.PathLike[str]) -> list[Timing]:
    """Steps and seconds of each complete line of progress.csv, which may still grow; [] if there is none."""
    rows = _numbers(folder, PROGRESS, ("time/total_timesteps", "time/time_elapsed"), (MAX_STEPS, MAX_SECONDS))
    return [Timing(int(steps), seconds) for steps, seconds in rows]


def read_last_return(folder: str | os.PathLike[str]) -> float | None:
    """The mean return in the last complete line of evaluations.csv, which may still grow; None if there is no line."""
    rows = _numbers(folder, EVALUATIONS, ("return_mean",), (MAX_SIZE,))
    return rows[-1][0] if rows else None


def read_returns(folder: str | os.PathLike[str]) -> dict[int, float]:
    """The mean return by step in the complete lines of evaluations.csv, which may still grow; {} if there is none."""
    return {int(step): value for step, value in _numbers(folder, EVALUATIONS, ("step", "return_mean"), (MAX_STEPS, MAX_SIZE))}


def _numbers(
    folder: str | os.PathLike[str], name: str, columns: Sequence[str], limits: Sequence[float]
) -> list[tuple[float, ...]]:
    """These columns in the complete lines of a CSV file, 0 for what is missing or out of range; [] if it is unreadable."""
    found: list[tuple[float, ...]] = []
    with suppress(ModelFileError):
        data = read_limited(Path(folder) / name, CSV_BYTES, links=False)
        rows = csv_rows(data[: data.rfind(b"\n") + 1], name, errors="replace")
        header = next(rows, (0, []))[1]
        positions = [header.index(column) if column in header else -1 for column in columns]
        for _, row in rows:
            found.append(tuple(_number(row, at, limit) for at, limit in zip(positions, limits, strict=True)))
    return found


def _number(row: list[str], position: int, limit: float) -> float:
    """A number in a row; 0 if it is missing, damaged or larger than `limit`."""
    try:
        number = float(row[position]) if 0 <= position < len(row) else 0.0
    except ValueError:
        return 0.0
    return number if abs(number) <= limit else 0.0  # False for NaN


class Recorder:
    """Writes evaluations.csv and progress.csv during a run."""

    def __init__(self, folder: Path, recipe: AnyRecipe) -> None:
        self._metrics, self._next = Metrics(recipe), PROGRESS_INTERVAL
        self._paths = [folder / name for name in LOGS]
        self._evaluations: IO[str] | None = None
        self._lines: CSVFile | None = None

    def start(self) -> None:
        """Creates both files."""
        # Replaced and then appended to: a file that exists may be a link to another one.
        for path, columns in zip(self._paths, (EVALUATION_COLUMNS, PROGRESS_COLUMNS), strict=True):
            write_bytes(path, f"{','.join(columns)}\n".encode())
        self._open(PROGRESS_COLUMNS)

    def _open(self, columns: Sequence[str]) -> None:
        """Opens both files to append to them, progress.csv with these columns."""
        self._evaluations = self._paths[0].open("a", newline="")
        self._lines = CSVFile(self._paths[1], columns, append=True)

    def resume(self, facts: dict[str, Any], texts: Mapping[str, str]) -> None:
        """Continues after the lines in a checkpoint; later lines are dropped."""
        for path in self._paths:
            write_bytes(path, texts[path.name].encode())
        columns = texts[PROGRESS].partition("\n")[0].split(",")  # an older run may have fewer columns
        self._next = int(facts["next"])
        self._metrics.restore(facts["progress"])
        self._open(columns)

    def last_step(self) -> int:
        """The step in the last complete line of progress.csv, or 0 if there is none."""
        timings = read_timings(self._paths[1].parent)
        return timings[-1].steps if timings else 0

    def facts(self) -> dict[str, Any]:
        """What `resume` needs in addition to the lines, as JSON values."""
        return {"next": self._next, "progress": self._metrics.facts()}

    def texts(self) -> dict[str, str]:
        """The content of both files, by name."""
        self._flush()
        return {path.name: read_limited(path, CSV_BYTES, links=False).decode() for path in self._paths}

    def __call__(self, event: Event) -> dict[str, float] | None:
        """Records an event; returns the metrics if a line of progress.csv was due, else None."""
        assert self._evaluations
        assert self._lines
        self._metrics.update(event)
        if event.evaluation:
            numbers = (getattr(event.evaluation, name) for name in EVALUATION_COLUMNS[1:])
            row = [event.step, *(repr(number) for number in numbers)]
            csv.writer(self._evaluations, lineterminator="\n").writerow(row)
        elif event.step < self._next:
            return None
        self._next = event.step - event.step % PROGRESS_INTERVAL + PROGRESS_INTERVAL
        metrics = self._metrics.row(event.step, event.evaluation)
        self._lines.write(metrics, event.step)
        self._flush()
        return metrics

    def close(self) -> None:
        """Closes both files."""
        for file in (self._evaluations, self._lines):
            if file:
                file.close()

    def _flush(self) -> None:
        for file in (self._evaluations, self._lines):
            if file:
                file.flush()
