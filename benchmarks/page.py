"""Writes the measurements of `benchmarks.peers` to docs/performance.md: the tables between their markers, and the figure."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.targets import Results, growing, overlapping, rate, round_seconds, targets
from benchmarks.timing import medians

RESULTS, PAGE, FIGURE = Path("results/performance/peers.json"), Path("docs/performance.md"), Path("docs/images/performance.png")
SIZES = {"rows": "rows of memory", "depth": "depth", "batch": "minibatch", "width": "hidden layers"}


def save(results: Results, root: Path) -> None:
    """Writes the results below `root`."""
    (root / RESULTS).parent.mkdir(parents=True, exist_ok=True)
    (root / RESULTS).write_text(json.dumps(results, indent=1) + "\n")


def read(root: Path) -> Results:
    """The results below `root`."""
    return json.loads((root / RESULTS).read_text())


def write(root: Path) -> None:
    """Writes the page and the figure below `root` from the results there; the text of the page comes from this repository."""
    from benchmarks.figure import draw

    results, text = read(root), PAGE.read_text()
    for name, part in PARTS.items():
        text = filled(text, name, part(results))
    (root / FIGURE).parent.mkdir(parents=True, exist_ok=True)
    (root / PAGE).write_text(text)
    draw(results, root / FIGURE)
    print(text)


def filled(text: str, name: str, content: str) -> str:
    """The page with the text between two markers replaced."""
    begin, end = f"<!-- measured: {name} -->", "<!-- end -->"
    block = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if len(block.findall(text)) != 1:
        raise ValueError(f"{PAGE} must have one block {begin} ... {end}")
    return block.sub(lambda _: f"{begin}\n\n{content}\n\n{end}", text)


def table(head: str, rows: list[str]) -> str:
    """A Markdown table with this header row."""
    return "\n".join([head, "|" + "---|" * (head.count("|") - 1), *rows])


def surroundings(results: Results) -> str:
    """The machine, the date, the versions and the variation between repetitions."""
    spread = statistics.median(_deviations(results))
    names = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    return (
        f"{results['date']}, {results['cpu']}, {results['cores']} cores, load {results['load']:.1f} before the start; "
        f"{results['minutes']} minutes. {names}.\n\n"
        f"Half of all repetitions lie within {spread:.1%} of their median.\n\n"
        f"![Speed compared with other libraries, and scaling of a round]({FIGURE.relative_to('docs')})"
    )


def _deviations(found: Any) -> Iterator[float]:
    """The relative deviation of each repetition from its median; lists of numbers are repetitions."""
    if isinstance(found, dict):
        for name, value in found.items():
            if name not in ("width", "flops"):
                yield from _deviations(value)
    elif isinstance(found, list) and found and isinstance(found[0], float):
        median = statistics.median(found)
        yield from (abs(value / median - 1) for value in found)
    elif isinstance(found, list):
        for value in found:
            yield from _deviations(value)


def verdicts(results: Results) -> str:
    """All targets with their verdicts."""
    return table("| target | bound | found | |", [target.row for target in targets(results)])


def peers(results: Results) -> str:
    """TD3, SAC and DQN of three libraries."""
    rows, names = [], list(results["peers"][0]["seconds"])
    for record in results["peers"]:
        times, count = medians(record["seconds"]), record["count"]
        if record["task"] == "loop":
            quantity, cells = "environment steps per second, whole loop", [f"{count / spent:,.0f}" for spent in times.values()]
        else:
            quantity = f"ms per gradient step, {count if record['task'] == 'round' else 1} per call"
            cells = [f"{1e3 * spent / count:.2f}" for spent in times.values()]
        ratios = [f"{times['gemrl'] / spent:.2f}" for name, spent in times.items() if name != "gemrl"]
        absent = [""] * (len(names) - len(times))
        row = [record["algo"].upper(), str(record["threads"]), quantity, *cells, *absent, *ratios, *absent]
        rows.append(f"| {' | '.join(row)} |")
    against = [f"time, gemrl / {name}" for name in names if name != "gemrl"]
    return table(f"| | threads | measured | {' | '.join(names + against)} |", rows)


def gem(results: Results) -> str:
    """The parts of GEM's round."""
    found = results["gem"]
    times = medians(found["round"])
    peak = found["flops"]["multiply"] / times.pop("multiply")
    rows = []
    for part, spent in times.items():
        speed = f"{rate(results, part):.0%}" if part in found["flops"] else ""
        rows.append(f"| {part.replace('_', ' ')} | {1e3 * spent:,.2f} | {spent / times['round']:.1%} | {speed} |")
    setting = (
        f"{found['rows']:,} rows, depth {found['depth']}, networks {_layers(found['width'])} with LayerNorm, "
        f"batch {found['batch']}, {found['gradient_steps']} gradient steps per round. "
        f"The large matrix multiplication runs at {peak / 1e9:,.0f} GFLOP/s."
    )
    return setting + "\n\n" + table("| part | ms | share of the round | share of matrix-multiply speed |", rows)


def planning(results: Results) -> str:
    """Our planner compared with the dense method."""
    found, times = results["gem"], medians(results["gem"]["planning"])
    rows = [
        f"| `Twin({found['depth']})`, compiled | {1e3 * times['planner']:,.2f} | |",
        f"| dense matrices | {1e3 * times['dense']:,.1f} | {times['dense'] / times['planner']:,.0f} times as long |",
    ]
    return table(f"| {found['rows']:,} rows, depth {found['depth']} | ms | |", rows)


def growth(results: Results) -> str:
    """The time of the round as one size grows at a time."""
    rows = [
        f"| {title} | {_layers(value) if name == 'width' else f'{value:,}'} | "
        + " | ".join(f"{1e3 * times[part]:,.1f}" for part in ("round", "refresh", "plan"))
        + " |"
        for name, title in SIZES.items()
        for value, times in growing(results, name)
    ]
    return table("| | | round, ms | refresh of all rows, ms | plan, ms |", rows)


def memories(results: Results) -> str:
    """The round by rows of memory, depth and refresh, and what a run of a million steps takes by these times."""
    kinds = {
        "depth 5": {"depth": 5},
        "depth 5, refresh of all rows": {"depth": 5, "whole": True},
        "depth 1000, refresh of all rows": {"depth": 1000, "whole": True},
    }
    drawn = max(case["trajectory_rows"] for case in results["memories"])
    kinds[f"depth 1000, `trajectory_rows={drawn}`"] = {"depth": 1000, "trajectory_rows": drawn}
    found = {title: round_seconds(results, **wanted) for title, wanted in kinds.items()}
    sizes = sorted({rows for times in found.values() for rows in times})
    rows = [
        f"| {title} | " + " | ".join(f"{1e3 * times[n]:,.0f}" if n in times else "" for n in sizes) + " |"
        for title, times in found.items()
    ]
    return table(f"| round, ms | {' | '.join(f'{n:,} rows' for n in sizes)} |", rows) + "\n\n" + _million(results)


def _million(results: Results, steps: int = 1_000_000, every: int = 100) -> str:
    """What training takes over a million steps with a memory of all of them, from the times of rounds in between."""
    times = round_seconds(results, depth=5)
    filled = np.arange(every, steps + 1, every)
    training = float(np.interp(filled, list(times), list(times.values())).sum())
    first = float(np.interp(filled[filled <= steps // 10], list(times), list(times.values())).sum())
    return (
        f"**A million steps of `gem`** with a memory of a million rows, depth 5, one thread: {len(filled):,} rounds that take "
        f"{training / 3600:.1f} hours in all, {first / 3600:.1f} of them for the first 100,000 steps. This is computed from the "
        "times above, with straight lines between them; acting, the environment and evaluations come on top."
    )


def threads(results: Results) -> str:
    """The round and its parts by number of threads."""
    records = [(record["threads"], medians(record["seconds"])) for record in results["threads"]]
    alone = dict(records)[1]
    rows = [
        f"| {part.replace('_', ' ')} | "
        + " | ".join(f"{1e3 * times[part]:,.0f} ({times[part] / alone[part]:.2f})" for _, times in records)
        + " |"
        for part in alone
    ]
    return table(f"| ms (relative to one thread) | {' | '.join(str(count) for count, _ in records)} |", rows)


def waiting(results: Results) -> str:
    """Rounds that overlap with a slow environment, and starts with other numbers."""
    slow, times = results["overlap"], medians(results["overlap"]["seconds"])
    starts, start = results["starts"], medians(results["starts"]["seconds"])
    return (
        f"- **Overlap**: {slow['steps']:,} steps of GEM in an environment that takes {slow['pause']:.0f} ms more per step, "
        f"{slow['threads']} threads: environment {times['environment']:.1f} s, everything else {times['rest']:.1f} s, one after "
        f"the other {times['apart']:.1f} s; with `overlap=True` {times['together']:.1f} s, {overlapping(results):.2f} times the "
        f"longer of both.\n"
        f"- **Other numbers**: from the start of `gemrl train` to the end of the first round {starts['first']:.1f} s when "
        f"its programs must be compiled, then {start['same numbers']:.1f} s, and {start['other numbers']:.1f} s with another "
        f"learning rate, gamma, tau, alpha and noise; these runs compiled {starts['compiled']} programs."
    )


def images(results: Results) -> str:
    """Bytes and refresh time of a memory of Atari frames."""
    found = results["images"]
    rows, spent = found["rows"], medians(found["seconds"])["refresh"]
    cells = f"{found['bytes'] / 1e9:.2f}", f"{found['bytes'] / rows / 1e3:.2f}", f"{1e3 * spent / found['refreshed']:.2f}"
    head = "| rows | resident, GB | per row, kB | refresh, ms per row | refresh of all rows, s |"
    return table(head, [f"| {rows:,} | {' | '.join(cells)} | {spent * rows / found['refreshed']:,.0f} |"])


def _layers(width: list[int]) -> str:
    return "-".join(map(str, width))


PARTS: dict[str, Callable[[Results], str]] = {
    "surroundings": surroundings,
    "targets": verdicts,
    "peers": peers,
    "gem": gem,
    "planning": planning,
    "growth": growth,
    "memories": memories,
    "threads": threads,
    "waiting": waiting,
    "images": images,
}
"""The content of each block of the page."""

if __name__ == "__main__":
    write(Path())
