"""A pytest plugin that runs the tests of Stable-Baselines3 with gemrl's TD3, SAC, DDPG and DQN in the place of its own."""

from __future__ import annotations

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import stable_baselines3

from tests.conftest import _forget_programs  # noqa: F401
from tests.foreign.results import Result, markdown, reason_of
from tests.foreign.translation import NAMES, SWAPPED

for _name, _class in SWAPPED.items():  # before any test file is imported
    setattr(stable_baselines3, _name, _class)

RESULTS: list[Result] = []
"""The results so far."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option for the table."""
    parser.addoption("--foreign-table", type=Path, help="write the results to this file, as Markdown")


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Keeps the tests that make one of the swapped classes."""
    kept = [item for item in items if isinstance(item, pytest.Function) and _touches(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


_NO_PARAMETERS: Any = types.SimpleNamespace(params={})


def _touches(item: pytest.Function) -> bool:
    """Whether a test has a swapped class as a parameter; if no class is a parameter, whether it names one."""
    classes = [value for value in getattr(item, "callspec", _NO_PARAMETERS).params.values() if isinstance(value, type)]
    return any(kind in SWAPPED.values() for kind in classes) if classes else _names_one(item.function, set())


def _names_one(function: Any, seen: set[Any]) -> bool:
    """Whether a function, or a function of its own module that it calls, names a swapped class."""
    if function in seen:
        return False
    seen.add(function)
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    called = [function.__globals__.get(name) for name in names]
    own = [one for one in called if isinstance(one, types.FunctionType) and one.__module__ == function.__module__]
    return bool(names & set(NAMES)) or any(_names_one(one, seen) for one in own)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code of a function and of all functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keeps the outcome of a test and its error."""
    if report.when == "call" or report.outcome != "passed":
        crash = getattr(report.longrepr, "reprcrash", None)
        error = crash.message if crash else str(report.longrepr or "")
        file, _, test = report.nodeid.partition("::")
        RESULTS.append(Result(Path(file).name, test, report.outcome, error))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Writes the table. The session has passed if every failure has a known reason."""
    table = session.config.getoption("--foreign-table")
    if table:
        table.write_text(markdown(RESULTS))
    unexplained = [result for result in RESULTS if result.outcome == "failed" and reason_of(result) is None]
    for result in unexplained:
        print(f"\nno known reason: {result.file}::{result.test}: {result.error.splitlines()[0]}")
    if RESULTS:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED if unexplained else pytest.ExitCode.OK
