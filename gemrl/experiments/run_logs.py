"""The CSV files of a run: written during training, truncated when it is resumed, and read by reports and studies."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from gemrl.algorithms.registry import AnyRecipe
from gemrl.core.files import write_bytes
from gemrl.training.loop import Event
from gemrl.training.metrics import Metrics
from gemrl.training.trackers.csv_file import CSVFile

EVALUATION_COLUMNS = ("step", "return_mean", "return_std", "length_mean", "estimation_error")

EVALUATIONS, PROGRESS = LOGS = ("evaluations.csv", "progress.csv")
"""The files that Recorder writes."""

PROGRESS_INTERVAL = 1000
"""Steps between lines of progress.csv."""


def read_evaluations(folder: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The columns of evaluations.csv, each an array [evaluations]."""
    with (Path(folder) / EVALUATIONS).open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name]) for row in rows]) for name in EVALUATION_COLUMNS}


class Timing(NamedTuple):
    """The number of steps that a run had taken after some seconds of training."""

    steps: int
    seconds: float


def read_timings(folder: str | os.PathLike[str]) -> list[Timing]:
    """Steps and seconds of each complete line of progress.csv, which may still grow; [] if the file does not exist."""
    return [
        Timing(int(_number(row, "time/total_timesteps")), _number(row, "time/time_elapsed")) for row in _rows(folder, PROGRESS)
    ]


def read_last_return(folder: str | os.PathLike[str]) -> float | None:
    """The mean return in the last complete line of evaluations.csv, which may still grow; None if there is no line."""
    rows = _rows(folder, EVALUATIONS)
    return _number(rows[-1], "return_mean") if rows else None


def _rows(folder: str | os.PathLike[str], name: str) -> list[dict[str, Any]]:
    """The complete lines of a CSV file, by column; [] if it cannot be read."""
    try:
        text = (Path(folder) / name).read_text(errors="replace")
    except OSError:
        return []
    return list(csv.DictReader(text[: text.rfind("\n") + 1].splitlines()))


def _number(row: dict[str, Any], name: str) -> float:
    """A number in a row; 0 if it is missing or damaged."""
    try:
        return float(row.get(name) or 0)
    except ValueError:
        return 0.0


class Recorder:
    """Writes evaluations.csv and progress.csv during a run."""

    def __init__(self, folder: Path, recipe: AnyRecipe) -> None:
        self._metrics, self._next = Metrics(recipe), PROGRESS_INTERVAL
        self._paths = [folder / name for name in LOGS]
        self._evaluations: IO[str] | None = None
        self._lines: CSVFile | None = None

    def start(self) -> None:
        """Creates both files."""
        self._evaluations = self._paths[0].open("w", newline="")
        csv.writer(self._evaluations, lineterminator="\n").writerow(EVALUATION_COLUMNS)
        self._lines = CSVFile(self._paths[1])

    def resume(self, facts: dict[str, Any], texts: Mapping[str, str]) -> None:
        """Continues after the lines in a checkpoint; later lines are dropped."""
        for path in self._paths:
            write_bytes(path, texts[path.name].encode())
        columns = texts[PROGRESS].partition("\n")[0].split(",")  # an older run may have fewer columns
        self._next = int(facts["next"])
        self._metrics.restore(facts["progress"])
        self._evaluations = self._paths[0].open("a", newline="")
        self._lines = CSVFile(self._paths[1], columns, append=True)

    def last_step(self) -> int:
        """The step in the last complete line of progress.csv, or 0 if there is none."""
        try:
            last = self._paths[1].read_text(errors="replace").rpartition("\n")[0].rpartition("\n")[2].split(",")[0]
        except OSError:
            return 0
        return int(last) if last.isdecimal() else 0

    def facts(self) -> dict[str, Any]:
        """What `resume` needs in addition to the lines, as JSON values."""
        return {"next": self._next, "progress": self._metrics.facts()}

    def texts(self) -> dict[str, str]:
        """The content of both files, by name."""
        self._flush()
        return {path.name: path.read_text() for path in self._paths}

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
