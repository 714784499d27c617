"""What a run takes and returns: its options, the screen it reports to, and its outcome."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from gemrl.core.exceptions import BadValue
from gemrl.core.processes import ENV_TIMEOUT
from gemrl.core.validation import MAX_ENVS, check_number, check_seed
from gemrl.experiments.description import env_title
from gemrl.training.trackers.base import RunInfo

if TYPE_CHECKING:
    from gemrl.training.loop import Event


@dataclass(frozen=True)
class TrainOptions:
    """Options of a new run. None means the default for the environment."""

    env: str
    env_args: Mapping[str, Any] = field(default_factory=dict)
    algo: str = "gem"
    steps: int = 1_000_000
    seed: int = 0
    settings: tuple[str, ...] = ()
    """Fields of the recipe to change, each "field=value"."""
    eval_every: int | None = None
    eval_episodes: int | None = None
    n_envs: int = 1
    checkpoint_every: int | None = None
    env_timeout: int = ENV_TIMEOUT
    tensorboard: bool = False
    track: str | None = None
    device: str = "auto"
    data: tuple[str, ...] = ()
    """Paths of recorded trajectories that are in the memory from the start."""
    keep_data: bool = False
    offline: bool = False
    """Whether it takes gradient steps on the data alone; `steps` and `eval_every` then count these."""
    keep_best: bool = True
    """Whether the model of the best evaluation is kept beside the last one."""

    def __post_init__(self) -> None:
        check_seed("seed", self.seed)
        check_number("n_envs", self.n_envs, 1, MAX_ENVS, whole=True)
        if self.keep_data and not self.data:
            raise BadValue("--keep-data keeps what --data names, but there is no --data")
        if self.offline:
            self._check_offline()
        _check_counts(self, "steps", "eval_every", "eval_episodes", "checkpoint_every", "env_timeout")

    def _check_offline(self) -> None:
        """Raises if an option has no meaning without steps of an environment."""
        if not self.data:
            raise BadValue("--offline trains on recorded trajectories alone: name them with --data PATH")
        if self.n_envs > 1:
            raise BadValue("--offline steps no environments: leave out --n-envs")
        if self.keep_data:
            raise BadValue("--offline never overwrites its data: leave out --keep-data")


@dataclass(frozen=True)
class ResumeOptions:
    """Options for continuing an existing run. None keeps the value of the run."""

    folder: Path
    steps: int | None = None
    other_versions: bool = False
    env_timeout: int | None = None

    def __post_init__(self) -> None:
        _check_counts(self, "steps", "env_timeout")


def _check_counts(options: TrainOptions | ResumeOptions, *names: str) -> None:
    """Raises unless each of these options is None or a whole number of at least 1."""
    for name in names:
        if getattr(options, name) is not None:
            check_number(name, getattr(options, name), 1, whole=True)


class Screen(Protocol):
    """Where a run shows its progress and messages."""

    def progress(self, events: Iterator[Event], steps: int, title: str) -> Generator[Event]:
        """Passes on the events of training and shows progress."""

    def say(self, line: str) -> None:
        """Prints a line."""

    def working(self, activity: str) -> AbstractContextManager[Any]:
        """Shows an activity until the context ends."""


class Outcome(NamedTuple):
    """How a run ended."""

    folder: Path
    finished: bool
    can_render: bool = False
    """Whether a video of the environment can be made."""


def run_info(folder: Path, description: Mapping[str, Any], logged_until: int = 0) -> RunInfo:
    """The information about a run that trackers get."""
    group = f"{description['algo']} on {env_title(description)}"
    name, track = f"{group}, seed {description['seed']}", description.get("track") or {}
    return RunInfo(name, group, track.get("id", ""), folder, description, logged_until)
