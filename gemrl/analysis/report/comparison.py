"""External results, read from CSV files and matched with runs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gemrl.analysis.report.summary import Record
from gemrl.analysis.results.collection import Collection
from gemrl.analysis.results.run import task_name
from gemrl.core.exceptions import BadValue, ModelFileError
from gemrl.core.reading import CSV_BYTES, csv_rows, read_limited
from gemrl.core.suggestions import nearest

COLUMNS = ("method", "env", "step", "return")
THOUSANDS = re.compile(r"-?\d{1,3}(,\d{3})+(\.\d+)?")
"""Numbers whose commas separate thousands."""


class Point(NamedTuple):
    """One external result: the return of a method at a step."""

    method: str
    env: str
    step: float
    value: float
    source: str


def read_points(file: Path) -> list[Point]:
    """The rows of a CSV file with the columns method, env, step, return and, optionally, source."""
    try:
        rows = csv_rows(read_limited(file, CSV_BYTES), file, "utf-8-sig")
        names = next(rows, (0, []))[1]
        for column in COLUMNS:
            if column not in names:
                hint = nearest(column, names, f"; it has {', '.join(names) or 'none'}")
                raise BadValue(f"{file} has no column {column!r}{hint}")
        points = [_point(names, row, f"{file}, line {number}") for number, row in rows]
    except ModelFileError as error:
        raise BadValue(str(error)) from None
    if not points:
        raise BadValue(f"{file} has no rows")
    return points


def _point(names: Sequence[str], fields: Sequence[str], where: str) -> Point:
    """One row as a point; errors begin with `where`."""
    row: dict[str, str | None] = dict(zip_longest(names, fields[: len(names)]))
    if len(fields) > len(names):
        raise BadValue(f"{where}: more fields than columns; put numbers with commas in quotes")
    numbers = []
    for column in ("step", "return"):
        try:
            text = (row[column] or "").strip()
            number = float(text.replace(",", "") if THOUSANDS.fullmatch(text) else text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number) or (column == "step" and number < 0):
            raise BadValue(f"{where}: {column} must be a number, not {row[column]!r}")
        numbers.append(number)
    method, env = ((row[column] or "").strip() for column in ("method", "env"))
    if not method or not env:
        raise BadValue(f"{where}: method and env must not be empty")
    return Point(method, env, numbers[0], numbers[1], (row.get("source") or "").strip())


def match_results(collection: Collection, points: Iterable[Point]) -> tuple[list[Record], list[str]]:
    """External curves, each matched with one of our environments; and the external environments without a match."""
    groups: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        groups.setdefault((point.method, point.env), []).append(point)
    found, unmatched = [], []
    for (method, env), group in groups.items():
        ours = matching_envs(collection, env)
        unmatched += [] if ours else [env]
        by_step: dict[float, list[float]] = {}
        for point in sorted(group, key=lambda point: point.step):
            by_step.setdefault(point.step, []).append(point.value)
        sources = "; ".join(dict.fromkeys(point.source for point in group if point.source))
        curve = {"method": _distinct(method, collection), "env": env, "source": sources, "steps": np.array(list(by_step))}
        curve |= {"mean": np.array([*map(np.mean, by_step.values())]), "std": np.array([*map(np.std, by_step.values())])}
        found += [{**curve, "our_env": match} for match in ours]
    return found, list(dict.fromkeys(unmatched))


def matching_envs(collection: Collection, env: str) -> list[str]:
    """Our environments that match an external one: the same id, else the same task in another version."""
    if env in collection.envs:
        return [env]
    minatar = env.startswith("MinAtar/")  # its games share names with Atari but are different tasks
    return [ours for ours in collection.envs if task_name(ours) == task_name(env) and ours.startswith("MinAtar/") == minatar]


def _distinct(method: str, collection: Collection) -> str:
    """The name of an external method, marked if one of our methods has the same name."""
    return f"{method} (theirs)" if method in collection.methods else method
