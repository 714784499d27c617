"""The device to compute on, compiler options, and the cache of compiled programs."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

import jax

from gemrl.core.exceptions import BadValue, DeviceError

CPU_COMPILER_OPTIONS = {
    "xla_cpu_enable_concurrency_optimized_scheduler": False,
    "xla_cpu_copy_insertion_use_region_analysis": True,
}
"""Compiler options for a round on a CPU: operations in the order that keeps data in the cache, and fewer copies in loops."""


CACHE_BYTES = 2 * 10**9
"""The most that compiled programs may take on disk: those that were not used for longest are removed."""


@cache
def keep_compiled() -> None:
    """Caches compiled programs on disk, so that each is compiled only once.

    They are machine code, so each type of processor has its own folder. JAX's own environment variables, such as
    JAX_COMPILATION_CACHE_DIR, come first.
    """
    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        try:
            first_core = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
            processor = "".join(line for line in first_core.splitlines() if line.startswith(("model name", "flags", "Features")))
        except OSError:
            processor = os.uname().machine
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = home / "gemrl" / f"compiled-{jax.__version__}-{hashlib.sha256(processor.encode()).hexdigest()[:12]}"
        jax.config.update("jax_compilation_cache_dir", str(folder))  # type: ignore[no-untyped-call]
        if not os.environ.get("JAX_COMPILATION_CACHE_MAX_SIZE"):
            jax.config.update("jax_compilation_cache_max_size", CACHE_BYTES)  # type: ignore[no-untyped-call]
    if not os.environ.get("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"):
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)  # type: ignore[no-untyped-call]


def find_device(name: str) -> jax.Device:
    """The JAX device with this name: auto, cpu or gpu."""
    keep_compiled()
    if name not in ("auto", "cpu", "gpu", "cuda"):
        raise BadValue(f"device must be auto, cpu or gpu, not {name!r}")
    try:
        return jax.devices(None if name == "auto" else name)[0]
    except RuntimeError:
        raise DeviceError(f"JAX finds no {name} here; docs/installation.md shows how to install its GPU build") from None
