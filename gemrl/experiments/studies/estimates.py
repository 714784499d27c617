"""Estimates how long a study will take, from the runs in its folder and from a table of speeds."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from gemrl.core.env_names import is_atari
from gemrl.core.text import counted
from gemrl.experiments.run_logs import Timing, read_last_return, read_timings
from gemrl.experiments.studies.folder import PlannedRun

TRAINING_MS = {
    "gem": 16.0,
    "gem2": 25.0,
    "td3": 5.5,
    "ddpg": 4.0,
    "emac": 6.0,
    "sac": 8.0,
    "redq": 14.0,
    "vem": 12.0,
    "td3-bc": 6.0,
    "optimality-tightening": 8.0,
    "ladder-0": 5.0,
    "ladder-1": 7.0,
    "ladder-2": 10.0,
    "dqn": 3.0,
    "ddqn": 3.0,
    "dueling-dqn": 4.0,
    "clipped-ddqn": 6.0,
    "emdqn": 4.0,
    "nec": 3.0,
    "ebu": 4.0,
    "gem-discrete": 12.0,
    "gem2-discrete": 12.0,
    "mfec": 4.0,
    "gem-tabular": 0.1,
    "gem2-tabular": 0.1,
    "q-learning": 0.1,
    "double-q": 0.1,
    "nstep-q": 0.2,
}
"""Milliseconds of training per environment step, on one thread of the machine used for the results in docs/."""
ATARI_MS = {"dqn": 14.0, "ddqn": 15.0, "dueling-dqn": 18.0, "clipped-ddqn": 28.0, "gem-discrete": 62.0, "gem2-discrete": 62.0}
MINATAR_MS = {"dqn": 1.0, "ddqn": 1.1, "dueling-dqn": 1.3, "clipped-ddqn": 1.6, "emdqn": 1.8, "ebu": 1.8}
MINATAR_MS |= {"nec": 12.0, "gem-discrete": 4.2, "gem2-discrete": 4.2}
"""The same for discrete agents on Atari and on MinAtar, whose presets train at other intervals."""

STEP_MS = {"Humanoid": 0.5, "Ant": 0.3, "NoFrameskip": 1.0, "ALE/": 1.0}
OTHER_STEP_MS = 0.15
"""Milliseconds to choose an action and step an environment: by part of its name, and for all others."""

EPISODE_STEPS, STARTUP_SECONDS = 600, 12.0
"""Rough guesses: steps of an evaluation episode, and seconds to start and compile."""


class RunProgress(NamedTuple):
    """The progress of a run, according to its CSV files."""

    step: int = 0
    elapsed: float = 0.0
    speed: float = 0.0
    last_return: float | None = None


def run_progress(folder: Path) -> RunProgress:
    """The progress of the run in a folder. The speed is measured over about the last 1,000 steps."""
    timings = read_timings(folder)
    if not timings:
        return RunProgress()
    now, before = timings[-1], timings[-2] if len(timings) > 1 else Timing(0, 0.0)
    speed = (now.steps - before.steps) / (now.seconds - before.seconds) if now.seconds > before.seconds else 0.0
    return RunProgress(now.steps, now.seconds, speed, read_last_return(folder))


def table_estimate(plan: PlannedRun, steps: int) -> float:
    """Seconds for this many steps of a run, according to the table."""
    facts = plan.facts
    stepping = next((cost for part, cost in STEP_MS.items() if part in facts["env"]), OTHER_STEP_MS)
    table = ATARI_MS if is_atari(facts["env"]) else MINATAR_MS if "MinAtar/" in facts["env"] else TRAINING_MS
    names = [name for name in table if facts["algo"].startswith(name)]
    training = table[max(names, key=len)] if names else max(table.values())
    trained = max(0, steps - facts["recipe"].get("learning_starts", 0))
    evaluated = steps // facts["eval_every"] * facts["eval_episodes"] * EPISODE_STEPS
    return STARTUP_SECONDS + (trained * training + (steps + evaluated) * stepping) / 1000


def _ratio(plan: PlannedRun, progress: RunProgress) -> float | None:
    """How much longer a run takes than the table says; None if it has hardly started to train."""
    if progress.step <= plan.facts["recipe"].get("learning_starts", 0) + 1000:
        return None
    return (STARTUP_SECONDS + progress.elapsed) / table_estimate(plan, progress.step)


class Estimate:
    """Seconds that runs take: those of the table, corrected by the measured times of similar runs."""

    def __init__(self, plans: Iterable[PlannedRun]) -> None:
        self._ratios: list[tuple[str, str, float]] = []
        for plan in plans:
            ratio = _ratio(plan, run_progress(plan.job.folder))
            if ratio is not None:
                self._ratios.append((plan.trial.entry.label, plan.trial.env, ratio))

    @property
    def source(self) -> str:
        """Where the estimate comes from."""
        if self._ratios:
            return f"estimated from {counted(len(self._ratios), 'run')} in this folder and a table of relative costs"
        return "estimated from speeds on another machine; it may be off by a factor of two or three"

    def left(self, plan: PlannedRun, progress: RunProgress) -> float:
        """Seconds until a run with this progress is done."""
        spent = table_estimate(plan, progress.step) if progress.step else 0.0  # a new run still has to start and compile
        return max(0.0, table_estimate(plan, plan.facts["steps"]) - spent) * self._correction(plan, progress) + 1.0

    def _correction(self, plan: PlannedRun, progress: RunProgress) -> float:
        """Measured time divided by that of the table: of this run, else the median of the most similar runs."""
        own = _ratio(plan, progress)
        if own is not None:
            return own
        label, env = plan.trial.entry.label, plan.trial.env
        for similar in (
            [ratio for name, other_env, ratio in self._ratios if (name, other_env) == (label, env)],
            [ratio for name, _, ratio in self._ratios if name == label],
            [ratio for _, _, ratio in self._ratios],
        ):
            if similar:
                return median(similar)
        return 1.0


def makespan(seconds: Sequence[float], workers: int) -> float:
    """Seconds until the last of these jobs ends, if each worker takes the next one as soon as it is free."""
    free = [0.0] * max(1, workers)
    for duration in seconds:
        heapq.heappush(free, heapq.heappop(free) + duration)
    return max(free)


def duration_text(seconds: float) -> str:
    """A duration as text, such as "45 s" or "2.5 h"."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if minutes < 120:
        return f"{minutes} min"
    hours = minutes / 60
    return f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.1f} days"
