"""How much memory is left for this process, and an error if an estimate does not fit it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from gemrl.core.exceptions import BadValue

PROC = Path("/proc")


class Need(NamedTuple):
    """An estimate of memory: what needs it, how many bytes, and the fields that determine them."""

    what: str
    size: int
    fields: str


def check_memory(needs: Sequence[Need], left: int | None = None) -> None:
    """Raises if all needs together exceed the memory that is left, by default on this machine; names the fields to lower."""
    total, left = sum(need.size for need in needs), memory_left() if left is None else left
    if total <= left:
        return
    largest = sorted(needs, key=lambda need: need.size, reverse=True)
    parts = ", ".join(f"{need.what} {_gigabytes(need.size)}" for need in largest if need.size >= total / 100)
    fields = " or ".join(dict.fromkeys(need.fields for need in largest if need.size >= total / 10))
    raise BadValue(
        f"training would take about {_gigabytes(total)} of memory ({parts}), but only {_gigabytes(left)} are left here: "
        f"set a smaller {fields}"
    )


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"


def physical_memory() -> int:
    """The memory of this machine, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def memory_left(proc: Path = PROC) -> int:
    """Bytes that this process can still take: what the machine has left, or less if a cgroup limits it.

    Memory that only caches files counts as left, since the kernel takes it back.
    """
    machine = _numbers(proc / "meminfo").get("MemAvailable:", 0) * 1024
    return max(0, min([machine or physical_memory(), *(_left_in(folder) for folder in _cgroups(proc))]))


def _left_in(cgroup: Path) -> int:
    """Bytes left in one cgroup, of version 2 or 1; very many if it has no limit."""
    for limit, usage in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        most, used = _number(cgroup / limit), _number(cgroup / usage)
        if most is not None and used is not None:
            statistics = _numbers(cgroup / "memory.stat")
            prefix = "total_" if "total_inactive_file" in statistics else ""  # of version 1, with the cgroups below it
            cache = sum(statistics.get(f"{prefix}{name}", 0) for name in ("inactive_file", "active_file"))
            return most - used + min(cache, used)
    return 1 << 63


def _cgroups(proc: Path) -> Iterator[Path]:
    """The folders of this process's memory cgroup and of all cgroups around it, each of which may have a limit."""
    own: dict[str, str] = {}  # the path of the cgroup, by the type of its file system
    for line in _lines(proc / "self" / "cgroup"):
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers or "memory" in controllers.split(","):
            own["cgroup" if controllers else "cgroup2"] = path
    for line in _lines(proc / "self" / "mountinfo"):
        before, _, after = line.partition(" - ")
        (root, mount), (kind, _, options) = before.split()[3:5], [*after.split(), "", "", ""][:3]
        if kind not in own or (kind == "cgroup" and "memory" not in options.split(",")):
            continue
        inside = os.path.relpath(own[kind], root)  # in a container, the mount shows only a part of the tree
        folder = Path(mount) if inside.startswith("..") else Path(mount, inside)
        yield from (folder, *(parent for parent in folder.parents if parent.is_relative_to(mount)))


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _number(file: Path) -> int | None:
    """The number in a file; None if there is none, as in "max"."""
    text = "".join(_lines(file)[:1]).strip()
    return int(text) if text.isdecimal() else None


def _numbers(file: Path) -> dict[str, int]:
    """The numbers in lines such as "name 123 ...", by name."""
    words = (line.split() for line in _lines(file))
    return {name: int(number) for name, number, *_ in (line for line in words if len(line) > 1) if number.isdecimal()}
