"""The array type of code that runs on both numpy and JAX arrays."""

from __future__ import annotations

from typing import Any

Array = Any
"""A numpy or JAX array."""
