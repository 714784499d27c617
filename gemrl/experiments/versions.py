"""Versions of everything that can affect results."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from gemrl.core.version import __version__

VERSIONED = ("jax", "jaxlib", "numpy", "optax", "equinox", "gymnasium", "mujoco", "ale-py", "opencv-python-headless", "minatar")
"""Packages whose version can change results in the last bits, if they are installed."""


@cache
def source_digest() -> str:
    """The first digits of a SHA-256 of this package's code, which tell apart two states of the same version."""
    root, digest = Path(__file__).parents[1], hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        digest.update(f"{file.relative_to(root).as_posix()}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def versions() -> dict[str, str]:
    """The versions of gemrl, its code, Python, the platform and the packages in VERSIONED, by name."""
    found = {"gemrl": __version__, "source": source_digest()}
    found |= {"python": platform.python_version(), "platform": platform.platform()}
    for name in VERSIONED:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def other_source(description: Mapping[str, Any]) -> str:
    """The source digest that a run was started with, if it differs from this code's, else ""."""
    recorded = description.get("versions")
    source = recorded.get("source") if isinstance(recorded, dict) else None  # older runs have none
    return str(source) if source not in (None, source_digest()) else ""
