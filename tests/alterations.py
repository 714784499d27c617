"""What a stranger may do to the files of a run or a study: wrong values, nesting, links, FIFOs, devices."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from gemrl.core.files import write_sealed
from tests.fuzz import DAMAGE, positions, sign

DEEP = 100_000
"""Brackets in a deeply nested file."""

ESCAPE = "\x1b]0;owned\x07\x1b[31m"

NASTY: tuple[Any, ...] = (
    *(10**18, 2**63, 2**31, -1, 0, 1e308, -1e308, 10**400, float("nan"), float("inf")),
    *("", "..", "../x", "/etc/passwd", "a\0b", "\ud800", ESCAPE, "x" * 300, "x" * 100_000, "9" * 400, "../" * 50 + "tmp/x"),
    *(None, True, False, [], {}, [1], [[1]], {"a": 1}, [10**9, 10**9], [None], {"": None}, {"..": {}}),
    *("gem", "td3", "Pendulum-v1", "CartPole-v1", "nowhere:Env-v0", "Twin(depth=5)", "Planned(planner=Twin(depth=10**9))"),
)
"""Values that replace one in a JSON file."""

CELLS = ("", "x", "nan", "inf", "-inf", "1e400", "9" * 400, "-1", "0", "1e308", "\0", "\x1b[31m", '"', "a" * 200_000, "1_0", "½")
"""Fields that replace one in a CSV file."""

TOML_VALUES = (
    *(
        "-1",
        "0",
        "9" * 400,
        "0x" + "f" * 5000,
        "1e308",
        "nan",
        '"x"',
        '""',
        '".."',
        '"a\\u0000b"',
        '"\\u001b[31m"',
        "[]",
        "[[1]]",
    ),
    *(
        "{}",
        "true",
        '["gem"]',
        '["gem", "gem"]',
        '[""]',
        "[-1]",
        f"[{10**30}]",
        "[" * 2000 + "]" * 2000,
        '"""\n"""',
        "1979-05-27",
    ),
)
"""Values that replace one in a TOML file."""


class Attack(NamedTuple):
    """An alteration of one file of a folder: its name, for the summary, and what it does."""

    name: str
    alter: Callable[[Path, random.Random, Path], None]


def nasty_json(file: Path, rng: random.Random, outside: Path) -> None:
    """One to three values of a JSON file replaced, removed or added; checksums of a model or checkpoint are made to match."""
    content = json.loads(file.read_text())
    content.pop("seal", None)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(positions(content))
        owner, key = rng.choice(places)
        kind = rng.random()
        if kind < 0.1 and isinstance(owner, dict):
            del owner[key]
        elif kind < 0.2 and isinstance(owner, dict):
            owner[rng.choice(("", "..", "a\0b", ESCAPE, "x" * 5000, "extra"))] = rng.choice(NASTY)
        else:
            owner[key] = rng.choice(NASTY)
    file.write_text(json.dumps(content))
    with contextlib.suppress(Exception):  # it may be too damaged for that
        if file.name == "finished.json":
            write_sealed(file, content)
        elif file.name in ("model.json", "state.json"):
            sign(file.parent)


def nested(file: Path, rng: random.Random, outside: Path) -> None:
    """A file of brackets only, or with a deeply nested value."""
    deep = rng.choice((b"[", b'{"a":')) * DEEP
    text = file.read_bytes()
    inside = text.replace(b"{", b'{"deep": ' + b"[" * 900 + b"]" * 900 + b",", 1)
    file.write_bytes(rng.choice((deep, deep + b"1" + b"]" * DEEP, inside)))


def huge(file: Path, rng: random.Random, outside: Path) -> None:
    """A file of a gigabyte without blocks on the disk, or of millions of small values."""
    if rng.random() < 0.5:
        with file.open("r+b") as opened:
            opened.truncate(1 << 30)
    else:
        file.write_bytes(rng.choice((b'{"a":[' + b"[]," * 2_000_000 + b"[]]}", b"1\n" * 4_000_000, b"," * 7_000_000)))


def damaged(file: Path, rng: random.Random, outside: Path) -> None:
    """Flipped bits, a truncated file, noise, a pickle."""
    data = file.read_bytes() or b"x"
    file.write_bytes(rng.choice(DAMAGE)(data, rng))


def linked(file: Path, rng: random.Random, outside: Path) -> None:
    """The file, or its folder, is a link to something outside."""
    target = rng.choice(("precious", "precious", "folder", "missing", "file", "itself"))
    if target == "file":
        shutil.copy(file, outside / "file")
    file.unlink()
    file.symlink_to(file if target == "itself" else outside / target)


def hard_linked(file: Path, rng: random.Random, outside: Path) -> None:
    """The file is a hard link to a file outside with the same content."""
    shutil.copy(file, outside / "file")
    file.unlink()
    os.link(outside / "file", file)


def special(file: Path, rng: random.Random, outside: Path) -> None:
    """The file is a FIFO, a socket-like folder, or a device."""
    file.unlink()
    kind = rng.choice(("fifo", "fifo", "folder", "/dev/zero", "/dev/tty", "/dev/urandom", "/dev/full"))
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        number = os.stat(kind).st_rdev if os.path.exists(kind) else os.makedev(1, 5)
        try:
            os.mknod(file, 0o666 | stat.S_IFCHR, number)
        except PermissionError:
            file.symlink_to(kind)


def nasty_csv(file: Path, rng: random.Random, outside: Path) -> None:
    """Fields and lines of a CSV file replaced, removed or repeated."""
    rows = [line.split(",") for line in file.read_text().splitlines()]
    for _ in range(rng.choice((1, 1, 3))):
        at = rng.randrange(len(rows))
        kind = rng.random()
        if kind < 0.6 and rows[at]:
            rows[at][rng.randrange(len(rows[at]))] = rng.choice(CELLS)
        elif kind < 0.7:
            rows[at] = rows[at][: rng.randrange(len(rows[at]) + 1)]
        elif kind < 0.8:
            rows.insert(at, list(rng.choice(rows)))
        elif kind < 0.9:
            rows[at] = rows[at] * 3
        elif len(rows) > 1:
            del rows[at]
    file.write_text("\n".join(",".join(row) for row in rows) + rng.choice(("\n", "")), errors="replace")


def nasty_toml(file: Path, rng: random.Random, outside: Path) -> None:
    """Values of a TOML file replaced, and fields added."""
    lines = file.read_text().splitlines()
    at = rng.randrange(len(lines))
    name = lines[at].partition(" = ")[0]
    extra = (
        "a." * 30_000 + "a = 1",
        "[a" + ".a" * 30_000 + "]",
        "x = " + "{a=" * 1000 + "1" + "}" * 1000,
        'evil = "x"',
        "[" * 60_000,
    )
    lines[at] = rng.choice(extra) if rng.random() < 0.2 else f"{name} = {rng.choice(TOML_VALUES)}"
    file.write_text("\n".join(lines))


def flagged(file: Path, rng: random.Random, outside: Path) -> None:
    """Flags of the compiler that write files or end the process, and other fields that could reach outside."""
    content = json.loads(file.read_text())
    content |= rng.choice(
        (
            {"xla_flags": f"--xla_dump_to={outside}/dump"},
            {"xla_flags": "--no_such_flag"},
            {"threads": 10**6},
            {"threads": -1},
            {"track": "../x"},
            {"track": {"to": "wandb", "id": "../../x"}},
            {"track": {"to": "nobody", "id": "x"}},
            {"tensorboard": True},
            {"algo": ".."},
            {"algo": f"../../{outside.name}"},
            {"env": ESCAPE},
            {"env": "../../x"},
            {"steps": 10**400},
            {"n_envs": 10**7},
            {"seed": -1},
        )
    )
    file.write_text(json.dumps(content))


ANY_FILE = (
    Attack("nested", nested),
    Attack("huge", huge),
    Attack("damaged", damaged),
    Attack("link", linked),
    Attack("hard link", hard_linked),
    Attack("special file", special),
)

BY_ENDING = {
    ".json": (Attack("values", nasty_json), Attack("values", nasty_json), Attack("flags", flagged)),
    ".csv": (Attack("values", nasty_csv), Attack("values", nasty_csv)),
    ".toml": (Attack("values", nasty_toml), Attack("values", nasty_toml)),
}
"""Attacks on one kind of file, which are as frequent as all others together."""
