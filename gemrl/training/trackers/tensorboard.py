"""Metrics for TensorBoard."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from gemrl.training.trackers.base import check_installed


class TensorBoard:
    """Event files in a folder. If `step` is given, TensorBoard drops what was logged there beyond it."""

    def __init__(self, folder: str | Path, step: int | None = None) -> None:
        check_installed("tensorboardX", "tensorboard")
        from tensorboardX import SummaryWriter

        # tensorboardX names its files by the second. Without a suffix, a second file in that second would replace the first.
        suffix, beyond = f".{time.time_ns()}", None if step is None else step + 1
        self._writer = SummaryWriter(str(folder), purge_step=beyond, filename_suffix=suffix)

    def write(self, metrics: Mapping[str, float], step: int) -> None:
        """Logs each metric as a scalar."""
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Closes the file; a later write opens a new one."""
        self._writer.close()


def numbered(folder: str | Path, name: str, *, new: bool) -> Path:
    """The folder of a training, named like Stable-Baselines3's: name_1, name_2, ...; the last one unless it is `new`."""
    existing = [file.name.rpartition("_") for file in Path(folder).glob("*_*")]
    last = max((int(number) for begin, _, number in existing if begin == name and number.isdecimal()), default=0)
    return Path(folder, f"{name}_{last + 1 if new or not last else last}")
