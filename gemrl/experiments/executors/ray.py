"""Runs of a study as tasks of a Ray cluster. Their folders are on a path that all machines share, so any of them can go on."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gemrl.core.exceptions import BadValue, MissingExtra
from gemrl.core.exit_codes import INTERRUPTED
from gemrl.core.locking import is_free
from gemrl.experiments.executors.base import KILLED, ExecutorOptions, Job
from gemrl.experiments.executors.local import LocalProcess

RETRIES = 3
"""How often Ray itself starts a task again whose node or process was lost; then the study does."""

STOPPED = INTERRUPTED
"""The exit code of a run that was asked to stop."""

PASSED_ON = ("JAX_", "XLA_", "MUJOCO_")
"""Beginnings of names in the environment that runs take from the machine of the study: they decide bits."""


def _train(folder: str, words: tuple[str, ...], log: str, environment: Mapping[str, str], cwd: str) -> int:
    """What a node does: the run in a process of its own, as on any machine; its exit code.

    It starts in the folder that the study was started in, if the node has it: a module of the user's own may lie there.
    """
    # A cluster that was started in the background ignores this signal, and then no task could be asked to stop.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    while not is_free(Path(folder)):  # of a node that was lost, whose process may be writing its last checkpoint
        time.sleep(0.5)
    process = LocalProcess(Job(Path(folder), words, Path(log)), environment, cwd if Path(cwd).is_dir() else None)
    try:
        while (code := process.poll()) is None:
            time.sleep(0.2)
    except KeyboardInterrupt:  # this is how a cancelled task is told
        process.stop()
        while (code := process.poll()) is None:
            time.sleep(0.2)
    finally:
        process.kill()
    return code


class RayProcess:
    """A task of the cluster."""

    def __init__(self, ray: Any, reference: Any, log: Path) -> None:
        self._ray, self._reference, self._log = ray, reference, log

    def poll(self) -> int | None:
        """Its exit code, once it has ended; one that Ray gave up counts as killed."""
        ray, errors = self._ray, self._ray.exceptions
        if not ray.wait([self._reference], timeout=0)[0]:
            return None
        try:
            return int(ray.get(self._reference))
        except errors.TaskCancelledError:
            return STOPPED
        except errors.RayTaskError as error:
            return self._told(error)
        except errors.RayError:
            return KILLED

    def _told(self, error: Exception) -> int:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("a") as log:
            log.write(f"{str(error).strip().splitlines()[-1]}\n")
        return 1

    def stop(self) -> None:
        """Asks it to write a checkpoint and end."""
        self._ray.cancel(self._reference, force=False)

    def kill(self) -> None:
        """Ends it at once."""
        self._ray.cancel(self._reference, force=True)


class Ray:
    """Tasks on an existing cluster, all at once or `workers` at a time; Ray finds a place for each."""

    def __init__(self, address: str, workers: int | None, gpus: float) -> None:
        self._ray = ray = _imported()
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError) as error:
            told = str(error).strip().splitlines()[0]
            raise BadValue(f"no Ray cluster at {address!r}: {told} (start one with `ray start --head`)") from None
        cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self.slots = workers or 1_000_000
        self.at_once = min(self.slots, cores)
        self._environment = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
        if 0 < gpus < 1:  # else the first run on a GPU takes three quarters of its memory
            self._environment.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{0.9 * gpus:.3f}")
        self._task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=RETRIES)(_train)

    @staticmethod
    def of(options: ExecutorOptions) -> Ray:
        """The executor that these options ask for: by default, the cluster that this machine is part of."""
        return Ray(options.address or os.environ.get("RAY_ADDRESS") or "auto", options.workers, options.gpus_per_run)

    def start(self, job: Job) -> RayProcess:
        """Hands the job to the cluster."""
        reference = self._task.remote(str(job.folder), job.words, str(job.log), self._environment, os.getcwd())
        return RayProcess(self._ray, reference, job.log)

    def close(self) -> None:
        """Leaves the cluster, which stays."""
        self._ray.shutdown()


def _imported() -> Any:
    try:
        import ray
    except ImportError:
        raise MissingExtra("--executor ray needs what is not installed: pip install 'gemrl[ray]'") from None
    return ray
