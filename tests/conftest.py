"""What all tests share: small models, and the rule that nothing may be skipped in CI."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "compiled"))
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=1")  # tests compile more than they compute


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """With CI=true a skipped test is a failed one."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not allow: {report.longrepr}"
    return report


@pytest.fixture(autouse=True, scope="module")
def _forget_programs() -> Generator[None, None, None]:
    """Compiled programs of a file's tests are of no use to the next file's, and take gigabytes."""
    yield
    jax = sys.modules.get("jax")
    if jax:
        jax.clear_caches()


SMALL: dict[str, Any] = {
    "net_arch": (16, 16),
    "buffer_size": 2000,
    "learning_starts": 100,
    "train_freq": 50,
    "target_update_interval": 50,
    "gradient_steps": 6,
    "batch_size": 16,
}
"""Fields of a model that compiles and trains in a moment."""
