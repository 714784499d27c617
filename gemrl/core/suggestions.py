"""Errors for unknown names that suggest a known name, if one is near."""

from __future__ import annotations

from collections.abc import Iterable

from gemrl.core.exceptions import UnknownName

LETTERS_PER_ERROR, MOST_ERRORS = 4, 3
"""One wrong letter in every four makes a name near, but never more than three; short names may have one."""


def unknown(kind: str, name: str, known: Iterable[str], hint: str = "") -> UnknownName:
    """The error for an unknown name, with a suggestion."""
    return UnknownName(f"unknown {kind} {name!r}{nearest(name, known, hint)}")


def nearest(name: str, known: Iterable[str], hint: str = "") -> str:
    """The suggestion "; did you mean ...?" with the nearest known name; `hint` if no name is near."""
    near = nearest_name(name, known)
    return f"; did you mean {near!r}?" if near else hint


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant: spelled almost alike, or with a version or a word added; the newest of several."""
    ranked = [(rank, other) for other in known if (rank := _rank(name, other)) is not None]
    best = min((rank for rank, _ in ranked), default=0)
    return max((other for rank, other in ranked if rank == best), default=None)


def _rank(name: str, other: str) -> int | None:
    """How many letters are wrong; more than any number of them if something is missing; None if the names are not near."""
    plain, known = _plain(name), _plain(other)
    allowed = min(max(1, len(plain) // LETTERS_PER_ERROR), MOST_ERRORS)
    if abs(len(plain) - len(known)) <= allowed and (errors := edit_distance(plain, known)) <= allowed:
        return errors
    complete = any(other.lower().startswith(f"{name.lower()}{mark}") for mark in "-_/") or other.lower().endswith(
        f"/{name.lower()}"
    )
    return MOST_ERRORS + 1 if complete and len(name) > 2 else None


def _plain(name: str) -> str:
    """A name without case, and with one kind of separator."""
    return name.lower().replace("_", "-")


def edit_distance(a: str, b: str) -> int:
    """The least number of letters to insert, delete, replace or swap with their neighbour that turns one name into the other."""
    before: list[int] = []
    previous = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        row = [i]
        for j, other in enumerate(b, 1):
            cost = min(row[j - 1] + 1, previous[j] + 1, previous[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == b[j - 2] and other == a[i - 2]:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        before, previous = previous, row
    return previous[-1]
