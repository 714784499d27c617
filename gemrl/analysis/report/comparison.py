"""Other people's results, from CSV files, matched with runs."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gemrl.analysis.report.summary import Record
from gemrl.analysis.results.collection import Collection
from gemrl.analysis.results.run import task_name
from gemrl.core.exceptions import BadValue
from gemrl.core.suggestions import nearest

COLUMNS = ("method", "env", "step", "return")
THOUSANDS = re.compile(r"-?\d{1,3}(,\d{3})+(\.\d+)?")
"""Numbers whose commas are not decimal ones."""


class Point(NamedTuple):
    """One number of other people's."""

    method: str
    env: str
    step: float
    value: float
    source: str


def read_points(file: Path) -> list[Point]:
    """The rows of a CSV file with the columns method, env, step, return, and perhaps source."""
    try:
        with file.open(newline="", encoding="utf-8-sig") as text:
            reader = csv.DictReader(text)
            names = reader.fieldnames or []
            for column in COLUMNS:
                if column not in names:
                    near = nearest(column, names, f"; it has {', '.join(names) or 'none'}")
                    raise BadValue(f"{file} lacks the column {column!r}{near}")
            points = [_point(row, f"{file}, line {reader.line_num}") for row in reader]
    except OSError as error:
        raise BadValue(f"cannot read {file}: {error.strerror or error}") from None
    except (UnicodeError, csv.Error) as error:
        raise BadValue(f"{file} is not a CSV file: {error}") from None
    if not points:
        raise BadValue(f"{file} has no rows")
    return points


def _point(row: dict[str | Any, str | Any], where: str) -> Point:
    if None in row:
        raise BadValue(f"{where}: more fields than columns; a number with commas needs quotes")
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


def beside(collection: Collection, points: Iterable[Point]) -> tuple[list[Record], list[str]]:
    """Their curves, each with the environment of ours it stands beside; and those of their environments that have none."""
    groups: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        groups.setdefault((point.method, point.env), []).append(point)
    found, elsewhere = [], []
    for (method, env), group in groups.items():
        ours = partners(collection, env)
        elsewhere += [] if ours else [env]
        by_step: dict[float, list[float]] = {}
        for point in sorted(group, key=lambda point: point.step):
            by_step.setdefault(point.step, []).append(point.value)
        sources = "; ".join(dict.fromkeys(point.source for point in group if point.source))
        curve = {"method": _distinct(method, collection), "env": env, "source": sources, "steps": np.array(list(by_step))}
        curve |= {"mean": np.array([*map(np.mean, by_step.values())]), "std": np.array([*map(np.std, by_step.values())])}
        found += [{**curve, "beside": partner} for partner in ours]
    return found, list(dict.fromkeys(elsewhere))


def partners(collection: Collection, env: str) -> list[str]:
    """Our environments beside which another's results belong: the same one, else the same task in another version."""
    if env in collection.envs:
        return [env]
    small = env.startswith("MinAtar/")  # its games are not those of Atari
    return [ours for ours in collection.envs if task_name(ours) == task_name(env) and ours.startswith("MinAtar/") == small]


def _distinct(method: str, collection: Collection) -> str:
    """Their name of a method, told apart from ours."""
    return f"{method} (theirs)" if method in collection.methods else method
