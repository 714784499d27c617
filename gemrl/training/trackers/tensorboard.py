"""Writes metrics for TensorBoard."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from gemrl.core.extras import check_installed


class TensorBoard:
    """Writes event files to a folder. If `step` is given, TensorBoard discards what was logged after it."""

    def __init__(self, folder: str | Path, step: int | None = None) -> None:
        check_installed("tensorboardX", "tensorboard")
        from tensorboardX import SummaryWriter

        # tensorboardX names files by time in seconds: without a suffix, another file in the same second would replace the first.
        suffix, first_discarded = f".{time.time_ns()}", None if step is None else step + 1
        self._writer = SummaryWriter(str(folder), purge_step=first_discarded, filename_suffix=suffix)

    def write(self, metrics: Mapping[str, float], step: int) -> None:
        """Logs each metric as a scalar."""
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Closes the file; a later write opens a new one."""
        self._writer.close()


def numbered(folder: str | Path, name: str, *, new: bool) -> Path:
    """The log folder, as in Stable-Baselines3: name_1, name_2, ...; a `new` one, or else the last."""
    existing = [file.name.rpartition("_") for file in Path(folder).glob("*_*")]
    last = max((int(number) for begin, _, number in existing if begin == name and number.isdecimal()), default=0)
    return Path(folder, f"{name}_{last + 1 if new or not last else last}")
