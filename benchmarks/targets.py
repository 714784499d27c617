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


def ratio(results: Results, algo: str, threads: int, peer: str) -> float | None:
    """Our median time per gradient step, divided by that of another library; None if it was not measured."""
    wanted = {"algo": algo, "threads": threads, "task": "round"}
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
        Target("GEM's round: share of matrix-multiply speed", 0.70, rate(results, "round"), percent, at_least=True),
        Target(
            "GEM's gradient steps: share of matrix-multiply speed", 0.55, rate(results, "gradient_steps"), percent, at_least=True
        ),
        Target("planning: speed-up over the dense method", 150, planning["dense"] / planning["planner"], "{:.0f}", at_least=True),
        Target("planning: share of the round", 0.02, times["plan"] / times["round"], percent),
        Target("refresh of 10 times as many rows: time relative to 10 refreshes", 1.15, many["refresh"] / (10 * few["refresh"])),
        Target("round at the largest depth: extra time compared with depth 1", 0.05, deeper, percent),
    ]
