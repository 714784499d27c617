"""Tracking services with a common interface: trackio and Weights & Biases."""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import Any, ClassVar

from gemrl.core.exceptions import TrackerRefused
from gemrl.core.extras import check_installed
from gemrl.training.trackers.base import RunInfo

PROJECT = "gemrl"
"""The project that contains all runs, in both services."""


class _Service:
    """A run of a tracking service. A resumed run logs no step twice."""

    package: ClassVar[str]

    def __init__(self, info: RunInfo) -> None:
        check_installed(self.package, self.package)
        self._service = importlib.import_module(self.package)
        self._logged_until, self._failed = info.logged_until, False
        options: dict[str, Any] = {"name": f"{info.name}, {info.id}", "group": info.group, "config": dict(info.config)}
        try:
            with redirect_stdout(io.StringIO()):  # both print many lines; `location` needs one
                self._run = self._service.init(project=PROJECT, resume="allow", **options, **self._own_options(info))
        except Exception as error:  # such as a missing API key or an unreachable server
            raise TrackerRefused(f"{self.package} did not accept the run: {error}") from None

    def _own_options(self, info: RunInfo) -> dict[str, Any]:
        """Options of `init` that only this service has."""
        raise NotImplementedError

    def write(self, metrics: Mapping[str, float], step: int) -> None:
        """Logs metrics, unless the service has failed or has this step already."""
        if step > self._logged_until and not self._failed:
            with self._tolerated():
                self._run.log(dict(metrics), step=step)

    def close(self) -> None:
        """Ends the service's run."""
        with self._tolerated(), redirect_stdout(io.StringIO()):
            self._service.finish()

    @contextmanager
    def _tolerated(self) -> Iterator[None]:
        """Reports a service that fails during training and stops using it; the CSV files have all metrics."""
        try:
            yield
        except Exception as error:
            self._failed = True
            print(f"gemrl: {self.package} failed and is no longer used: {' '.join(str(error).split())}", file=sys.stderr)


class Trackio(_Service):
    """trackio, a local dashboard."""

    package = "trackio"

    def _own_options(self, info: RunInfo) -> dict[str, Any]:
        return {"embed": False}

    @staticmethod
    def location(info: RunInfo) -> str:
        """The command that shows the run."""
        return f"trackio show --project {PROJECT}"


class Wandb(_Service):
    """Weights & Biases."""

    package = "wandb"

    def _own_options(self, info: RunInfo) -> dict[str, Any]:
        return {"id": info.id, "dir": str(info.folder), "settings": self._service.Settings(silent=True, console="off")}

    @staticmethod
    def location(info: RunInfo) -> str:
        """The project and id of the run, and how to upload it if it was logged offline."""
        return f"project {PROJECT} of W&B as {info.id}; if offline: wandb sync {info.folder}/wandb/*run-*"
