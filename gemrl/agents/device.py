"""Where and with what to compute."""

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


@cache
def keep_compiled() -> None:
    """Keeps compiled programs on the disk, so that only the first start of a kind waits for the compiler.

    They are machine code, so there is a folder for each kind of processor. JAX_COMPILATION_CACHE_DIR names another place.
    """
    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        try:
            processor = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
            kind = "".join(line for line in processor.splitlines() if line.startswith(("model name", "flags", "Features")))
        except OSError:
            kind = os.uname().machine
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        place = home / "gemrl" / f"compiled-{jax.__version__}-{hashlib.sha256(kind.encode()).hexdigest()[:12]}"
        jax.config.update("jax_compilation_cache_dir", str(place))  # type: ignore[no-untyped-call]
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)  # type: ignore[no-untyped-call]


def find_device(name: str) -> jax.Device:
    """The JAX device of that name: auto, cpu or gpu."""
    keep_compiled()
    if name not in ("auto", "cpu", "gpu", "cuda"):
        raise BadValue(f"device must be auto, cpu or gpu, not {name!r}")
    try:
        return jax.devices(None if name == "auto" else name)[0]
    except RuntimeError:
        raise DeviceError(f"JAX finds no {name} here; the README says how to install its GPU build") from None
