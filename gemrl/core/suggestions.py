"""Errors for unknown names that suggest the nearest known name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from gemrl.core.exceptions import UnknownName


def unknown(kind: str, name: str, known: Iterable[str], hint: str = "") -> UnknownName:
    """The error for an unknown name, with a suggestion."""
    return UnknownName(f"unknown {kind} {name!r}{nearest(name, known, hint)}")


def nearest(name: str, known: Iterable[str], hint: str = "") -> str:
    """The suggestion "; did you mean ...?" with the nearest known name; `hint` if no name is close."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else hint
