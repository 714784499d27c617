"""Writes metrics to a CSV file."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from gemrl.training.metrics import PROGRESS_COLUMNS


class CSVFile:
    """A CSV file with one line per write. Metrics without a column are left out."""

    def __init__(self, path: str | os.PathLike[str], columns: Sequence[str] = PROGRESS_COLUMNS, *, append: bool = False) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._file = Path(path).open("a" if append else "w", newline="")  # noqa: SIM115 (closed in `close`)
        self._writer = csv.DictWriter(self._file, columns, restval="", extrasaction="ignore", lineterminator="\n")
        if not append:
            self._writer.writeheader()

    def write(self, metrics: Mapping[str, float], step: int) -> None:
        """Appends a line."""
        self._writer.writerow(dict(metrics))

    def flush(self) -> None:
        """Writes buffered lines to disk."""
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
