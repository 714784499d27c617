"""How long a study will take: an estimate from the runs it has done, and before these from a table of speeds."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from gemrl.core.env_names import is_atari
from gemrl.experiments.run_logs import Timing, read_last_return, read_timings
from gemrl.experiments.studies.folder import PlannedRun

TRAINING = {
    "gem": 16.0,
    "td3": 5.5,
    "ddpg": 4.0,
    "sac": 8.0,
    "redq": 14.0,
    "optimality-tightening": 8.0,
    "ladder-0": 5.0,
    "ladder-1": 7.0,
    "ladder-2": 10.0,
    "dqn": 3.0,
    "ddqn": 3.0,
    "dueling-dqn": 4.0,
    "clipped-ddqn": 6.0,
    "gem-discrete": 12.0,
    "mfec": 4.0,
    "gem-tabular": 0.1,
    "q-learning": 0.1,
    "double-q": 0.1,
    "nstep-q": 0.2,
}
"""Milliseconds of training per environment step, on one thread of the machine that the results in docs/ come from."""
ON_IMAGES = {"dqn": 14.0, "ddqn": 15.0, "dueling-dqn": 18.0, "clipped-ddqn": 28.0, "gem-discrete": 62.0}
ON_BOARDS = {"dqn": 1.0, "ddqn": 1.1, "dueling-dqn": 1.3, "clipped-ddqn": 1.6, "gem-discrete": 4.2}
"""The same of discrete agents that look at Atari, and at MinAtar: their presets train at other intervals."""

STEPPING = {"Humanoid": 0.5, "Ant": 0.3, "NoFrameskip": 1.0, "ALE/": 1.0}
STEPPED = 0.15
"""Milliseconds to act and step an environment, where none of these is in its name."""

EPISODE, START = 600, 12.0
"""Steps of an episode of evaluation, and seconds to start and compile: guesses."""


class RunProgress(NamedTuple):
    """How far a run is, as its CSV files say."""

    step: int = 0
    elapsed: float = 0.0
    speed: float = 0.0
    last_return: float | None = None


def run_progress(folder: Path) -> RunProgress:
    """How far the run in a folder is; the speed is that of about the last 1,000 steps."""
    timings = read_timings(folder)
    if not timings:
        return RunProgress()
    now, before = timings[-1], timings[-2] if len(timings) > 1 else Timing(0, 0.0)
    speed = (now.steps - before.steps) / (now.seconds - before.seconds) if now.seconds > before.seconds else 0.0
    return RunProgress(now.steps, now.seconds, speed, read_last_return(folder))


def table_estimate(plan: PlannedRun, steps: int) -> float:
    """Seconds for so many steps of a run, after the table."""
    facts = plan.facts
    stepping = next((cost for part, cost in STEPPING.items() if part in facts["env"]), STEPPED)
    table = ON_IMAGES if is_atari(facts["env"]) else ON_BOARDS if "MinAtar/" in facts["env"] else TRAINING
    names = [name for name in table if facts["algo"].startswith(name)]
    training = table[max(names, key=len)] if names else max(table.values())
    trained = max(0, steps - facts["recipe"].get("learning_starts", 0))
    evaluated = steps // facts["eval_every"] * facts["eval_episodes"] * EPISODE
    return START + (trained * training + (steps + evaluated) * stepping) / 1000


def _ratio(plan: PlannedRun, seen: RunProgress) -> float | None:
    """How much longer a run takes than the table says; None if it has hardly begun to learn."""
    if seen.step <= plan.facts["recipe"].get("learning_starts", 0) + 1000:
        return None
    return (START + seen.elapsed) / table_estimate(plan, seen.step)


class Estimate:
    """Seconds of runs: the table's, corrected by what runs of the same algorithm and environment took, or their like."""

    def __init__(self, plans: Iterable[PlannedRun]) -> None:
        self._ratios: list[tuple[str, str, float]] = []
        for plan in plans:
            ratio = _ratio(plan, run_progress(plan.job.folder))
            if ratio is not None:
                self._ratios.append((plan.run.entry.label, plan.run.env, ratio))

    @property
    def source(self) -> str:
        """Where the numbers come from."""
        if self._ratios:
            return f"from {len(self._ratios)} run{'s' * (len(self._ratios) > 1)} in this folder and a table of relative costs"
        return "from a table of speeds on another machine, so it may be off by a factor of two or three"

    def left(self, plan: PlannedRun, seen: RunProgress) -> float:
        """Seconds until a run that is so far will be done."""
        behind = table_estimate(plan, seen.step) if seen.step else 0.0  # a run that has not begun still has to start and compile
        return max(0.0, table_estimate(plan, plan.facts["steps"]) - behind) * self._correction(plan, seen) + 1.0

    def _correction(self, plan: PlannedRun, seen: RunProgress) -> float:
        own = _ratio(plan, seen)
        if own is not None:
            return own
        label, env = plan.run.entry.label, plan.run.env
        for fits in (
            [ratio for name, place, ratio in self._ratios if (name, place) == (label, env)],
            [ratio for name, _, ratio in self._ratios if name == label],
            [ratio for _, _, ratio in self._ratios],
        ):
            if fits:
                return median(fits)
        return 1.0


def makespan(seconds: Sequence[float], workers: int) -> float:
    """When the last of these jobs ends, if each worker takes the next one as soon as it is free."""
    free = [0.0] * max(1, workers)
    for duration in seconds:
        heapq.heappush(free, heapq.heappop(free) + duration)
    return max(free)


def duration_text(seconds: float) -> str:
    """A duration for people."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if minutes < 120:
        return f"{minutes} min"
    hours = minutes / 60
    return f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.1f} days"
