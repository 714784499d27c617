"""Runs the tests of an unpacked source distribution of Stable-Baselines3 with gemrl's classes: see README.md."""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

import pytest
import stable_baselines3


def main() -> int:
    """Runs the tests in an empty folder; returns pytest's exit code, or 1 if a failure has no known reason."""
    parser = argparse.ArgumentParser(prog="python -m tests.foreign", description=__doc__)
    parser.add_argument("source", type=Path, metavar="SOURCE", help="the unpacked source distribution")
    parser.add_argument("--table", type=Path, metavar="FILE", help="write the results to this file, as Markdown")
    options, arguments = parser.parse_known_args()
    source = options.source.resolve()
    check_version(source)
    if options.table:
        arguments += ["--foreign-table", str(options.table.resolve())]
    sys.path.insert(0, os.getcwd())  # the tests run elsewhere, and import this package
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        config = ["-c", str(source / "pyproject.toml"), "--rootdir", str(source), "-p", "no:cacheprovider"]
        # Tests that Stable-Baselines3 marks as expensive make models of gigabytes.
        return pytest.main([*config, "-p", "tests.foreign.plugin", "-m", "not expensive", *arguments, str(source / "tests")])


def check_version(source: Path) -> None:
    """Stops unless the tests belong to the installed version."""
    about = source / "PKG-INFO"
    found = re.search(r"^Version: (\S+)$", about.read_text(), re.MULTILINE) if about.exists() else None
    if found is None or not (source / "tests").is_dir():
        sys.exit(f"{source} is not an unpacked source distribution: it needs PKG-INFO and tests/")
    if found[1] != stable_baselines3.__version__:
        sys.exit(f"{source} is version {found[1]}, but {stable_baselines3.__version__} is installed")


if __name__ == "__main__":
    sys.exit(main())
