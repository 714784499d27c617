"""Speed compared with other libraries and with the limits of the machine; `make bench-peers` writes docs/performance.md."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import contestants, page
from benchmarks.timing import alternate, process, processors

ALGOS = ("td3", "sac", "dqn")
PAUSE = 20.0
"""Milliseconds of a step of a slow environment."""
VERSIONED = ("gemrl", "jax", "jaxlib", "torch", "stable-baselines3", "sbx-rl", "flax", "numpy", "gymnasium", "mujoco")


@dataclass(frozen=True)
class Size:
    """The amount of work that is measured."""

    gradient_steps: int = 200
    environment_steps: int = 400
    repeats: int = 5
    growth_repeats: int = 3
    rows: int = 100_000
    round_steps: int = 200
    refreshed_images: int = 5_120
    slow_steps: int = 1_000


QUICK = Size(
    gradient_steps=4,
    environment_steps=10,
    repeats=2,
    growth_repeats=1,
    rows=2_000,
    round_steps=4,
    refreshed_images=256,
    slow_steps=100,
)


def race(algo: str, threads: int, size: Size) -> list[dict[str, Any]]:
    """One record per task with the seconds of every contestant; each runs in its own process, and they take turns."""
    images = contestants.CONTESTS[algo].images
    steps = max(2, size.gradient_steps // 10) if images else size.gradient_steps
    tasks: dict[str, tuple[Any, ...]] = {"round": ("gradient_steps", steps, 1), "single": ("gradient_steps", 1, steps)}
    if not images:  # the image environment is random noise
        tasks["loop"] = "environment_steps", size.environment_steps
    records = []
    with ExitStack() as stack:
        names = [name for name in contestants.CONTESTANTS if not (images and name == "SBX")]  # DQN of SBX does not support images
        workers = {name: stack.enter_context(process(threads)) for name in names}
        for name, worker in workers.items():
            worker(contestants.build, name, algo, threads)
        for task, arguments in tasks.items():
            turns = {name: partial(worker, contestants.timed, *arguments) for name, worker in workers.items()}
            count = size.environment_steps if task == "loop" else steps
            record = {"algo": algo, "threads": threads, "task": task, "count": count}
            records.append(record | {"seconds": alternate(turns, size.repeats)})
            _log(f"{algo}, {threads} thread(s), {task}")
    return records


def gem(size: Size) -> dict[str, Any]:
    """Times GEM's round and a large matrix multiplication, and planning and the dense method. Runs in a child process."""
    from benchmarks.round import Case, flops, measure, measure_planning

    case = Case(rows=size.rows, gradient_steps=size.round_steps)
    sizes = {"rows": case.rows, "depth": case.depth, "batch": case.batch, "width": case.width, "gradient_steps": size.round_steps}
    measured = {"round": measure(case, size.repeats), "planning": measure_planning(case, size.repeats)}
    return sizes | {"flops": flops(case), **measured}


def memories(size: Size) -> list[dict[str, Any]]:
    """Times the round with memories of different sizes. Runs in a child process."""
    from benchmarks.growth import measure_memories
    from benchmarks.round import Case

    return measure_memories(Case(gradient_steps=size.round_steps), size.rows / Size.rows, size.growth_repeats)


def threads(size: Size, counts: list[int]) -> list[dict[str, Any]]:
    """Times the round with these numbers of threads."""
    from benchmarks.round import Case
    from benchmarks.threads import measure

    return measure(Case(rows=size.rows, gradient_steps=size.round_steps), counts, size.repeats)


def overlap(size: Size) -> dict[str, Any]:
    """Times rounds that overlap with a slow environment. Runs in a child process."""
    from benchmarks.overlap import repeated

    return repeated(PAUSE, size.slow_steps, size.growth_repeats) | {"threads": len(processors())}


def starts(size: Size) -> dict[str, Any]:
    """Times the start of runs whose recipes differ in numbers. Runs in a child process."""
    from benchmarks.starts import measure

    return measure(size.repeats)


def growth(size: Size) -> list[dict[str, Any]]:
    """Times the round at different sizes. Runs in a child process."""
    from benchmarks.growth import measure
    from benchmarks.round import Case

    base = Case(rows=size.rows, gradient_steps=size.round_steps)
    return measure(base, size.rows / Size.rows, size.growth_repeats)


def images(size: Size) -> dict[str, Any]:
    """Measures GEM's memory of Atari frames. Runs in a child process."""
    from benchmarks.images import measure

    return measure(size.rows, size.refreshed_images, size.growth_repeats)


PARTS = {"gem": gem, "growth": growth, "memories": memories, "images": images, "starts": starts}
"""What is measured in a process with one thread."""

THREADED = ("threads", "overlap")
"""What is measured with several threads."""


def surroundings() -> dict[str, Any]:
    """The machine, the date and the versions, without the names of persons or hosts."""
    found = {name: importlib.metadata.version(name) for name in VERSIONED}
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "versions": {"python": platform.python_version(), **found},
    }


def _processor() -> str:
    """The name of the processor, from /proc/cpuinfo on Linux."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _log(message: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {message}", flush=True)


def measured(size: Size, counts: list[int]) -> dict[str, Any]:
    """Measures everything, one part at a time."""
    started = time.perf_counter()
    results = surroundings()
    results["peers"] = [record for algo in ALGOS for record in races(algo, size)]
    for name in (*PARTS, *THREADED):
        results[name] = _part(name, size, counts)
    return results | {"minutes": round((time.perf_counter() - started) / 60, 1)}


def measured_again(results: dict[str, Any], name: str, size: Size, counts: list[int]) -> dict[str, Any]:
    """The results, with one algorithm or part measured again."""
    if name in PARTS or name in THREADED:
        return results | {name: _part(name, size, counts)}
    records = [record for record in results["peers"] if record["algo"] != name] + races(name, size)
    return results | {"peers": sorted(records, key=lambda record: ALGOS.index(record["algo"]))}


def races(algo: str, size: Size) -> list[dict[str, Any]]:
    """All records of an algorithm: on one thread and, if there are two processors, on two."""
    return [record for threads in (1, 2) if threads <= len(processors()) for record in race(algo, threads, size)]


def _part(name: str, size: Size, counts: list[int]) -> Any:
    """Measures a part in processes of its own, because memory that another part has freed would distort the result."""
    if name == "threads":
        found: Any = threads(size, counts)
    else:
        with process(len(processors()) if name in THREADED else 1) as child:
            found = child(PARTS.get(name, overlap), size)
    _log(name)
    return found


def main() -> None:
    """Measures, and writes results, page and figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tiny version, as a test; written to runs/quick")
    parser.add_argument("--only", choices=(*ALGOS, *PARTS, *THREADED), help="measure only this again and keep the other results")
    parser.add_argument(
        "--threads", type=int, nargs="+", default=[1, 2], metavar="N", help="numbers of threads of GEM's round (default: 1 2)"
    )
    options = parser.parse_args()
    size, root = (QUICK, Path("runs/quick")) if options.quick else (Size(), Path())
    counts = sorted({1, *(count for count in options.threads if count <= len(processors()))})
    results = measured_again(page.read(root), options.only, size, counts) if options.only else measured(size, counts)
    page.save(results, root)
    page.write(root)


if __name__ == "__main__":
    main()
