"""The array type of code that runs on numpy and JAX arrays alike."""

from __future__ import annotations

from typing import Any

Array = Any
"""An array of numpy or JAX."""
