"""Installs each group into a virtual environment of its own, tries its environments, and writes docs/environments.md.

`python -m tests.packages [GROUP ...]` does so for some groups, and prints their rows only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.packages.groups import GROUPS, Group, World

FOLDER, PAGE = Path(".venvs"), Path("docs/environments.md")
MARK = "<!-- table -->"


def installed(group: Group) -> Path:
    """The Python of a group's virtual environment, which is made if it is not there."""
    folder = FOLDER / group.name
    python = folder / "bin" / "python"
    if not (folder / "done").exists():
        print(f"installing {', '.join(group.requires)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pins = ["-c", "constraints.txt"] if group.pinned else []
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *pins]
        subprocess.run([*install, "-e", ".", *group.requires], check=True, stderr=subprocess.DEVNULL)
        (folder / "done").touch()
    return python


def versions(python: Path, names: tuple[str, ...]) -> list[str]:
    """The installed versions of packages."""
    code = "import sys, importlib.metadata as m; print(*(m.version(name) for name in sys.argv[1:]))"
    return subprocess.run([str(python), "-c", code, *names], check=True, capture_output=True, text=True).stdout.split()


def tried(python: Path, world: World) -> dict[str, Any]:
    """What came of training in an environment."""
    command = [str(python), "-m", "tests.packages.one", world.env, *world.options]
    quiet = os.environ | {"SDL_VIDEODRIVER": "dummy", "MPLBACKEND": "Agg"}
    done = subprocess.run(command, capture_output=True, text=True, env=quiet, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return {"code": done.returncode or 1, "error": last}
    return json.loads(lines[-1].removeprefix("RESULT "))


def row(world: World, version: str, python_facts: str, found: dict[str, Any]) -> str:
    """The line of an environment in the table."""
    words = [f'"{word}"' if "'" in word else word for word in (world.env, *world.options)]
    how = f"`gemrl train {' '.join(words)}`"
    if found["code"]:
        return f"| {how} | {world.package} {version} | {python_facts} | | | failed: {found.get('error', 'see above')} |"
    numbers = f"{found['random']:,.1f} | {found['trained']:,.1f}"
    return f"| {how} | {world.package} {version} | {python_facts} | {found['spaces']} | {numbers} |"


def rows(group: Group) -> tuple[list[str], bool]:
    """The lines of a group, and whether all of its environments worked."""
    python, lines, fine = installed(group), [], True
    base = dict(zip(("gymnasium", "numpy"), versions(python, ("gymnasium", "numpy")), strict=True))
    facts = ", ".join(f"{name} {version}" for name, version in base.items())
    for world in group.worlds:
        found = tried(python, world)
        fine &= found["code"] == 0
        lines.append(row(world, versions(python, (world.package,))[0], facts, found))
        print(lines[-1], flush=True)
    return lines, fine


def main() -> None:
    """Tries the groups; exits with 1 if an environment did not work."""
    if unknown := set(sys.argv[1:]) - {group.name for group in GROUPS}:
        sys.exit(f"unknown group {min(unknown)!r}; known: {', '.join(group.name for group in GROUPS)}")
    chosen = [group for group in GROUPS if not sys.argv[1:] or group.name in sys.argv[1:]]
    results = [rows(group) for group in chosen]
    if len(chosen) == len(GROUPS):
        before, _, _ = PAGE.read_text().partition(MARK)
        head = "| command | package | with | observations, actions | random play | after 5,000 steps |\n|---|---|---|---|---|---|"
        table = "\n".join(line for lines, _ in results for line in lines)
        PAGE.write_text(f"{before}{MARK}\n\n{head}\n{table}\n")
    sys.exit(0 if all(fine for _, fine in results) else 1)


if __name__ == "__main__":
    main()
