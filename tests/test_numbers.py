"""Every table of returns in the README and on the results pages is recomputed from the CSV files in results/."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from gemrl.analysis import statistics
from gemrl.experiments.run_logs import SCORED, read_evaluations

ROOT = Path(__file__).parents[1]
PAGES = {name: ROOT / name for name in ("README.md", *(f"docs/results/{page}.md" for page in ("continuous", "discrete")))}
NUMBER = re.compile(r"[+-]?\d[\d,]*(?:\.\d+)?")

Table = list[list[str]]
"""The cells of a table, by row; the first row is its head."""
Check = Callable[[Table], None]


@cache
def evaluations(folder: str) -> dict[str, np.ndarray]:
    """The columns of a run's evaluations.csv."""
    return read_evaluations(ROOT / "results" / folder)


def runs(folder: str) -> list[dict[str, np.ndarray]]:
    """The evaluations of all seeds in a folder of results, in order."""
    seeds = sorted((path.name for path in (ROOT / "results" / folder).iterdir()), key=int)
    return [evaluations(f"{folder}/{seed}") for seed in seeds]


def last(folder: str, column: str = "return_mean") -> list[float]:
    """The last evaluation of each seed."""
    return [float(run[column][-1]) for run in runs(folder)]


def scores(folder: str) -> np.ndarray:
    """The score of each seed."""
    return np.array([run["return_mean"][-SCORED:].mean() for run in runs(folder)])


def agree(cell: str, *expected: float) -> None:
    """Fails unless the numbers in a cell are these, as far as they are printed."""
    found = NUMBER.findall(cell)
    assert len(found) == len(expected), (cell, expected)
    for text, value in zip(found, expected, strict=True):
        decimals = len(text.partition(".")[2])
        assert abs(float(text.replace(",", "")) - value) <= 0.5001 * 10**-decimals, (cell, expected)


def score_table(study: str, names: dict[str, str] | None = None) -> Check:
    """Tasks by method, mean ± sample deviation of scores; the best mean is in bold."""

    def check(table: Table) -> None:
        for task, *cells in table[1:]:
            means = []
            for method, cell in zip(table[0][1:], cells, strict=True):
                found = scores(f"{study}/{method}/{(names or {}).get(task, task)}")
                agree(cell, found.mean(), float(statistics.std(found[:, None])[0]))
                means.append(found.mean())
            assert [cell.startswith("**") for cell in cells] == [mean == max(means) for mean in means]

    return check


def last_table(study: str) -> Check:
    """Tasks by method, the last return of each seed; and in a row below, the estimation errors."""

    def check(table: Table) -> None:
        task = ""
        for name, *cells in table[1:]:
            task, column = name or task, "return_mean" if name else "estimation_error"
            for method, cell in zip(table[0][1:], cells, strict=True):
                agree(cell, *last(f"{study}/{method}/{task}", column))

    return check


def method_table(study: str, *tasks: str) -> Check:
    """Methods (before a colon) by task: the last return of each seed, then its error."""

    def check(table: Table) -> None:
        for title, *cells in table[1:]:
            method = title.partition(":")[0]
            for number, task in enumerate(tasks):
                folder = f"{study}/{method}/{task}".rstrip("/")
                agree(cells[2 * number], *last(folder))
                agree(cells[2 * number + 1], *last(folder, "estimation_error"))

    return check


def ant(table: Table) -> None:
    for method, *cells in zip(*table, strict=True):
        if method:
            folder = f"mujoco-100k/{method}/Ant-v5"
            agree(cells[0], *scores(folder))
            agree(cells[1], *last(folder))
            agree(cells[2], *last(folder, "estimation_error"))


def steps_table(folder: str) -> Check:
    """Seeds by step, and their mean."""

    def check(table: Table) -> None:
        steps = [int(NUMBER.findall(cell)[0].replace(",", "")) for cell in table[0][1:]]
        curves = np.array([[run["return_mean"][run["step"] == step][0] for step in steps] for run in runs(folder)])
        rows = [*curves, curves.mean(axis=0)][: len(table) - 1]
        for (_, *cells), row in zip(table[1:], rows, strict=True):
            for cell, value in zip(cells, row, strict=True):
                agree(cell, value)

    return check


def solving_table(study: str, task: str, level: float) -> Check:
    """Methods by seed: the first evaluation that reaches the level, the share from then on, and the last returns."""

    def check(table: Table) -> None:
        for method, *cells, final in table[1:]:
            for cell, run in zip(cells, runs(f"{study}/{method}/{task}"), strict=True):
                reached = run["return_mean"] >= level
                first = int(reached.argmax())
                agree(cell, run["step"][first], 100 * reached[first:].mean())
            agree(final, *last(f"{study}/{method}/{task}"))

    return check


LIMITS = {
    "gem, depth": "gem-depth",
    "gem-released, depth": "gem-released-depth",
    "gem-released with `norm_first=False`, depth": "gem-released-norm-behind-depth",
}


def draws(table: Table) -> None:
    """Tasks by recipe: score and deviation, then the score of each seed. On HalfCheetah `gem` is that of the main table."""
    for task, *cells in table[1:]:
        folders = ("mujoco/gem" if "Cheetah" in task else "trajectory-draws/gem"), "trajectory-draws/gem-trajectory_rows=20000"
        for folder, cell in zip(folders, cells, strict=True):
            found = scores(f"{folder}/{task}")
            agree(cell, found.mean(), float(statistics.std(found[:, None])[0]), *found)


def by_step(folder: str) -> Check:
    """Methods by step: the return of a single run."""

    def check(table: Table) -> None:
        steps = [int(cell.replace(",", "")) for cell in table[0][1:]]
        for method, *cells in table[1:]:
            run = evaluations(folder.format(method))
            for step, cell in zip(steps, cells, strict=True):
                agree(cell, run["return_mean"][run["step"] == step][0])

    return check


def time_limits(table: Table) -> None:
    for title, returns, errors in table[1:]:
        name, _, depth = title.rpartition(" ")
        folder = f"time-limits/{LIMITS[name]}-{depth}"
        agree(returns, float(np.mean(last(folder))), *last(folder))
        agree(errors, float(np.mean(last(folder, "estimation_error"))), *last(folder, "estimation_error"))


def offline(table: Table) -> None:
    """Datasets: mean return and best episode, then the last evaluation of each method."""
    for task, mean, best, *cells in table[1:]:
        lines = list(csv.DictReader((ROOT / "results" / "offline" / f"{task}.csv").open()))
        agree(mean, float(lines[-1]["return_mean"]))
        agree(best, float(lines[-1]["return_max"]))
        for method, cell in zip(table[0][3:], cells, strict=True):
            agree(cell, *last(f"offline/{method}/{task}"))


MUJOCO = score_table("mujoco")
CHECKS: dict[str, dict[str, Check]] = {
    "README.md": {"HalfCheetah-v5": MUJOCO},
    "docs/results/continuous.md": {
        "HalfCheetah-v5": MUJOCO,
        "HalfCheetah-v5, again": last_table("mujoco"),
        "mean of the last three evaluations": ant,
        "gem": method_table("ablation", "HalfCheetah-v5", "Hopper-v5"),
        "0": steps_table("halfcheetah-gem"),
        "td3": method_table("ladder", ""),
        "gem, depth 5": time_limits,
        "HalfCheetah-v5, once more": draws,
        "Pendulum-v1": offline,
        "gem, again": by_step("carracing/{}/CarRacing-v3/0"),
    },
    "docs/results/discrete.md": {
        "gem-discrete": solving_table("cartpole", "CartPole-v1", 475),
        "gem-discrete, again": solving_table("lunarlander", "LunarLander-v3", 200),
        "MinAtar/Breakout-v1": score_table(
            "minatar", {f"MinAtar/{game}-v1": f"MinAtar-{game}-v1" for game in ("Breakout", "SpaceInvaders", "Freeway")}
        ),
        "0": steps_table("mfec/CartPole-v1"),
    },
}
"""By page and the first cell below the head: how a table is recomputed."""

ELSEWHERE = {
    "vectors, Dict": "spaces, not returns",
    "Hopper-v5": "two libraries: benchmarks/against_sb3.py prints it",
    "gem-discrete, once more": "returns of training episodes, which only progress.csv has",
    "deterministic": "benchmarks/episodic_control.py prints it",
}
"""Tables that are not recomputed here, and why."""


def tables(page: Path) -> Iterator[tuple[str, Table]]:
    """The tables of a page, by the first cell below their head; a name that occurs again says so."""
    seen: dict[str, int] = {}
    for block in re.findall(r"(?:^\|.*\n)+", page.read_text(), flags=re.MULTILINE):
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
        del rows[1]
        name = rows[1][0]
        seen[name] = seen.get(name, 0) + 1
        yield name + ("", "", ", again", ", once more")[seen[name]], rows


@pytest.mark.parametrize(("page", "name"), [(page, name) for page, checks in CHECKS.items() for name in checks])
def test_a_table_agrees_with_the_runs(page: str, name: str) -> None:
    CHECKS[page][name](dict(tables(PAGES[page]))[name])


@pytest.mark.parametrize("page", PAGES)
def test_no_table_is_without_a_source(page: str) -> None:
    assert {name for name, _ in tables(PAGES[page])} - CHECKS[page].keys() <= ELSEWHERE.keys()


def test_expected_returns() -> None:
    """Each row of both tables that name a task and an algorithm: mean and seeds of the last evaluation."""
    checked = 0
    for _, table in tables(ROOT / "docs" / "results" / "expected-returns.md"):
        if table[0][:2] != ["task", "algorithm"]:
            continue
        for task, algo, steps, mean, each in table[1:]:
            folder = expected_folder(task, algo.strip("`"), int(steps.replace(",", "")))
            returns = last(folder)
            agree(each, *returns)
            agree(mean, float(np.mean(returns)))
            checked += 1
    assert checked > 40


def expected_folder(task: str, algo: str, steps: int) -> str:
    """The folder of the runs that have this task, algorithm and number of steps."""
    plain, method = task.replace("/", "-"), algo.replace(" ", "-")
    options = [
        f"{study}/{method}/{plain}"
        for study in ("mujoco", "cartpole", "mfec", "lunarlander", "minatar", "atari", "freeway-depth")
    ]
    options += ["halfcheetah-gem"] if (task, algo) == ("HalfCheetah-v5", "gem") else []
    options += ["mfec/CartPole-v1"] if algo == "mfec" else []
    options += [f"freeway-depth/{method}"] if "=" in algo else []
    options += ["time-limits/gem-depth-5"] if task == "Pendulum-v1" else []
    for folder in options:
        if (ROOT / "results" / folder).is_dir() and int(runs(folder)[0]["step"][-1]) == steps:
            return folder
    raise AssertionError(f"no runs of {algo} on {task} with {steps:,} steps in results/")


def test_a_wrong_number_fails() -> None:
    table = dict(tables(PAGES["README.md"]))["HalfCheetah-v5"]
    table[1][2] = table[1][2].replace("2,934", "2,935")
    with pytest.raises(AssertionError):
        MUJOCO(table)
