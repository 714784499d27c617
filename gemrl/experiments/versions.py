"""Versions of everything that can change a result."""

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
"""Packages that decide bits, if they are installed."""


@cache
def source_digest() -> str:
    """The beginning of a SHA-256 of all code of this package: tells apart what has the same version."""
    root, digest = Path(__file__).parents[1], hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        digest.update(f"{file.relative_to(root).as_posix()}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def versions() -> dict[str, str]:
    """The versions of all that can change a result."""
    found = {"gemrl": __version__, "source": source_digest()}
    found |= {"python": platform.python_version(), "platform": platform.platform()}
    for name in VERSIONED:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def other_source(description: Mapping[str, Any]) -> str:
    """The digest of the code that a run was begun with, if it is not this code's: then bits may differ."""
    told = description.get("versions")
    source = told.get("source") if isinstance(told, dict) else None  # runs of old do not say
    return str(source) if source not in (None, source_digest()) else ""
