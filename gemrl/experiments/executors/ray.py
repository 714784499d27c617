"""Executor that runs a study as tasks on a Ray cluster.

All machines must share the path of the study's folder, so that any of them can resume a run.
"""

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
from gemrl.experiments.executors.local import LocalProcess, open_log

RETRIES = 3
"""How often Ray restarts a task whose node or process was lost; after that, the study does."""

STOPPED = INTERRUPTED
"""The exit code of a run that was asked to stop."""

PASSED_ON = ("JAX_", "XLA_", "MUJOCO_")
"""Prefixes of the environment variables that are passed on to the runs, because they affect results."""


def _train(folder: str, arguments: tuple[str, ...], log: str, environment: Mapping[str, str], cwd: str) -> int:
    """Runs a job in a separate process on a node and returns its exit code.

    The working directory is that of the study, if the node has it: it may contain modules of the user.
    """
    # A cluster that was started in the background ignores SIGINT; its tasks could not be asked to stop.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    while not is_free(Path(folder)):  # the process of a lost node may still be writing its last checkpoint
        time.sleep(0.5)
    process = LocalProcess(Job(Path(folder), arguments, Path(log)), environment, cwd if Path(cwd).is_dir() else None)
    try:
        while (code := process.poll()) is None:
            time.sleep(0.2)
    except KeyboardInterrupt:  # raised when the task is cancelled
        process.stop()
        while (code := process.poll()) is None:
            time.sleep(0.2)
    finally:
        process.kill()
    return code


class RayProcess:
    """A task on the cluster."""

    def __init__(self, ray: Any, reference: Any, log: Path) -> None:
        self._ray, self._reference, self._log = ray, reference, log

    def poll(self) -> int | None:
        """The exit code, or None while it is running. A task that Ray gave up on counts as killed."""
        ray, errors = self._ray, self._ray.exceptions
        if not ray.wait([self._reference], timeout=0)[0]:
            return None
        try:
            return int(ray.get(self._reference))
        except errors.TaskCancelledError:
            return STOPPED
        except errors.RayTaskError as error:
            self._append_to_log(error)
            return 1
        except errors.RayError:
            return KILLED

    def _append_to_log(self, error: Exception) -> None:
        with open_log(self._log) as log:
            log.write(f"{str(error).strip().splitlines()[-1]}\n")

    def stop(self) -> None:
        """Asks it to write a checkpoint and exit."""
        self._ray.cancel(self._reference, force=False)

    def kill(self) -> None:
        """Kills it."""
        self._ray.cancel(self._reference, force=True)


class Ray:
    """Tasks on an existing cluster, all at once or `workers` at a time. Ray schedules them."""

    def __init__(self, address: str, workers: int | None, gpus: float) -> None:
        self._ray = ray = _imported()
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            raise BadValue(
                f"cannot connect to a Ray cluster at {address!r}: {reason} (start one with `ray start --head`)"
            ) from None
        cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self.slots = workers or 1_000_000
        self.at_once = min(self.slots, cores)
        self._environment = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
        if 0 < gpus < 1:  # otherwise the first run takes three quarters of the GPU's memory
            self._environment.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{0.9 * gpus:.3f}")
        self._task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=RETRIES)(_train)

    @staticmethod
    def of(options: ExecutorOptions) -> Ray:
        """The executor with these options; by default on the cluster that this machine belongs to."""
        return Ray(options.address or os.environ.get("RAY_ADDRESS") or "auto", options.workers, options.gpus_per_run)

    def start(self, job: Job) -> RayProcess:
        """Submits the job to the cluster."""
        reference = self._task.remote(str(job.folder), job.arguments, str(job.log), self._environment, os.getcwd())
        return RayProcess(self._ray, reference, job.log)

    def close(self) -> None:
        """Disconnects from the cluster, which keeps running."""
        self._ray.shutdown()


def _imported() -> Any:
    """The module `ray`, or an error that says how to install it."""
    try:
        import ray
    except ImportError:
        raise MissingExtra("ray is not installed: pip install 'gemrl[ray]'") from None
    return ray
