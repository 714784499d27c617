"""The CSV files of a run: written line by line while it trains, cut when it is resumed, read by whoever looks."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from gemrl.files import write_bytes
from gemrl.progress import PROGRESS_COLUMNS, Progress
from gemrl.recipes import AnyRecipe
from gemrl.training import Moment

EVALUATION_COLUMNS = ("step", "return_mean", "return_std", "length_mean", "estimation_error")

LOGS = ("evaluations.csv", "progress.csv")
"""The files a Recorder writes."""

EVERY = 1000
"""Steps between two lines of progress.csv."""


def read_evaluations(folder: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The columns of evaluations.csv."""
    with (Path(folder) / "evaluations.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name]) for row in rows]) for name in EVALUATION_COLUMNS}


class Recorder:
    """Writes evaluations.csv and progress.csv while a run goes on."""

    def __init__(self, folder: Path, recipe: AnyRecipe) -> None:
        self._progress, self._next = Progress(recipe), EVERY
        self._paths = [folder / name for name in LOGS]
        self._files: list[IO[str]] = []
        self._columns: Sequence[str] = PROGRESS_COLUMNS

    def start(self) -> None:
        """Begins both files."""
        self._open("w")
        csv.writer(self._files[0], lineterminator="\n").writerow(EVALUATION_COLUMNS)
        csv.writer(self._files[1], lineterminator="\n").writerow(PROGRESS_COLUMNS)

    def resume(self, facts: dict[str, Any], texts: Mapping[str, str]) -> None:
        """Goes on behind the lines that were there when `facts` was told; later ones are dropped."""
        for path in self._paths:
            write_bytes(path, texts[path.name].encode())
        self._columns = texts[LOGS[1]].partition("\n")[0].split(",")  # a run of old may have fewer
        self._next = int(facts["next"])
        self._progress.recall(facts["progress"])
        self._open("a")

    def last_step(self) -> int:
        """The last step that progress.csv tells of; 0 if it tells of none."""
        try:
            last = self._paths[1].read_text(errors="replace").rpartition("\n")[0].rpartition("\n")[2].split(",")[0]
        except OSError:
            return 0
        return int(last) if last.isdecimal() else 0

    def facts(self) -> dict[str, Any]:
        """What `resume` needs beside the lines, as JSON values."""
        return {"next": self._next, "progress": self._progress.facts()}

    def texts(self) -> dict[str, str]:
        """The lines so far, by file."""
        self._flush()
        return {path.name: path.read_text() for path in self._paths}

    def __call__(self, moment: Moment) -> dict[str, float] | None:
        """Takes note of a moment; the line it wrote to progress.csv, if it did."""
        self._progress.note(moment)
        evaluations, lines = self._files
        if moment.evaluation:
            numbers = (getattr(moment.evaluation, name) for name in EVALUATION_COLUMNS[1:])
            csv.writer(evaluations, lineterminator="\n").writerow([moment.step, *(repr(number) for number in numbers)])
        elif moment.step < self._next:
            return None
        self._next = moment.step - moment.step % EVERY + EVERY
        line = self._progress.line(moment.step, moment.evaluation)
        csv.DictWriter(lines, self._columns, restval="", extrasaction="ignore", lineterminator="\n").writerow(line)
        self._flush()
        return line

    def close(self) -> None:
        """Closes both files."""
        for file in self._files:
            file.close()

    def _open(self, mode: str) -> None:
        self._files = [path.open(mode, newline="") for path in self._paths]

    def _flush(self) -> None:
        for file in self._files:
            file.flush()
