"""Optional dependencies."""

from __future__ import annotations

import importlib

from gemrl.core.exceptions import MissingExtra


def check_installed(module: str, extra: str) -> None:
    """Raises if a package that an extra of gemrl installs is missing."""
    try:
        importlib.import_module(module)
    except ImportError:
        raise MissingExtra(f"{module} is not installed: pip install 'gemrl[{extra}]'") from None
