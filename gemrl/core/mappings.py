"""Comparison of two mappings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The names whose values differ, each with both values. A missing value counts as None. The order is that of the names."""
    names = dict.fromkeys([*first, *second])
    pairs = {name: (first.get(name), second.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
