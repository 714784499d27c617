"""What all tests share: small models, and the rule that nothing may be skipped in CI."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")  # thousands of small programs add up
for terminal in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS"):  # the caller's terminal must not matter
    os.environ.pop(terminal, None)
# Tests compile more than they compute: these flags halve the time of a compilation.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false")


QUICK = {
    "benchmarks",
    "collecting",
    "comparing",
    "conducting",
    "console",
    "docs",
    "evaluation",
    "executors",
    "figures",
    "layers",
    "losses",
    "mdps",
    "names",
    "nearest",
    "numbers",
    "recipes",
    "report",
    "statistics",
    "studies",
    "tabular_agent",
}
"""Test files that compile no round of training and start no training process: what `make test-quick` runs."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option --quick."""
    parser.addoption("--quick", action="store_true", help="run only test files that compile nothing")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With --quick, whether a test file is left out."""
    name = collection_path.name
    left_out = name.startswith("test_") and name.removeprefix("test_").removesuffix(".py") not in QUICK
    return True if config.getoption("--quick") and left_out else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """With CI=true a skipped test is a failed one."""
    return _not_skipped((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """And so is a file of tests that is skipped as a whole."""
    return _not_skipped((yield))


def _not_skipped(report: Any) -> Any:
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not allow: {report.longrepr}"
    return report


MOST_MAPS = 30_000
"""Half of what Linux lets a process map into its memory: every compiled program takes a few, and beyond the limit JAX crashes."""


@pytest.fixture(autouse=True)
def _forget_programs() -> Generator[None, None, None]:
    """Compiled programs are forgotten before they become too many."""
    yield
    maps = Path("/proc/self/maps")
    if "jax" in sys.modules and maps.exists() and maps.read_bytes().count(b"\n") > MOST_MAPS:
        sys.modules["jax"].clear_caches()


@pytest.fixture
def no_hang() -> Iterator[None]:
    """A test that waits for something that never comes fails after a minute, and does not hold up the others."""

    def end(number: int, frame: Any) -> None:
        pytest.fail("the test hangs")

    previous = signal.signal(signal.SIGALRM, end)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, previous)


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
CHROMIUM_OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium, driven by Playwright."""
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed (Debian's package is chromium)")
    driver = pytest.importorskip("playwright.sync_api")
    with driver.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_OPTIONS)
        yield running
        running.close()


SMALL: dict[str, Any] = {
    "net_arch": (16,),
    "buffer_size": 2000,
    "learning_starts": 100,
    "train_freq": 50,
    "target_update_interval": 50,
    "gradient_steps": 6,
    "batch_size": 16,
}
"""Fields of a model that compiles and trains in a moment."""

SMALL_WORDS = ["--set", *(f"{name}={value}" for name, value in SMALL.items())]
"""The same for the command line: tests with the same fields share their compiled programs."""
