"""Where the numbers of a training go besides its CSV files: TensorBoard, trackio, Weights & Biases, behind one interface."""

from __future__ import annotations

import importlib
import io
import secrets
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, Protocol

from gemrl.env_args import env_title
from gemrl.errors import MissingExtra, TrackerRefused

TRACKERS = ("trackio", "wandb")
"""What `--track` knows; they agree on how a run is begun, written to and ended."""

PROJECT = "gemrl"
"""Under what name they keep all runs together."""


class Tracker(Protocol):
    """Takes the numbers of a training."""

    def write(self, values: Mapping[str, float], step: int) -> None:
        """Takes values by name, as they are at a step."""

    def close(self) -> None:
        """Brings everything to where it is kept."""


class TensorBoard:
    """Files for TensorBoard in a folder; what was written there beyond `step`, if one is given, is taken back."""

    def __init__(self, folder: str | Path, step: int | None = None) -> None:
        check_installed("tensorboardX", "tensorboard")
        from tensorboardX import SummaryWriter

        # Its files are named by the second: without the suffix, two of one second would be one, and the first lost.
        suffix, beyond = f".{time.time_ns()}", None if step is None else step + 1
        self._writer = SummaryWriter(str(folder), purge_step=beyond, filename_suffix=suffix)

    def write(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """A later value opens a new file."""
        self._writer.close()


class ServiceRun:
    """A run of trackio or W&B. One that is resumed is told nothing twice: `told` is the last step it has heard of."""

    def __init__(self, folder: Path, run: Mapping[str, Any], told: int = 0) -> None:
        service, key = run["track"]["to"], run["track"]["id"]
        check_installed(service, service)
        self._name, self._lost = service, False
        self._service, self._told = importlib.import_module(service), told
        kind = f"{run['algo']} on {env_title(run)}"
        words: dict[str, Any] = {"name": f"{kind}, seed {run['seed']}, {key}", "group": kind, "config": dict(run)}
        if service == "wandb":
            words |= {"id": key, "dir": str(folder), "settings": self._service.Settings(silent=True, console="off")}
        else:
            words |= {"embed": False}
        try:
            with redirect_stdout(io.StringIO()):  # they greet in many lines; `where` is ours
                self._run = self._service.init(project=PROJECT, resume="allow", **words)
        except Exception as error:  # a key that is missing, a server that is not there: theirs to name
            raise TrackerRefused(f"{service} does not take the run: {error}") from None

    def write(self, values: Mapping[str, float], step: int) -> None:
        if step > self._told and not self._lost:
            with self._outliving():
                self._run.log(dict(values), step=step)

    def close(self) -> None:
        with self._outliving(), redirect_stdout(io.StringIO()):
            self._service.finish()

    @contextmanager
    def _outliving(self) -> Iterator[None]:
        """A tracker that fails in the middle of a training is told and left behind: CSV files have all the numbers."""
        try:
            yield
        except Exception as error:
            self._lost = True
            print(f"gemrl: {self._name} failed, and is told no more: {' '.join(str(error).split())}", file=sys.stderr)


def numbered(folder: str | Path, name: str, *, anew: bool) -> Path:
    """The folder of a training, as Stable-Baselines3 names it: name_1, name_2, ...; the last one, if it is not `anew`."""
    there = [file.name.rpartition("_") for file in Path(folder).glob("*_*")]
    last = max((int(number) for begin, _, number in there if begin == name and number.isdecimal()), default=0)
    return Path(folder, f"{name}_{last + 1 if anew or not last else last}")


def check_installed(module: str, extra: str) -> None:
    """Raises if what a tracker needs is not there."""
    try:
        importlib.import_module(module)
    except ImportError:
        raise MissingExtra(f"{module} is not installed: pip install 'gemrl[{extra}]'") from None


def new_track(service: str | None) -> dict[str, str] | None:
    """What a run's description says of its tracker: which, and a name that no other run has."""
    if service is None:
        return None
    check_installed(service, service)
    return {"to": service, "id": secrets.token_hex(4)}


def where(track: Mapping[str, str], folder: Path) -> str:
    """How to look at a run that is tracked."""
    if track["to"] == "trackio":
        return f"tracked           trackio show --project {PROJECT}"
    return f"tracked           project {PROJECT} of W&B as {track['id']}; if offline: wandb sync {folder}/wandb/*run-*"


@contextmanager
def trackers(folder: Path, run: Mapping[str, Any], step: int, told: int) -> Iterator[list[Tracker]]:
    """All trackers of a run that goes on at `step`; each is closed in the end, even if another fails."""
    with ExitStack() as stack:
        every: list[Tracker] = []
        if run["tensorboard"]:
            every.append(TensorBoard(folder / "tensorboard", step))
            stack.callback(every[-1].close)
        if run.get("track"):
            every.append(ServiceRun(folder, run, told))
            stack.callback(every[-1].close)
        yield every
