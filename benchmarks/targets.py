"""Performance targets, and whether the measurements meet them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.timing import medians

Results = dict[str, Any]
"""The content of results/performance/peers.json, which `benchmarks.peers` writes."""


@dataclass(frozen=True)
class Target:
    """A bound and the measured value."""

    description: str
    bound: float
    found: float | None
    form: str = "{:.2f}"
    at_least: bool = False

    @property
    def verdict(self) -> str:
        """Whether the target is met."""
        if self.found is None:
            return "not measured"
        return "met" if (self.found >= self.bound if self.at_least else self.found <= self.bound) else "**not met**"

    @property
    def row(self) -> str:
        """The target as a row of a Markdown table."""
        bound = ("at least " if self.at_least else "at most ") + self.form.format(self.bound)
        found = "" if self.found is None else self.form.format(self.found)
        return f"| {self.description} | {bound} | {found} | {self.verdict} |"


def ratio(results: Results, algo: str, threads: int, peer: str, task: str = "round") -> float | None:
    """Our median time for a task, such as a gradient step, divided by that of another library; None if it was not measured."""
    wanted = {"algo": algo, "threads": threads, "task": task}
    for record in results["peers"]:
        if wanted.items() <= record.items():
            times = medians(record["seconds"])
            return times["gemrl"] / times[peer]
    return None


def rate(results: Results, part: str) -> float:
    """Floating-point operations per second of a part of the round, as a share of a large matrix multiplication."""
    times, work = medians(results["gem"]["round"]), results["gem"]["flops"]
    return work[part] / times[part] / (work["multiply"] / times["multiply"])


def growing(results: Results, name: str) -> list[tuple[Any, dict[str, float]]]:
    """The values of one size, with all others at their default, and the median seconds of each part."""
    others = [other for other in ("rows", "depth", "batch", "width") if other != name]
    cases = [case for case in results["growth"] if all(case[other] == results["gem"][other] for other in others)]
    return sorted((case[name], medians(case["seconds"])) for case in cases)


def round_seconds(results: Results, **wanted: Any) -> dict[int, float]:
    """Median seconds of the round by rows of memory, for the cases of "memories" with these fields."""
    wanted = {"trajectory_rows": 0, "whole": False, **wanted}
    cases = [case for case in results["memories"] if wanted.items() <= case.items()]
    return {case["rows"]: medians(case["seconds"])["round"] for case in cases}


def faster_with_threads(results: Results, part: str, count: int = 2) -> float | None:
    """The time of a part of the round with this many threads, divided by that with one; None if it was not measured."""
    times = {record["threads"]: medians(record["seconds"])[part] for record in results["threads"]}
    return times[count] / times[1] if {1, count} <= times.keys() else None


def overlapping(results: Results) -> float:
    """The time of a run with overlap, divided by the longer of its environment's time and that of the rest."""
    times = medians(results["overlap"]["seconds"])
    return times["together"] / max(times["environment"], times["rest"])


def scale(results: Results) -> list[Target]:
    """The targets of large memories and slow environments."""
    drawn = max(case["trajectory_rows"] for case in results["memories"])
    short, long = round_seconds(results, depth=5), round_seconds(results, depth=1000, trajectory_rows=drawn)
    whole, many = round_seconds(results, depth=5, whole=True), round_seconds(results, depth=1000, whole=True)
    few, most = min(long), max(long)
    start = medians(results["starts"]["seconds"])
    return [
        Target(f"GEM's round, depth 5: {most:,} rows, relative to {few:,}", 1.5, short[most] / short[few]),
        Target(f"GEM's round, depth 5, {few:,} rows: relative to a refresh of all rows", 0.85, short[few] / whole[few]),
        Target(f"the same, depth 1000 with trajectory draws: {most:,} rows, relative to {few:,}", 1.5, long[most] / long[few]),
        Target(f"the same, {few:,} rows: relative to a refresh of all rows", 0.75, long[few] / many[few]),
        Target("GEM's round, two threads: time relative to one", 0.65, faster_with_threads(results, "round")),
        Target("environment of 20 ms a step, overlap: time relative to the longer of both", 1.15, overlapping(results)),
        Target(
            "start to the end of the first round, other numbers: time relative to the same numbers",
            1.2,
            start["other numbers"] / start["same numbers"],
        ),
        Target("programs compiled for other numbers", 0, results["starts"]["compiled"], "{:.0f}"),
    ]


LOOPS = {"td3": {"Stable-Baselines3": 0.50, "SBX": 0.75}, "sac": {"Stable-Baselines3": 0.50, "SBX": 0.80}}
"""Bounds of the whole loop's time per step, relative to other libraries."""


def loops(results: Results) -> list[Target]:
    """The targets of the whole training loop."""
    return [
        Target(
            f"{algo.upper()}, whole loop, one thread: time relative to {peer}", bound, ratio(results, algo, 1, peer, task="loop")
        )
        for algo, bounds in LOOPS.items()
        for peer, bound in bounds.items()
    ]


def targets(results: Results) -> list[Target]:
    """All targets with the measured values."""
    times, planning = medians(results["gem"]["round"]), medians(results["gem"]["planning"])
    (_, few), (_, many) = growing(results, "rows")[-2:]
    depths = growing(results, "depth")
    deeper = depths[-1][1]["round"] / depths[0][1]["round"] - 1
    percent = "{:.1%}"
    return [
        Target(
            "TD3, gradient step, one thread: time relative to Stable-Baselines3",
            0.40,
            ratio(results, "td3", 1, "Stable-Baselines3"),
        ),
        Target("TD3, gradient step, one thread: time relative to SBX", 0.75, ratio(results, "td3", 1, "SBX")),
        Target("TD3, gradient step, two threads: time relative to SBX", 1.0, ratio(results, "td3", 2, "SBX")),
        Target(
            "DQN on images, gradient step, one thread: time relative to Stable-Baselines3",
            0.60,
            ratio(results, "dqn", 1, "Stable-Baselines3"),
        ),
        Target(
            "DQN on images, gradient step, two threads: time relative to Stable-Baselines3",
            0.60,
            ratio(results, "dqn", 2, "Stable-Baselines3"),
        ),
        *loops(results),
        *scale(results),
        Target("GEM's round: share of matrix-multiply speed", 0.70, rate(results, "round"), percent, at_least=True),
        Target(
            "GEM's gradient steps: share of matrix-multiply speed", 0.55, rate(results, "gradient_steps"), percent, at_least=True
        ),
        Target("planning: speed-up over the dense method", 150, planning["dense"] / planning["planner"], "{:.0f}", at_least=True),
        Target("planning: share of the round", 0.02, times["plan"] / times["round"], percent),
        Target("refresh of 10 times as many rows: time relative to 10 refreshes", 1.15, many["refresh"] / (10 * few["refresh"])),
        Target("round at the largest depth: extra time compared with depth 1", 0.05, deeper, percent),
    ]
