"""Writes what `benchmarks.peers` measured: the tables of docs/performance.md between their markers, and its figure."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.targets import Results, growing, rate, targets
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
    """Writes page and figure below `root` from the results there; the text of the page is this repository's."""
    from benchmarks.figure import draw

    results, text = read(root), PAGE.read_text()
    for name, part in PARTS.items():
        text = filled(text, name, part(results))
    (root / FIGURE).parent.mkdir(parents=True, exist_ok=True)
    (root / PAGE).write_text(text)
    draw(results, root / FIGURE)
    print(text)


def filled(text: str, name: str, content: str) -> str:
    """The page with what stands between two markers replaced."""
    begin, end = f"<!-- measured: {name} -->", "<!-- end -->"
    block = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if len(block.findall(text)) != 1:
        raise ValueError(f"{PAGE} must have one block {begin} ... {end}")
    return block.sub(lambda _: f"{begin}\n\n{content}\n\n{end}", text)


def table(head: str, rows: list[str]) -> str:
    """A Markdown table; the head is a row too."""
    return "\n".join([head, "|" + "---|" * (head.count("|") - 1), *rows])


def surroundings(results: Results) -> str:
    """The machine, the day, the versions and how much repetitions differed."""
    spread = statistics.median(_deviations(results))
    names = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    return (
        f"{results['date']}, {results['cpu']}, {results['cores']} cores, load {results['load']:.1f} before the start; "
        f"{results['minutes']} minutes. {names}.\n\n"
        f"Half of all repetitions lie within {spread:.1%} of their median.\n\n"
        f"![Speed beside peers, and how a round grows]({FIGURE.relative_to('docs')})"
    )


def _deviations(found: Any) -> Iterator[float]:
    """How far each repetition is from the median of its kind, relative to it: lists of numbers are repetitions."""
    if isinstance(found, dict):
        for name, value in found.items():
            if name not in ("width", "flops"):
                yield from _deviations(value)
    elif isinstance(found, list) and found and isinstance(found[0], float):
        middle = statistics.median(found)
        yield from (abs(value / middle - 1) for value in found)
    elif isinstance(found, list):
        for value in found:
            yield from _deviations(value)


def verdicts(results: Results) -> str:
    """Every target: met or not."""
    return table("| target | bound | found | |", [target.row for target in targets(results)])


def peers(results: Results) -> str:
    """TD3 and SAC of three libraries."""
    rows, names = [], list(results["peers"][0]["seconds"])
    for record in results["peers"]:
        times, count = medians(record["seconds"]), record["count"]
        if record["task"] == "loop":
            what, cells = "environment steps per second, whole loop", [f"{count / spent:,.0f}" for spent in times.values()]
        else:
            what = f"ms per gradient step, {count if record['task'] == 'round' else 1} a call"
            cells = [f"{1e3 * spent / count:.2f}" for spent in times.values()]
        ratios = [f"{times['gemrl'] / spent:.2f}" for name, spent in times.items() if name != "gemrl"]
        absent = [""] * (len(names) - len(times))
        told = [record["algo"].upper(), str(record["threads"]), what, *cells, *absent, *ratios, *absent]
        rows.append(f"| {' | '.join(told)} |")
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
    said = (
        f"{found['rows']:,} rows, depth {found['depth']}, networks {_layers(found['width'])} with LayerNorm, "
        f"batch {found['batch']}, {found['gradient_steps']} gradient steps a round. "
        f"The large matrix multiply does {peak / 1e9:,.0f} GFLOP/s."
    )
    return said + "\n\n" + table("| part | ms | of the round | of matrix-multiply speed |", rows)


def planning(results: Results) -> str:
    """Our planner beside the dense method."""
    found, times = results["gem"], medians(results["gem"]["planning"])
    rows = [
        f"| `Twin({found['depth']})`, compiled | {1e3 * times['planner']:,.2f} | |",
        f"| dense matrices | {1e3 * times['dense']:,.1f} | {times['dense'] / times['planner']:,.0f} times as long |",
    ]
    return table(f"| {found['rows']:,} rows, depth {found['depth']} | ms | |", rows)


def growth(results: Results) -> str:
    """How the round grows, one size at a time."""
    rows = [
        f"| {said} | {_layers(value) if name == 'width' else f'{value:,}'} | "
        + " | ".join(f"{1e3 * times[part]:,.1f}" for part in ("round", "refresh", "plan"))
        + " |"
        for name, said in SIZES.items()
        for value, times in growing(results, name)
    ]
    return table("| | | round, ms | refresh, ms | plan, ms |", rows)


def images(results: Results) -> str:
    """What a memory of Atari takes, in bytes and in seconds."""
    found = results["images"]
    rows, spent = found["rows"], medians(found["seconds"])["refresh"]
    cells = f"{found['bytes'] / 1e9:.2f}", f"{found['bytes'] / rows / 1e3:.2f}", f"{1e3 * spent / found['refreshed']:.2f}"
    head = "| rows | resident, GB | a row, kB | refresh, ms a row | refresh of all, s |"
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
    "images": images,
}
"""What fills each block of the page."""

if __name__ == "__main__":
    write(Path())
